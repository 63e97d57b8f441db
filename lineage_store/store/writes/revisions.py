"""Revisions: numbers by which readers find the jobs of a base dir that have changed since they last asked.

In: a write transaction that changes jobs. Out: the base dir's next revision, on its row and on those jobs. Promises: a
reader that sees a base dir at revision N sees all changes up to N and none after: the base dir's row stays locked until
the transaction ends, so the next revision is taken only after the commit. No revision is used twice, even when a power
cut undoes commits that were not synced, for revisions follow the clock. Take a revision late in a transaction: others,
such as one that stores a remark, wait for the same row.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, case, update
from sqlalchemy.sql.dml import ReturningUpdate

from lineage_store.store.database.dialects import among, unix_ms
from lineage_store.store.schema.tables import base_dir, train_job


def take(connection: Connection, base_dir_id: int) -> int:
    """Return a base dir's next revision, which the caller stores on all that changes: jobs and tombstones."""
    taken: int = connection.execute(_next(connection.dialect.name), {"of_id": base_dir_id}).scalar_one()
    return taken


@cache
def _next(dialect_name: str) -> ReturningUpdate[Any]:
    now, last = unix_ms(dialect_name), base_dir.c.revision
    this = update(base_dir).where(base_dir.c.id == bindparam("of_id"))
    return this.values(revision=case((now > last, now), else_=last + 1)).returning(last)


def stamp(connection: Connection, base_dir_id: int, job_ids: Collection[int]) -> None:
    """Give jobs the next revision of their base dir, because something has changed that readers see."""
    if job_ids:
        changed = update(train_job).where(among(connection, train_job.c.id, job_ids))
        connection.execute(changed.values(revision=take(connection, base_dir_id)))
