"""Removal of jobs from the store: they are taken out of readers' sight first, then their rows are deleted in steps.

In: an engine, leases, jobs. Out: tombstones in place of the jobs. Promises: every transaction is bounded and confirms a
lease; if the process ends in between, readers see nothing of the jobs, and the next removal deletes the rest. Policies
remove by themselves what may go in a day (store/writes/removal.py); that others wait is stored for all to see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.ingest.lease import writing_under
from lineage_store.store import clock, leases
from lineage_store.store.admin import partitioning
from lineage_store.store.catalog.policies import Expired, count_expired, expired, has_policies
from lineage_store.store.catalog.tombstones import BY_POLICY
from lineage_store.store.database.engine import database_time, reading, writing
from lineage_store.store.holders import holder_name
from lineage_store.store.leases import Lease
from lineage_store.store.shards import ALL, Shards
from lineage_store.store.writes import forgetting, removal
from lineage_store.store.writes.removal import Cause

JOBS_AT_A_TIME, NAMED_AT_A_TIME = 200, 10_000
"""How many jobs one transaction takes out of sight, and how many one query for jobs to be removed returns at most."""


@dataclass(frozen=True, slots=True)
class Look:
    """What policies find in a base dir, or in some shards of it."""

    named: Sequence[Expired]
    """The oldest of the jobs that they name, as many as may go now."""
    more: bool
    """Whether to look again at once, when these have gone."""
    waiting: int
    """How many jobs of the base dir wait for a person."""
    clock_off_s: float | None
    """How far the clock is off; None: it agrees with what the store wrote down."""


def look(engine: Engine, base_dir_id: int, settings: Settings, shards: Shards = ALL) -> Look:
    """Look up which jobs policies remove now, and store what waits for a person."""
    with reading(engine) as connection:
        now = database_time(connection)
        off_s = clock.off_s(connection, base_dir_id, now) if has_policies(settings) else None
        limit, named = NAMED_AT_A_TIME, list[Expired]()
        if off_s is None:
            named = expired(connection, base_dir_id, settings, now, limit=limit, shards=shards)
        noted = removal.noted_waiting(connection, base_dir_id)
        may_go = removal.may_go(connection, base_dir_id, now) if named or noted.jobs else 0
        count = count_expired(connection, base_dir_id, settings, now) if named or noted.jobs else 0
    waiting = noted.jobs if off_s is not None else max(0, count - may_go)
    if noted != (waiting, off_s):
        with writing(engine) as connection:
            removal.note_waiting(connection, base_dir_id, waiting, off_s, now)
    return Look(named[:may_go], len(named) == limit and not waiting, waiting, off_s)


def take_out_of_sight(
    engine: Engine,
    lead: Lease,
    leaving: Lease,
    named: Sequence[Expired],
    cause: Cause,
    number: int | None = None,
) -> tuple[list[Expired], int | None]:
    """Take those of the `named` jobs out of sight that have not changed since they were named, as many as may go.

    Return them, and the number of the removal that they are part of; None if there is none yet.

    Args:
        lead: the lease of the base dir or of one shard; jobs of other shards are left alone.
        leaving: the lease of the base dir that holds what is being removed.
        number: the number of the removal that these jobs continue.

    Raises LeaseLostError.
    """
    mine = [job for job in named if lead.shards.hold(job.train_id)]
    with writing_under(engine, lead) as (connection, now):
        leases.confirm(connection, leaving)
        places = lead.base_dir_id, leaving.base_dir_id
        return removal.begin_unchanged(connection, *places, mine, cause, now, number)


def cause_of(named: Sequence[Expired], *, confirmed: bool = False) -> Cause:
    """Return the cause of a removal by policies."""
    reason = BY_POLICY + ", ".join(sorted({job.policy for job in named}))
    return Cause(reason, holder_name(), by_policy=True, confirmed=confirmed)


def remove_rows(
    engine: Engine,
    leaving: Lease,
    rows_at_a_time: int,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    rest: Callable[[float], None] = lambda _: None,
) -> None:
    """Delete the rows of what is leaving, and drop the partitions that are then empty. Raises LeaseLostError.

    Args:
        rest: called after each step with the number of seconds that the step took.
    """
    more = True
    while more:
        if should_stop():
            return
        began = monotonic()
        with writing_under(engine, leaving) as (connection, _):
            more = forgetting.remove_part(connection, leaving.base_dir_id, rows_at_a_time)
        rest(monotonic() - began)
    partitioning.drop_vacated(engine)
