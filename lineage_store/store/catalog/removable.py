"""Find the jobs that the rules of a clean-up name. Only reads.

In: rules, a base dir, the database's time. Out: jobs, a page at a time. Promises: never names live jobs; names and
modification times of files are no sign of life. Does not know conditions: they are given as SELECTs of job ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, func, select

from lineage_store.states import JobState
from lineage_store.store.database.types import UtcTime
from lineage_store.store.schema.tables import train_job


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a clean-up: a job must fulfil all that are given; callers give at least one."""

    text: str
    """The rules in words, for the tombstone."""
    older_than_s: float | None = None
    """For so long the job had no event and no growth."""
    missing: bool = False
    """If true, no log file of the job is left on disk."""
    among: Select[Any] | None = None
    """Ids of the jobs that a condition matches."""


class Removable(NamedTuple):
    """A job that the rules name; `train_id` is in its stored form."""

    id: int
    train_id: str
    state: str
    last_wall_time: float | None
    log_bytes: int


def removable(
    connection: Connection, base_dir_id: int, rules: Rules, now: datetime, *, limit: int, after: int = 0
) -> list[Removable]:
    """Return the next `limit` jobs that the rules name with an id greater than `after`, by id."""
    behind = (train_job.c.base_dir_id == base_dir_id) & (train_job.c.id > after)
    columns = (train_job.c[name] for name in Removable._fields)
    wanted = select(*columns).where(behind, train_job.c.state.not_in([JobState.LIVE, JobState.READING]))
    if rules.older_than_s is not None:
        wanted = wanted.where(without_life_since(now - timedelta(seconds=rules.older_than_s)))
    if rules.missing:
        wanted = wanted.where(~train_job.c.source_present)
    if rules.among is not None:
        wanted = wanted.where(train_job.c.id.in_(rules.among.order_by(None)))
    rows = connection.execute(wanted.order_by(train_job.c.id).limit(limit))
    return [Removable._make(row) for row in rows]


def all_and_live(connection: Connection, base_dir_ids: Sequence[int]) -> tuple[int, int]:
    """Return how many jobs some base dirs have, and how many of them are live."""
    mine = train_job.c.base_dir_id.in_(base_dir_ids)
    counted = select(train_job.c.state, func.count().label("jobs")).where(mine).group_by(train_job.c.state)
    by_state = {row.state: row.jobs for row in connection.execute(counted)}
    return sum(by_state.values()), by_state.get(JobState.LIVE, 0)


def any_present(connection: Connection, base_dir_id: int) -> bool:
    """Return whether any log file of the base dir was on disk when ingest last looked."""
    mine = (train_job.c.base_dir_id == base_dir_id) & train_job.c.source_present
    return connection.execute(select(train_job.c.id).where(mine).limit(1)).first() is not None


def without_life_since(cutoff: datetime) -> ColumnElement[bool]:
    """Return the condition that the last sign of life of a job is older than `cutoff` (`train_job.alive_at`)."""
    return func.coalesce(train_job.c.alive_at, train_job.c.created_at, type_=UtcTime()) < cutoff
