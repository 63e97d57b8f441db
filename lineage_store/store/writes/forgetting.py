"""Forgetting a base dir: everything that the store holds of it goes, in bounded steps.

In: a connection and a base dir. Out: what there is to forget, and whether more has to go.
Promises: from the first step on, what is left no longer counts as the base dir. It stands under a name that is no path,
so that an interrupted removal is neither ingested into nor in the way of the next ingest, and can be taken up again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, update

from lineage_store.store.catalog import registry
from lineage_store.store.schema import partitions
from lineage_store.store.schema.tables import (
    annotation,
    base_dir,
    ingest_problem,
    log_file,
    series,
    train_job,
)
from lineage_store.store.writes.lineage import remove_lineage
from lineage_store.store.writes.removal import SAMPLES, name_while_leaving, remove_series
from lineage_store.texts import key


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the store holds of a base dir."""

    jobs: int
    annotated: int
    """Jobs that have a label or a remark, which exist nowhere else."""


def ids_of(connection: Connection, path: str) -> list[int]:
    """The base dir at a stored path, if the store knows it, and what an interrupted removal has left of it."""
    rows = connection.execute(select(base_dir.c.id, base_dir.c.path).order_by(base_dir.c.id))
    going = name_while_leaving(path)
    return [row.id for row in rows if row.path in (path, going, _name_while_going(row.id, path))]


def holdings(connection: Connection, ids: Sequence[int]) -> Holdings:
    """What the store holds of these base dirs."""
    jobs, annotated = (
        connection.execute(select(func.count()).where(table.c.base_dir_id.in_(ids))).scalar_one()
        for table in (train_job, annotation)
    )
    return Holdings(jobs, annotated)


def begin(connection: Connection, base_dir_id: int, path: str) -> None:
    """Take the path away from a base dir."""
    name = _name_while_going(base_dir_id, path)
    renamed = update(base_dir).where(base_dir.c.id == base_dir_id)
    connection.execute(renamed.values(path=name, path_key=key(name), leaving=True))


def remove_part(connection: Connection, base_dir_id: int, most_rows: int) -> bool:
    """Remove about `most_rows` rows at most; whether there is more to remove."""
    jobs = select(train_job.c.id).where(train_job.c.base_dir_id == base_dir_id).order_by(train_job.c.id)
    some = connection.execute(jobs.limit(most_rows)).scalars().all()
    whole = partitions.going_whole(connection, base_dir_id, some)
    for job_id in some:
        samples = () if job_id in whole else SAMPLES
        most_rows = remove_series(connection, series.c.job_id == job_id, most_rows, samples)
        if most_rows <= 0:
            return True
        remove_lineage(connection, [job_id])
        for table in (log_file, ingest_problem):  # whose foreign keys a distributed store has not
            connection.execute(delete(table).where(table.c.job_id == job_id))
        connection.execute(delete(train_job).where(train_job.c.id == job_id))
        most_rows -= 1
    if most_rows > 0:
        registry.drop_base_dir(connection, base_dir_id)
    return most_rows <= 0


def _name_while_going(base_dir_id: int, path: str) -> str:
    return f"being forgotten ({base_dir_id}): {path}"
