"""Revisions: which jobs of a base dir have changed since somebody looked.

In: a write transaction that changes jobs. Out: the next number of its base dir, on the base dir and on those jobs.
Promises: who sees a base dir at revision N sees every change up to N and none beyond: the base dir's row stays locked
until the transaction ends, so the next is taken only when N was committed. No number is given twice, not even when a
power cut takes back what was not synced yet: numbers go with the clock. Take it late in the transaction: whoever puts a
remark on a job waits for the same row.
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
    """The next revision of a base dir. What changes goes with it: a job that changed carries it, or a tombstone."""
    taken: int = connection.execute(_next(connection.dialect.name), {"of_id": base_dir_id}).scalar_one()
    return taken


@cache
def _next(dialect_name: str) -> ReturningUpdate[Any]:
    now, last = unix_ms(dialect_name), base_dir.c.revision
    this = update(base_dir).where(base_dir.c.id == bindparam("of_id"))
    return this.values(revision=case((now > last, now), else_=last + 1)).returning(last)


def stamp(connection: Connection, base_dir_id: int, job_ids: Collection[int]) -> None:
    """Take the next revision of a base dir for these jobs, of which something has changed that readers see."""
    if job_ids:
        changed = update(train_job).where(among(connection, train_job.c.id, job_ids))
        connection.execute(changed.values(revision=take(connection, base_dir_id)))
