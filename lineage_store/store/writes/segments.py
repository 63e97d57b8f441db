"""Removing series with their samples, which no foreign key takes along.

In: a condition on `series`. Out: rows gone, no more than asked for at a time.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, delete, select

from lineage_store.store.schema.tables import payload_sample, scalar_sample, series


def remove_series(connection: Connection, mine: ColumnElement[bool], most_rows: int) -> int:
    """Remove series that meet a condition, samples first; how many rows are left of `most_rows`.

    None left (0 or less) means that there may be more to remove.
    """
    found = select(series.c.job_id, series.c.id).where(mine).order_by(series.c.id).limit(most_rows)
    for job_id, series_id in connection.execute(found).all():
        for table in (scalar_sample, payload_sample):
            of_series = (table.c.job_id == job_id) & (table.c.series_id == series_id)
            some = select(table.c.step).where(of_series).order_by(table.c.step).limit(most_rows)
            most_rows -= connection.execute(delete(table).where(of_series, table.c.step.in_(some))).rowcount
            if most_rows <= 0:
                return most_rows
        connection.execute(delete(series).where(series.c.id == series_id))
        most_rows -= 1
    return most_rows
