"""Retention: jobs are removed from the store and series thinned, for a person or by the policies of the settings.

In: an engine, leases, and jobs or series that policies name. Out: tombstones in place of the jobs, whose rows are
deleted in steps after readers see nothing of them; fewer samples of the series; log lines. Promises: every transaction
is bounded and confirms a lease; if the process ends in between, the next removal deletes the rest, and each series is
either whole or thinned; a series whose job has changed since its samples were read is not thinned. What waits for a
person is stored for all to see. Does not know which jobs policies name (store/catalog/retention.py), nor how many may
go in a day (store/writes/removal.py).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError, LeaseHeldError, LeaseLostError
from lineage_store.ingest.lease import release_lease, writing_under
from lineage_store.store import clock, leases
from lineage_store.store.admin import partitioning
from lineage_store.store.catalog.registry import BY_POLICY
from lineage_store.store.catalog.retention import (
    Expired,
    SeriesKey,
    Thinnable,
    count_expired,
    expired,
    has_policies,
    thinnable,
)
from lineage_store.store.database.db import apart, reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.leases import ALL, Lease, Shards, holder_name
from lineage_store.store.writes import removal, thinning
from lineage_store.store.writes.removal import RemovalCause

log = logging.getLogger(__name__)

JOBS_AT_A_TIME, NAMED_AT_A_TIME = 200, 10_000
"""How many jobs one transaction takes out of sight, and how many one query for jobs to be removed returns at most."""


@dataclass(frozen=True, slots=True)
class ExpiredJobs:
    """What policies find in a base dir, or in some shards of it."""

    named: Sequence[Expired]
    """The oldest of the jobs that they name, as many as may go now."""
    more: bool
    """Whether to look again at once, when these have gone."""
    waiting: int
    """How many jobs of the base dir wait for a person."""
    clock_off_s: float | None
    """How far the clock is off; None: it agrees with what the store wrote down."""


def look_up_expired(
    engine: Engine, base_dir_id: int, settings: Settings, shards: Shards = ALL
) -> ExpiredJobs:
    """Look up which jobs policies remove now, and store what waits for a person."""
    with reading(engine) as session:
        now = session.now()
        off_s = clock.off_s(session, base_dir_id, now) if has_policies(settings) else None
        limit, named = NAMED_AT_A_TIME, list[Expired]()
        if off_s is None:
            named = expired(session, base_dir_id, settings, now, limit=limit, shards=shards)
        noted = removal.noted_waiting(session, base_dir_id)
        may_go = removal.removable_by_policies(session, base_dir_id, now) if named or noted.jobs else 0
        count = count_expired(session, base_dir_id, settings, now) if named or noted.jobs else 0
    waiting = noted.jobs if off_s is not None else max(0, count - may_go)
    if noted != (waiting, off_s):
        with writing(engine) as session:
            removal.note_waiting(session, base_dir_id, waiting, off_s, now)
    return ExpiredJobs(named[:may_go], len(named) == limit and not waiting, waiting, off_s)


def take_out_of_sight(
    engine: Engine,
    lead: Lease,
    leaving: Lease,
    named: Sequence[Expired],
    cause: RemovalCause,
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
    with writing_under(engine, lead) as (session, now):
        leases.confirm(session, leaving)
        places = lead.base_dir_id, leaving.base_dir_id
        return removal.begin_unchanged(session, *places, mine, cause, now, number)


def policy_cause(named: Sequence[Expired], *, confirmed: bool = False) -> RemovalCause:
    """Return the cause of a removal by policies."""
    reason = BY_POLICY + ", ".join(sorted({job.policy for job in named}))
    return RemovalCause(reason, holder_name(), by_policy=True, confirmed=confirmed)


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
        with writing_under(engine, leaving) as (session, _):
            more = removal.remove_part(session, leaving.base_dir_id, rows_at_a_time)
        rest(monotonic() - began)
    partitioning.drop_vacated_partitions(engine)


# ---- Thinning of series, each in a transaction of its own, under the lease of their base dir

SERIES_NAMED_AT_A_TIME = 1_000


def named_series(
    engine: Engine, base_dir_id: int, settings: Settings, shards: Shards = ALL
) -> Iterator[Thinnable]:
    """Every series of a base dir's shards that the policy names; they are queried page by page."""
    last = (0, 0)
    while True:
        with reading(engine) as session:
            now = session.now()
            page = thinnable(
                session,
                base_dir_id,
                settings,
                now,
                limit=SERIES_NAMED_AT_A_TIME,
                shards=shards,
                after=last,
            )
        yield from page
        if len(page) < SERIES_NAMED_AT_A_TIME:
            return
        last = page[-1].key


