"""Base dirs that were moved, and jobs that the store has in two base dirs. Only reads.

In: a connection, a stored path or a base dir. Out: where the base dir is now, or which others have the same jobs.
Promises: two jobs count as the same only if they have the same train id and a log file with the same name and the same
digest of its first frame.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, func, select

from lineage_store.findings import Finding, finding
from lineage_store.store.catalog import registry
from lineage_store.store.schema.tables import base_dir, log_file, train_job
from lineage_store.texts import from_stored


def moved_to(connection: Connection, path: str) -> tuple[int, str] | None:
    """Return the base dir, as (id, stored path), that was at `path` before it was moved; None if there is none."""
    moved = select(base_dir.c.id, base_dir.c.path, base_dir.c.moved_from).where(
        base_dir.c.moved_from.is_not(None)
    )
    rows = connection.execute(moved.where(~base_dir.c.leaving).order_by(base_dir.c.id))
    return next(((row.id, row.path) for row in rows if path in json.loads(row.moved_from)), None)


def same_jobs(connection: Connection, base_dir_id: int) -> Mapping[int, int]:
    """Return, by the id of each other base dir that also has jobs of this one, how many."""
    mine, other = train_job.alias("mine"), train_job.alias("other")
    file, again = log_file.alias("file"), log_file.alias("again")
    ours = select(mine.c.train_id, file.c.name, file.c.fingerprint).join(file, file.c.job_id == mine.c.id)
    # In a CTE of its own, because the jobs of two base dirs may be on different workers of Citus.
    here = ours.where(mine.c.base_dir_id == base_dir_id).cte("here")
    found = (
        select(other.c.base_dir_id, func.count(other.c.id.distinct()))
        .select_from(here)
        .join(base_dir, (base_dir.c.id != base_dir_id) & ~base_dir.c.leaving)
        .join(other, (other.c.base_dir_id == base_dir.c.id) & (other.c.train_id == here.c.train_id))
        .join(again, (again.c.job_id == other.c.id) & (again.c.name == here.c.name))
        .where(again.c.fingerprint == here.c.fingerprint)
        .group_by(other.c.base_dir_id)
    )
    return {row[0]: row[1] for row in connection.execute(found)}


def known_twice(connection: Connection, base_dir_id: int | None = None) -> Iterator[Finding]:
    """Yield a finding for each pair of base dirs that have jobs in common: for all base dirs, or those of one."""
    paths = {number: from_stored(path) for number, path in registry.base_dirs(connection)}
    asked = paths if base_dir_id is None else [base_dir_id]
    for number in asked if len(paths) > 1 else ():
        for other, jobs in same_jobs(connection, number).items():
            if base_dir_id is not None or number < other:
                yield finding("known_twice", paths[number], jobs=jobs, other=paths[other])
