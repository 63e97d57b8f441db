"""Forgetting a base dir: all its rows are deleted, in bounded steps.

In: a connection and a base dir. Out: what the store has of it, and whether there is more to delete.
Promises: from the first step on, the base dir is no longer known by its path. The rows left are under a name that is no
path, so that after an interruption nothing is ingested into them, the path can be ingested anew, and the removal can be
resumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, update

from lineage_store.store.catalog import registry
from lineage_store.store.database.dialects import among
from lineage_store.store.schema import partitions
from lineage_store.store.schema.tables import (
    ANNOTATED,
    SAID,
    annotation,
    base_dir,
    ingest_problem,
    log_file,
    payload_sample,
    scalar_bucket,
    scalar_sample,
    series,
    train_job,
)
from lineage_store.store.writes.lineage import remove_lineage
from lineage_store.store.writes.removal import name_while_leaving, remove_series
from lineage_store.texts import key

_MOST_JOBS = 200
"""How many jobs one step deletes: a job's rows in other tables than those of samples and series, which are bounded, are
not counted."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """How much the store holds of a base dir."""

    jobs: int
    annotated: int
    """How many of the jobs have a label or a remark, which exist nowhere else."""
    of_removed: int = 0
    """How many jobs that were removed have a label or a remark, which they get back when they are read again."""


def ids_of(connection: Connection, path: str) -> list[int]:
    """Return the ids of the base dir at a stored path, if it is known, and of what interrupted removals left of it."""
    rows = connection.execute(select(base_dir.c.id, base_dir.c.path).order_by(base_dir.c.id))
    going = name_while_leaving(path)
    return [row.id for row in rows if row.path in (path, going, _name_while_going(row.id, path))]


def holdings(connection: Connection, ids: Sequence[int]) -> Holdings:
    """Count what the store holds of these base dirs."""
    jobs = connection.execute(select(func.count()).where(train_job.c.base_dir_id.in_(ids))).scalar_one()
    said = select(func.count()).select_from(annotation).where(annotation.c.base_dir_id.in_(ids), SAID)
    everybodys = connection.execute(said).scalar_one()
    annotated = connection.execute(said.join(train_job, ANNOTATED)).scalar_one()
    return Holdings(jobs, annotated, everybodys - annotated)


def begin(connection: Connection, base_dir_id: int, path: str) -> None:
    """Rename a base dir, so that it is no longer known by its path."""
    name = _name_while_going(base_dir_id, path)
    renamed = update(base_dir).where(base_dir.c.id == base_dir_id)
    connection.execute(renamed.values(path=name, path_key=key(name), leaving=True))


def remove_part(connection: Connection, base_dir_id: int, most_rows: int) -> bool:
    """Delete about `most_rows` samples and series at most, and jobs that then have none. The last step deletes the row
    of the base dir.

    Return whether there may be more to delete.
    """
    next_jobs = select(train_job.c.id).where(train_job.c.base_dir_id == base_dir_id).order_by(train_job.c.id)
    jobs = connection.execute(next_jobs.limit(min(most_rows, _MOST_JOBS))).scalars().all()
    with_partition = partitions.going_whole(connection, base_dir_id, jobs)
    some = list(_first_of_at_most(most_rows, jobs, _sizes(connection, jobs, with_partition)))
    if not jobs:
        registry.drop_base_dir(connection, base_dir_id)
    elif not some:
        remove_series(connection, jobs[0], most_rows)
    else:
        one_by_one = [job_id for job_id in some if job_id not in with_partition]
        for table in (scalar_sample, payload_sample):
            connection.execute(delete(table).where(among(connection, table.c.job_id, one_by_one)))
        remove_lineage(connection, some)
        # Foreign keys would not do: samples and buckets have none, and a distributed store has none at all.
        for table in (scalar_bucket, series, log_file, ingest_problem):
            connection.execute(delete(table).where(among(connection, table.c.job_id, some)))
        connection.execute(delete(train_job).where(among(connection, train_job.c.id, some)))
    return bool(jobs)


def _sizes(connection: Connection, jobs: Collection[int], with_partition: Collection[int]) -> dict[int, int]:
    """How many rows of series and samples jobs have, without samples whose partition is dropped as a whole. Jobs
    without series are left out."""
    job_id, samples = series.c.job_id, func.sum(series.c.sample_count - series.c.thinned_count)
    sizes = select(job_id, func.count(), samples).where(among(connection, job_id, jobs)).group_by(job_id)
    return {
        row[0]: row[1] if row[0] in with_partition else row[1] + int(row[2])
        for row in connection.execute(sizes)
    }


def _first_of_at_most(most_rows: int, jobs: Iterable[int], sizes: Mapping[int, int]) -> Iterator[int]:
    """The first of the jobs, as many as have at most `most_rows` rows together."""
    for job_id in jobs:
        most_rows -= sizes.get(job_id, 0)
        if most_rows < 0:
            return
        yield job_id


def _name_while_going(base_dir_id: int, path: str) -> str:
    return f"being forgotten ({base_dir_id}): {path}"
