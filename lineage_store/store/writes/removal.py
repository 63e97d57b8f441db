"""Removing jobs: out of readers' sight at once, then out of the tables in bounded steps.

In: ids of jobs of one base dir. Out: a base dir that is leaving, which holds them until `forgetting.remove_part` has
removed it. Promises: a job is there, or out of sight with a tombstone in its place, or gone; there is nothing between.
Labels and remarks stay with the base dir, for the case that the job comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, Text, cast, delete, func, select, update

from lineage_store.store.database.dialects import among, upsert
from lineage_store.store.schema.tables import (
    base_dir,
    ingest_problem,
    payload_sample,
    scalar_sample,
    series,
    tombstone,
    train_job,
)
from lineage_store.store.writes import revisions
from lineage_store.texts import key


def ensure_leaving(connection: Connection, base_dir_id: int, now: datetime) -> int:
    """The id of the base dir that holds what is being removed of this one, made if need be."""
    path: str = connection.execute(select(base_dir.c.path).where(base_dir.c.id == base_dir_id)).scalar_one()
    name = name_while_leaving(path)
    row = {"path": name, "path_key": key(name), "created_at": now, "leaving": True}
    connection.execute(upsert(connection, base_dir, ["path_key"]), row)
    found: int = connection.execute(
        select(base_dir.c.id).where(base_dir.c.path_key == key(name))
    ).scalar_one()
    return found


def begin(
    connection: Connection,
    base_dir_id: int,
    leaving_id: int,
    job_ids: Sequence[int],
    reason: str,
    now: datetime,
) -> None:
    """Take jobs of a base dir out of sight, and leave tombstones."""
    if not job_ids:
        return
    revision = revisions.take(connection, base_dir_id)
    _bury(connection, job_ids, {"removed_at": now, "reason": reason, "revision": revision, "lifted": False})
    # Their ids are free for others: what an interrupted removal has left may have the same.
    unlike = train_job.c.train_id.concat(" ").concat(cast(train_job.c.id, Text))
    jobs = update(train_job).where(among(connection, train_job.c.id, job_ids))
    connection.execute(jobs.values(base_dir_id=leaving_id, train_id=unlike))
    problems = update(ingest_problem).where(among(connection, ingest_problem.c.job_id, job_ids))
    connection.execute(problems.values(base_dir_id=leaving_id))


SAMPLES = (scalar_sample, payload_sample)


def remove_series(
    connection: Connection, mine: ColumnElement[bool], most_rows: int, samples: Sequence[Table] = SAMPLES
) -> int:
    """Remove series that meet a condition with their `samples`, which no foreign key takes along, samples first.

    How many rows are left of `most_rows`; none left (0 or less) means that there may be more to remove.
    """
    order = series.c.job_id, series.c.series_no
    found = select(*order).where(mine).order_by(*order).limit(most_rows)
    for job_id, series_no in connection.execute(found).all():
        for table in samples:
            of_series = (table.c.job_id == job_id) & (table.c.series_no == series_no)
            some = select(table.c.step).where(of_series).order_by(table.c.step).limit(most_rows)
            most_rows -= connection.execute(delete(table).where(of_series, table.c.step.in_(some))).rowcount
            if most_rows <= 0:
                return most_rows
        this = (series.c.job_id == job_id) & (series.c.series_no == series_no)
        connection.execute(delete(series).where(this))
        most_rows -= 1
    return most_rows


def name_while_leaving(path: str) -> str:
    """What stands for the jobs of a base dir (stored path) that are being removed: no path."""
    return f"being removed: {path}"


def lift(connection: Connection, base_dir_id: int, train_id: str) -> bool:
    """Let a removed job be ingested again; whether it was removed at all."""
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
