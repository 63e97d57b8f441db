"""Removing jobs: they are taken out of readers' sight at once, and deleted later in bounded steps.

In: ids of jobs of one base dir. Out: a second base dir, marked as leaving, which has the jobs until
`forgetting.remove_part` has deleted them. Promises: readers see either a whole job, or none and a tombstone in its
place. Labels and remarks stay with the base dir, in case the job comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, Text, cast, delete, func, select, update

from lineage_store.store.catalog import registry
from lineage_store.store.catalog.policies import Expired
from lineage_store.store.catalog.tombstones import BY_POLICY
from lineage_store.store.database.dialects import among, upsert
from lineage_store.store.schema.tables import (
    base_dir,
    in_series,
    ingest_problem,
    samples_of,
    scalar_bucket,
    scalar_sample,
    series,
    tombstone,
    train_job,
)
from lineage_store.store.writes import revisions


def ensure_leaving(connection: Connection, base_dir_id: int, now: datetime) -> int:
    """Return the id of the base dir that holds what is being removed of this one; insert it if there is none."""
    return registry.ensure_base_dir(connection, _leaving_name(connection, base_dir_id), now, leaving=True)


def is_leaving(connection: Connection, base_dir_id: int) -> bool:
    """Whether jobs of a base dir are being removed, or an interrupted removal has left some."""
    return registry.base_dir_id(connection, _leaving_name(connection, base_dir_id)) is not None


def _leaving_name(connection: Connection, base_dir_id: int) -> str:
    path = select(base_dir.c.path).where(base_dir.c.id == base_dir_id)
    return name_while_leaving(connection.execute(path).scalar_one())


def begin(
    connection: Connection,
    base_dir_id: int,
    leaving_id: int,
    job_ids: Sequence[int],
    reason: str,
    now: datetime,
) -> None:
    """Take jobs of a base dir out of readers' sight, and insert tombstones with the reason."""
    if job_ids:
        revision = revisions.take(connection, base_dir_id)
        _begin(connection, leaving_id, job_ids, reason, revision, now)


def begin_unchanged(
    connection: Connection, base_dir_id: int, leaving_id: int, named: Sequence[Expired], now: datetime
) -> list[Expired]:
    """Take those jobs out of readers' sight that have not changed since policies named them; return them."""
    # First, so that no label can be given until the commit.
    revision = revisions.take(connection, base_dir_id)
    still = select(train_job.c.id, train_job.c.revision).where(
        train_job.c.base_dir_id == base_dir_id, among(connection, train_job.c.id, (job.id for job in named))
    )
    known = {row.id: row.revision for row in connection.execute(still)}
    going = [job for job in named if known.get(job.id) == job.revision]
    for policy in sorted({job.policy for job in going}):
        jobs = [job.id for job in going if job.policy == policy]
        _begin(connection, leaving_id, jobs, BY_POLICY + policy, revision, now)
    return going


def _begin(
    connection: Connection, leaving_id: int, job_ids: Sequence[int], reason: str, revision: int, now: datetime
) -> None:
    _bury(connection, job_ids, {"removed_at": now, "reason": reason, "revision": revision, "lifted": False})
    # With the job's id, for an interrupted removal may have left a job with the same train id.
    unlike = train_job.c.train_id.concat(" ").concat(cast(train_job.c.id, Text))
    jobs = update(train_job).where(among(connection, train_job.c.id, job_ids))
    connection.execute(jobs.values(base_dir_id=leaving_id, train_id=unlike))
    problems = update(ingest_problem).where(among(connection, ingest_problem.c.job_id, job_ids))
    connection.execute(problems.values(base_dir_id=leaving_id))


def remove_series(connection: Connection, job_id: int, most_rows: int, *which: ColumnElement[bool]) -> int:
    """Delete series of a job and their samples, for which there is no foreign key; samples first.

    Return what is left of `most_rows` after the deleted rows; 0 or less means that there may be more to delete.
    """
    there = (series.c.sample_count - series.c.thinned_count).label("rows")
    told = (*(series.c[name] for name in ("series_no", "plugin", "first_step")), there)
    found = select(*told).where(series.c.job_id == job_id, *which)
    whole: dict[Table, list[int]] = {}
    for row in connection.execute(found.limit(most_rows)).all():
        if row.rows > most_rows:
            _behead(connection, job_id, row, most_rows)
            most_rows = 0
        else:
            whole.setdefault(samples_of(row.plugin), []).append(row.series_no)
            most_rows -= row.rows + 1
        if most_rows <= 0:
            break
    for samples, numbers in whole.items():
        for table in (samples, scalar_bucket, series) if samples is scalar_sample else (samples, series):
            mine = among(connection, table.c.series_no, numbers)
            connection.execute(delete(table).where(table.c.job_id == job_id, mine))
    return most_rows


def _behead(connection: Connection, job_id: int, of: Row[Any], rows: int) -> None:
    """Delete the first samples of a series, and note what is left, so that the next step begins behind them."""
    samples = samples_of(of.plugin)
    step = samples.c.step
    this = job_id, of.series_no
    mine = in_series(samples, this) & (step >= of.first_step)
    behind = connection.execute(select(step).where(mine).order_by(step).offset(rows).limit(1)).scalar()
    connection.execute(delete(samples).where(mine if behind is None else mine & (step < behind)))
    left = {
        "first_step": of.first_step if behind is None else behind,
        "sample_count": series.c.sample_count - rows,
    }
    connection.execute(update(series).where(in_series(series, this)).values(left))


def name_while_leaving(path: str) -> str:
    """Return the name, which is no path, of the base dir that holds what is being removed of the one at `path`."""
    return f"being removed: {path}"


def lift(connection: Connection, base_dir_id: int, train_id: str) -> bool:
    """Allow a removed job to be ingested again; return whether it was removed at all."""
    mine = (tombstone.c.base_dir_id == base_dir_id) & (tombstone.c.train_id == train_id)
    if connection.execute(select(tombstone.c.train_id).where(mine, ~tombstone.c.lifted)).first() is None:
        return False
    lifted = {"lifted": True, "revision": revisions.take(connection, base_dir_id)}
    connection.execute(update(tombstone).where(mine).values(lifted))
    return True


def _bury(connection: Connection, job_ids: Sequence[int], why: Mapping[str, Any]) -> None:
    removed = select(
        train_job.c.base_dir_id,
        train_job.c.train_id,
        func.coalesce(train_job.c.last_file_time, 0).label("last_file_time"),
    ).where(among(connection, train_job.c.id, job_ids))
    rows = [{**row, **why} for row in connection.execute(removed).mappings().all()]
    keys, rest = ["base_dir_id", "train_id"], ["last_file_time", *why]
    connection.execute(upsert(connection, tombstone, keys, rest), rows)
