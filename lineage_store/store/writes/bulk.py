"""Write many samples at once, in the way that is fastest for each database.

In: columns of samples of known series, by series and ascending step. Out: rows; they replace rows with the same key.
SQLite gets them through `staged_insert`, in the order of their keys; PostgreSQL gets one binary COPY, after the rows
that are to be replaced were deleted. Promises: the same rows on both; NaN becomes NULL. Does not know statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Table, delete, func, literal
from sqlalchemy.dialects.postgresql import ARRAY

from lineage_store.store.records import SampleColumns
from lineage_store.store.writes import binary_copy, staged_insert

Integers = NDArray[np.int64]


def write(
    connection: Connection,
    table: Table,
    samples: SampleColumns,
    series_nos: Integers,
    rewritten: Sequence[int],
) -> None:
    """Store samples.

    Args:
        series_nos: for each series of `samples.series`, its number within its job.
        rewritten: indices in `samples.series` of the series of which some steps may be stored already.
    """
    job_ids = np.array([name.file.job_id for name in samples.series])
    known = {
        "job_id": job_ids[samples.number],
        "series_no": series_nos[samples.number],
        "step": samples.steps,
    }
    found = {**samples.columns, **known}
    columns = [found.get(column.name) for column in table.columns]
    if connection.dialect.name == "sqlite":
        rank = np.argsort(np.lexsort((series_nos, job_ids)))[samples.number]
        if (np.diff(rank) < 0).any():
            order = np.argsort(rank, kind="stable")
            columns = [None if column is None else column[order] for column in columns]
        staged_insert.insert(connection, table, columns)
        return
    if rewritten:
        again = np.isin(samples.number, rewritten)
        _delete(connection, table, {name: keys[again] for name, keys in known.items()})
    binary_copy.copy(connection, table, columns)


def _delete(connection: Connection, table: Table, keys: Mapping[str, Integers]) -> None:
    """Delete the rows with these keys, as far as they exist, by one statement for all series."""
    columns = [table.c[name] for name in keys]
    lists = (literal(keys[column.name].tolist(), ARRAY(column.type)) for column in columns)
    again = func.unnest(*lists).table_valued(*keys, name="again").render_derived()
    connection.execute(delete(table).where(*(column == again.c[column.name] for column in columns)))