def thin_series(engine: Engine, lead: Lease, key: SeriesKey, settings: Settings) -> int:
    """Thin a series, if the policy still names it; return how many samples were deleted. Raises LeaseLostError."""
    with reading(engine) as session:
        named = _named(session, lead, key, settings)
        if named is None:
            return 0
        samples = thinning.read_samples(session, key)
    found = thinning.thinned(*samples, settings.keep_thinned_buckets, named.superseded_from)
    with writing_under(engine, lead) as (session, _):
        if _named(session, lead, key, settings) != named:
            return 0
        return thinning.thin(session, lead.base_dir_id, named, found)


def _named(session: Session, lead: Lease, key: SeriesKey, settings: Settings) -> Thinnable | None:
    now = session.now()
    found = thinnable(session, lead.base_dir_id, settings, now, limit=1, shards=lead.shards, only=key)
    return found[0] if found else None


# ---- Carrying out the policies beside ingest, in one base dir or one shard of it

_ROWS_AT_A_TIME = 5_000
_SHARE = 0.2
_ENDS_WITHIN_S = 1.0
_AGAIN_S = 5.0
"""The wait after a failure, or while another process removes jobs of the base dir."""


class Retention:
    """Goes through these states: nothing is due; jobs to be removed are looked up; they are taken out of sight; their
    rows are removed; series of the remaining jobs are thinned.

    A tick waits for at most one short transaction, and for none when no job is to be removed. All else is done by a
    thread with a connection of its own, which rests four times as long as each step took, but at most a quarter of a
    lease term. A failure is logged, and tried again; an interrupted removal is resumed. One process at a time removes
    jobs of a base dir: the one with the lease of the base dir that is leaving.
    """

    def __init__(
        self, engine: Engine, base_dir: str, settings: Settings, should_stop: Callable[[], bool]
    ) -> None:
        self._engine, self._base_dir, self._settings = engine, base_dir, settings
        self._is_over = should_stop
        self._thread: threading.Thread | None = None
        self._named: deque[Expired] = deque()
        self._leaving: Lease | None = None
        self._cause = RemovalCause("", holder_name(), by_policy=True)
        self._number: int | None = None
        """The number of the removal under way, once a job has gone."""
        self._due, self._removed, self._ended = 0.0, Counter[str](), threading.Event()
        self._is_to_thin = False

    def step(self, lease: Lease) -> bool:
        """Do the next step; return whether jobs were taken out of sight. Long steps are left to the thread.

        Raises LeaseLostError.
        """
        if self._due == math.inf or (self._thread is not None and self._thread.is_alive()):
            return False
        if not has_policies(self._settings) and 0 not in lease.shards.numbers:
            return False
        if self._named:
            return self._take_out_of_sight(lease)
        if self._leaving is not None:
            self._begin(self._remove_rows, self._leaving)
        elif self._is_to_thin:
            self._begin(self._thin, lease)
        elif time.monotonic() >= self._due:
            self._begin(self._name, lease)
        return False

    def forget(self) -> None:
        """Forget which jobs are to be removed: another ingester may have led since, and they are looked up again."""
        self._named.clear()

    def close(self) -> None:
        """End the work and release the lease of what is leaving. A thread that does not end soon releases it itself."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_ENDS_WITHIN_S)
        if self._leaving is not None and not (self._thread is not None and self._thread.is_alive()):
            release_lease(self._engine, self._leaving)
            self._leaving = None

    def _take_out_of_sight(self, lead: Lease) -> bool:
        some = [self._named.popleft() for _ in range(min(JOBS_AT_A_TIME, len(self._named)))]
        assert self._leaving is not None
        try:
            gone, self._number = take_out_of_sight(
                self._engine, lead, self._leaving, some, self._cause, self._number
            )
        except LeaseLostError:
            self._named.clear()
            self._leaving = None
            raise
        self._removed.update(job.policy for job in gone)
        return bool(gone)

    def _begin(self, work: Callable[[Engine, Lease], None], lease: Lease) -> None:
        self._thread = threading.Thread(target=self._run, args=(work, lease), name="keeping", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Engine, Lease], None], lease: Lease) -> None:
        own = apart(self._engine, allow_network_filesystem=self._settings.allow_network_filesystem)
        try:
            work(own, lease)
        except (LeaseHeldError, LeaseLostError) as error:
            self._wait(_AGAIN_S)
            log.debug("retention delayed", extra={"base_dir": self._base_dir, "reason": error.message})
        except Exception as error:
            self._wait(max(_AGAIN_S, self._settings.keep_every_s))
            expected = isinstance(error, DatabaseUnavailableError | DBAPIError)
            fields = {"base_dir": self._base_dir, "reason": str(error)}
            log.warning("retention delayed", extra=fields, exc_info=None if expected else error)
        finally:
            own.dispose()

    def _wait(self, seconds: float) -> None:
        self._leaving, self._due = None, time.monotonic() + seconds

    def _name(self, engine: Engine, lead: Lease) -> None:
        """Look up which jobs are to be removed. If there are any, or rows of an earlier removal are left, acquire the
        lease of the base dir that holds what is leaving.

        Without any policy this is done once, so that what waited for a person waits no more.
        """
        found = look_up_expired(engine, lead.base_dir_id, self._settings, lead.shards)
        self._tell(found)
        every_s = self._settings.keep_every_s if has_policies(self._settings) else math.inf
        self._due = time.monotonic() + every_s
        self._is_to_thin = bool(self._settings.keep_every_step_days) and found.clock_off_s is None
        with reading(engine) as session:
            left = removal.is_leaving(session, lead.base_dir_id)
        if not (found.named or left) or every_s == math.inf or self._is_over():
            return
        with writing(engine) as session:
            leaving_id = removal.ensure_leaving(session, lead.base_dir_id, session.now())
        with writing(engine) as session:
            self._leaving = leases.acquire(
                session, leaving_id, holder_name(), self._settings.lease_s, "daemon"
            )
        if found.more:
            self._due = 0.0
        self._cause, self._number = policy_cause(found.named), None
        self._named.extend(found.named)

    def _tell(self, found: ExpiredJobs) -> None:
        fields: dict[str, object] = {"base_dir": self._base_dir}
        if found.clock_off_s is not None:
            fields |= {"clock_off_s": round(found.clock_off_s)}
            log.warning("retention delayed: clock disagrees with the store", extra=fields)
        elif found.waiting:
            log.warning(
                "retention delayed: removals need confirmation", extra=fields | {"jobs": found.waiting}
            )

    def _remove_rows(self, engine: Engine, leaving: Lease) -> None:
        if self._removed:
            fields = {"base_dir": self._base_dir, "jobs": self._removed.total(), "by": dict(self._removed)}
            fields["removal"] = self._number
            log.info("jobs removed", extra=fields)
            self._removed.clear()
        try:
            rows = min(_ROWS_AT_A_TIME, self._settings.batch_rows)
            remove_rows(engine, leaving, rows, should_stop=self._is_over, rest=self._rest)
        finally:
            release_lease(engine, leaving)
            self._leaving = None

    def _thin(self, engine: Engine, lead: Lease) -> None:
        """Thin series until none is left, or until the jobs to be removed are to be looked up again."""
        self._is_to_thin, gone = False, list[int]()
        for named in named_series(engine, lead.base_dir_id, self._settings, lead.shards):
            if self._is_over() or self._ended.is_set() or time.monotonic() >= self._due:
                break
            began = time.monotonic()
            gone.append(thin_series(engine, lead, named.key, self._settings))
            self._rest(time.monotonic() - began)
        if any(gone):
            fields = {"base_dir": self._base_dir, "series": sum(map(bool, gone)), "samples": sum(gone)}
            log.info("series thinned", extra=fields)

    def _rest(self, took_s: float) -> None:
        self._ended.wait(min(took_s / _SHARE - took_s, self._settings.lease_s / 4))
