"""Following one base dir, or one shard of it: what a daemon does at each tick, and what it does about failures.

In: an engine, a base dir, the number of a shard, settings; ticks at any pace. Out: an up-to-date store, with rows in
the history of passes; a pulse that beats with every tick, batch and directory; log lines. Promises: it reads only while
it leads, which the lease decides; every pass looks at live jobs, and every discovery for new directories, at all files
that may grow, and at a part of the resting directories (`Passes`); after a failure it tries again with backoff, and no
failure ends the daemon; it does not touch the base dir before its first tick. Does not know who calls `tick`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from lineage_store.config import Settings
from lineage_store.errors import (
    Cause,
    DatabaseUnavailableError,
    LeaseHeldError,
    LeaseLostError,
    LineageParamSummaryPathError,
)
from lineage_store.findings import Finding, finding, of_database
from lineage_store.ingest import commit, pipeline
from lineage_store.ingest.daemon.status_file import ACTIVE, STANDBY, DaemonStatus
from lineage_store.ingest.daemon.watchdog import Pulse
from lineage_store.ingest.lease import confirm_path, divide, register, release_lease
from lineage_store.ingest.pipeline import Ingester, record_cycle
from lineage_store.ingest.problems import unlistable_base_dir
from lineage_store.ingest.read.queue import FileQueue, SlowFiles
from lineage_store.ingest.report import Counts
from lineage_store.ingest.retention import Retention
from lineage_store.ingest.scan.directory_cache import Signs, new_cache
from lineage_store.ingest.scan.survey import Scope, Survey, survey_changes
from lineage_store.plain_values import from_unix, iso
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.connections import reconnect
from lineage_store.store.database.db import apart, reading, writing
from lineage_store.store.leases import Lease, holder_name
from lineage_store.texts import without_passwords
from lineage_store.worker import ReaderStuckError, Worker

log = logging.getLogger(__name__)

_SOON = 20
"""A follower on standby tries again when the lease may have expired. While the holder's transaction blocks it, it tries
this many times per lease term."""
_EXPECTED = (DatabaseUnavailableError, DBAPIError, LineageParamSummaryPathError, ReaderStuckError, OSError)
_MAY_BE_ANOTHER = (Cause.DOWN, Cause.GONE, Cause.REPLACED)
"""After these failures the database may be a restored backup: what was remembered of it may no longer be true."""
_SPREADING = threading.Lock()
"""Held by a follower that may take a shard from another daemon: one at a time, for each changes how many both lead."""


class Follower:
    """Follows one shard of a base dir. A base dir that is not divided has only shard 0."""

    def __init__(
        self,
        engine: Engine,
        base_dir: Path,
        settings: Settings,
        should_stop: Callable[[], bool] = lambda: False,
        shard: int = 0,
    ) -> None:
        self.shard, self.shards = shard, shard + 1
        """The number of the shard, and how many shards the base dir had when last asked."""
        self._divides_into = 0 if shard else settings.shards
        self._engine, self.named, self._base_dir = engine, base_dir, base_dir
        # A connection of its own: the lease must not be lost because all connections of the pool are in use.
        self._renewing = apart(engine, allow_network_filesystem=settings.allow_network_filesystem)
        self.settings, self.leaves, self.is_closed = settings, False, False
        self._is_over = should_stop
        self._holder = holder_name()
        self._lease: Lease | None = None
        self._revision = 0
        self._passes: Passes | None = None
        self._heartbeat_due = 0.0
        self._backoff, self._at_work, self._stands_by_for = Backoff(str(base_dir)), False, ""
        self._searched, self._fit = False, True
        self.pulse, self._renewed_at, self._took_s = Pulse(str(base_dir)), 0, 0.0
        slow_s = settings.slow_reading_s
        longest_s = max(slow_s, settings.reading_deadline_s)  # the watchdog waits longer than that
        self._reader = Worker(slow_s, settings.reading_memory_bytes, self.pulse.beat, longest_s)
        self._slow_files = SlowFiles(settings)
        self._queue = self._empty_queue()
        self._retention = Retention(engine, str(base_dir), settings, self._should_stop)

    @property
    def status(self) -> DaemonStatus:
        """Whether this follower is active or standby, and what keeps it from reading."""
        state = STANDBY if self._lease is None else ACTIVE
        return DaemonStatus(str(self._base_dir), self._holder, state, self._backoff.finding, self.shard)

    def tick(self) -> None:
        """Do what is due, and go on while files wait to be read. After `leave`, close.

        Never raises an Exception: a failure is logged, and the next try waits with backoff.
        """
        if self.leaves:
            if not self.is_closed:
                self.close()
                log.info("lease released", extra={"base_dir": str(self._base_dir), "shard": self.shard})
            return
        if self._backoff.is_over():
            self._at_work = True
            try:
                self._try()
            finally:
                self._at_work = False
        self.pulse.beat()

    def next_tick_s(self) -> float:
        """Return how many seconds after the beginning of one tick the next is due."""
        return next_look_s(self.settings.poll_interval_s, self._took_s)

    def renew(self) -> None:
        """Renew the lease during a long tick. To be called from another thread, every `lease_s` / 3 seconds.

        Does nothing when the tick has made no progress since the last call, unless it waits for the reader, which has a
        deadline of its own: the lease then expires, so that a host whose disk answers can lead.
        """
        lease, beats = self._lease, self.pulse.beats
        goes_on = self._reader.is_awaited or beats != self._renewed_at
        self._renewed_at = beats
        if lease is None or not self._at_work or not goes_on or self._backoff.failures:
            return
        # Whatever fails here also fails the tick's next write, which reports it.
        failures = suppress(LeaseHeldError, LeaseLostError, DatabaseUnavailableError, DBAPIError)
        with failures, writing(self._renewing) as session:
            leases.renew(session, lease)

    def leave(self) -> None:
        """Have the current tick end after its transaction, and the next one close. May be called from any thread."""
        self.leaves = True

    def close(self) -> None:
        """End the reading processes and release the lease, so that another ingester need not wait for its expiry."""
        for reader in (self._reader, self._slow_files):
            with suppress(ReaderStuckError):
                reader.close()
        self._retention.close()
        if self._lease is not None:
            release_lease(self._engine, self._lease)
            self._lease = None
        self._renewing.dispose()
        self.is_closed = True

    def _should_stop(self) -> bool:
        return self.leaves or self._is_over()

    def _try(self) -> None:
        try:
            self._work()
            while self._queue.files_waiting and not self._should_stop():
                self._work()
        except LeaseHeldError as error:
            self._stand_by(error)
        except LeaseLostError as error:
            self._lease = None
            self._forget_queue()
            log.warning("lease lost", extra={"base_dir": str(self._base_dir), "reason": error.message})
        except _EXPECTED as error:
            self._fail(error, expected=True)
        except Exception as error:  # noqa: BLE001 - one base dir's surprise must not end the others' work
            self._fail(error, expected=False)
        else:
            self._backoff.succeed()
            self._fit = True

    def _work(self) -> None:
        began_s = time.thread_time()
        if self._lease is None or self._is_older(self._lease.base_dir_id):
            self._lease = self._lead()
        lease = self._lease
        assert self._passes is not None, "`_lead` makes it"
        this = Ingester(
            self._engine,
            self._base_dir,
            lease,
            self.settings,
            progress=lambda _: self.pulse.beat(),
            should_stop=self._beat_and_ask,
            queue=self._queue,
        )
        self._searched |= self._passes.make(this)
        if time.monotonic() >= self._heartbeat_due:
            commit.heartbeat(self._engine, lease, searched=self._searched)
            self._searched = False
            self._heartbeat_due = time.monotonic() + self.settings.lease_s / 3
        if self._retention.step(lease):
            self._forget_queue()  # a file of a removed job may be among them
        self._took_s = time.thread_time() - began_s

    def _empty_queue(self) -> FileQueue:
        return FileQueue(self._base_dir, self.settings, self._reader, self._slow_files)

    def _forget_queue(self) -> None:
        """Drop the files that wait to be read: their bookmarks may not be what the store has."""
        self._queue = self._empty_queue()
        with suppress(ReaderStuckError):
            self._slow_files.close()

    def _is_older(self, base_dir_id: int) -> bool:
        """Whether the store's revision went back since the last call: a backup was restored, or a standby took over.

        What this follower remembers of the store is then no longer true. Logs a warning.
        """
        with reading(self._engine) as session:
            revision = registry.current_revision(session, base_dir_id)
        before, self._revision = self._revision, revision
        if revision < before:
            # Revisions are times in ms.
            changed_at, was = (iso(from_unix(each // 1000)) for each in (revision, before))
            fields = {"base_dir": str(self._base_dir), "changed_at": changed_at, "was": was}
            log.warning("store went back in time", extra=fields)
        return revision < before

    def _beat_and_ask(self) -> bool:
        self.pulse.beat()
        return self._should_stop()

    def _lead(self) -> Lease:
        """Acquire the lease, and forget all that is cached: the previous holder may have changed anything."""
        self._base_dir = Path(os.path.realpath(self.named))
        base_dir_id = register(self._engine, self._base_dir)
        if self._divides_into:
            divide(self._engine, base_dir_id, self._divides_into, self.settings.lease_s)
            self._divides_into = 0  # only once: another daemon's settings may ask for another number later
        lease = self._acquire(base_dir_id)
        place = {"base_dir": str(self._base_dir), "shard": self.shard, "shards": self.shards}
        self._is_older(base_dir_id)  # not yet asked by `_work` when a failure ended the previous lead
        with reading(self._engine) as session:
            searched_before = registry.discovered_at(session, base_dir_id)
        log.info("lease acquired", extra={**place, "epoch": lease.epoch})
        self._stands_by_for = ""
        self._retention.forget()
        self._forget_queue()
        self._passes = Passes(self._base_dir, self.settings, self.pulse.beat, searched_before)
        self._heartbeat_due = time.monotonic() + self.settings.lease_s / 3
        return lease

    def _acquire(self, base_dir_id: int) -> Lease:
        """Acquire the lease of the shard. Raises LeaseHeldError.

        So that shards spread over the daemons, a follower whose last try did not fail may take the lease from a daemon
        that holds at least two shards more than this one.
        """
        may_spread = self._fit and _SPREADING.acquire(blocking=False)
        try:
            with writing(self._engine) as session:
                self.shards = leases.shard_count(session, base_dir_id)
                who = self._holder, self.settings.lease_s, "daemon"
                lease = leases.acquire(session, base_dir_id, *who, shard=self.shard, spread=may_spread)
                confirm_path(session, base_dir_id, self._base_dir)
                return lease
        finally:
            if may_spread:
                _SPREADING.release()

    def _stand_by(self, error: LeaseHeldError) -> None:
        if self._stands_by_for != error.message:
            fields = {"base_dir": str(self._base_dir), "reason": error.message, "remedy": error.hint}
            log.info("standby", extra=fields)
        self._stands_by_for = error.message
        with suppress(ReaderStuckError):
            self._reader.close()  # with many shards, most followers of a daemon stand by and need no process
        self._backoff.succeed()
        lease_s = self.settings.lease_s
        self._backoff.wait(min(lease_s / 3, max(error.ends_in_s, lease_s / _SOON)))

    def _fail(self, error: Exception, *, expected: bool) -> None:
        self._forget_queue()
        if isinstance(error, DatabaseUnavailableError):
            if error.cause != Cause.BUSY:
                for engine in (self._engine, self._renewing):
                    reconnect(engine)  # connections made before the failure may never work again
            if error.cause in _MAY_BE_ANOTHER:
                self._lease = None
        else:
            self._fit = False
        self._backoff.fail(error, expected=expected)


# ---- The passes over one base dir, or one shard of it: which directories and files the leader looks at, and when

SCAN_SHARE = 0.1
"""The share of the time that discoveries may take; with very many directories they become rarer."""
QUIET_CYCLE_S = 60.0
"""How often a pass that read nothing leaves a row in the history."""


class Passes:
    """The passes of one leader, with what it remembers of the disk: valid only as long as nobody else leads.

    A discovery looks at a thousand of the resting directories (a hundredth, where that is more), and at their files
    when the directory changed or the finished interval has passed.
    """

    def __init__(
        self,
        base_dir: Path,
        settings: Settings,
        on_directory: Callable[[], None],
        searched_before: datetime | None,
    ) -> None:
        """Begin without remembering anything.

        Args:
            on_directory: called before each directory that is listed.
            searched_before: when the base dir was last searched in full, by any ingester; logged by the first discovery
                together with what the store lacks.
        """
        self._cache = new_cache(base_dir, settings)
        self._on_directory, self._searched_before, self._is_first = on_directory, searched_before, True
        self.discovery_due = self._cycle_row_due = self._survey_ended = 0.0

    def make(self, this: Ingester) -> bool:
        """Make the pass that is due; return whether it was a discovery."""
        started = time.monotonic()
        if started < self.discovery_due:
            self._poll_live_jobs(this)
            return False
        self._recorded(this, self._discover)
        took = self._survey_ended - started  # without reading, which is no reason to search less often
        self.discovery_due = started + max(this.settings.discovery_interval_s, took / SCAN_SHARE)
        return True

    def _discover(self, this: Ingester) -> Counts:
        """Look for new jobs and files, and at a part of the resting directories."""
        try:
            relist_after_s = this.settings.finished_interval_s
            return self._pass(this, signs=self._cache.signs(this.base_dir, relist_after_s=relist_after_s))
        except OSError as error:
            problem = [unlistable_base_dir(str(this.base_dir), error)]
            most_rows = this.settings.batch_rows
            commit.finish_discovery(this.engine, this.lease, problem, most_rows, this.should_stop)
            raise

    def _poll_live_jobs(self, this: Ingester) -> None:
        with reading(this.engine) as session:
            live = registry.live_jobs(session, this.lease.base_dir_id, this.lease.shards)
        if live or this.is_busy:
            signs = self._cache.signs_in(this.base_dir, live)
            self._recorded(this, partial(self._pass, signs=signs, searched=False))

    def _pass(self, this: Ingester, *, signs: Signs, searched: bool = True) -> Counts:
        scope = Scope(
            this.engine,
            this.base_dir,
            this.lease.base_dir_id,
            this.settings,
            shards=this.lease.shards,
            on_directory=self._on_directory,
        )
        todo = survey_changes(scope, self._cache, signs)
        self._survey_ended = time.monotonic()
        if searched and self._is_first:
            _log_lack(this.base_dir, self._searched_before, todo)
            self._is_first = False
        calls_for_more = todo or searched or this.is_busy
        return pipeline.ingest_survey(this, todo, searched=searched) if calls_for_more else todo.counts

    def _recorded(self, this: Ingester, run: Callable[[Ingester], Counts]) -> Counts:
        """Run a pass; add a row to the history when the pass read something, or when none was added for a while."""
        with record_cycle(this.engine, this.lease, this.settings.cycle_history) as record:
            counts = run(replace(this, record=record.so_far))
            if counts.bytes_read or time.monotonic() >= self._cycle_row_due:
                record.finish(counts)
                self._cycle_row_due = time.monotonic() + QUIET_CYCLE_S
        if counts.bytes_read:
            numbers = {"files": counts.files_read, "events": counts.events, "bytes": counts.bytes_read}
            log.info("files read", extra={"base_dir": str(this.base_dir), **numbers})
        return counts


def _log_lack(base_dir: Path, searched_at: datetime | None, found: Survey) -> None:
    """Log what the log files hold that the store lacks, if anything, and since when: it may be a restored backup."""
    grown = [more for _, more in found.changed if more > 0]
    counts = {
        "new_files": len(found.new),
        "grown_files": len(grown),
        "missing_files": len(found.missing),
        "bytes": sum(grown) + sum(file.size_bytes for file in found.new),
    }
    if any(counts.values()):
        since = "never" if searched_at is None else iso(searched_at)
        log.info("catching up", extra={"base_dir": str(base_dir), "searched_at": since, **counts})


# ---- When the daemon tries again after a failure, and how often it polls live jobs

LONGEST_WAIT_S = 10.0
LONGEST_WAIT_FOR_DATABASE_S = 2.0
LOGGED_EVERY_S = 60.0
SHARE = 0.2
"""The share of a core that polls may take; the reading process takes about half as much again."""
LONGEST = 3
"""The longest wait between two polls, in intervals."""
FAILS = "daemon_fails"


@dataclass(slots=True)
class Backoff:
    """The consecutive failures of one base dir. One that lasts is logged once a minute, and so is its end.

    The wait doubles with each failure, to two seconds at most while the database is unavailable, else to ten.
    """

    base_dir: str
    failures: int = 0
    finding: Finding | None = None
    """The last failure; None after a success."""
    _not_before: float = 0.0
    _since: float = 0.0
    _logged: float = field(default=float("-inf"))

    def is_over(self) -> bool:
        """Whether the wait is over."""
        return time.monotonic() >= self._not_before

    def wait(self, seconds: float) -> None:
        """Try again after `seconds`; this counts as no failure."""
        self._not_before = time.monotonic() + seconds

    def fail(self, error: Exception, *, expected: bool) -> None:
        """Wait, longer with each failure in a row. An error that was not `expected` is logged with its traceback."""
        self.failures += 1
        longest_s = (
            LONGEST_WAIT_FOR_DATABASE_S if isinstance(error, DatabaseUnavailableError) else LONGEST_WAIT_S
        )
        wait_s = min(longest_s, 2.0 ** min(self.failures, 10) / 4)
        self.wait(wait_s)
        now, before = time.monotonic(), self.finding
        if before is None:
            self._since = now
        since = datetime.now(UTC) if before is None else before.since
        self.finding = _found(self.base_dir, error, since)
        name = _name(self.finding)
        if before is None or name != _name(before) or now >= self._logged + LOGGED_EVERY_S:
            fields = {"base_dir": self.base_dir, "finding": name, "reason": str(error), "again_in_s": wait_s}
            log.error("pass failed", extra=fields, exc_info=None if expected else error)
            self._logged = now

    def succeed(self) -> None:
        """Note a success, which ends the failures so far."""
        if self.finding is not None:
            lasted_s = round(time.monotonic() - self._since, 1)
            fields = {"base_dir": self.base_dir, "finding": _name(self.finding), "lasted_s": lasted_s}
            log.info("recovered", extra=fields)
        self.failures, self.finding = 0, None


def _found(base_dir: str, error: Exception, since: datetime | None) -> Finding:
    reason = without_passwords(getattr(error, "message", None) or str(error) or type(error).__name__)
    what, remedy = reason.partition("\n")[0], getattr(error, "hint", None)
    if isinstance(error, DatabaseUnavailableError):
        return of_database(error.cause, base_dir, what=what, remedy=remedy, since=since)
    return finding(FAILS, base_dir, what=what, remedy=remedy, since=since)


def _name(found: Finding) -> str:
    """What tells two failures apart. Two of the database are the same whatever words the database uses."""
    return found.what if found.kind == FAILS else found.title


def next_look_s(interval_s: float, took_s: float) -> float:
    """Seconds from the beginning of a poll, which took `took_s` of CPU time, to the beginning of the next."""
    return min(max(interval_s, took_s / SHARE), LONGEST * interval_s)
