"""Following one base dir, or one shard of it: what a daemon does at each tick.

In: an engine, a base dir, the number of a shard, settings; ticks at any pace. Out: an up-to-date store; a pulse that
beats with every tick, batch and directory. Promises: it reads only while it leads, which the lease decides; after a
failure it tries again with backoff, and no failure ends the daemon; it does not touch the base dir before its first
tick. Does not know who calls `tick`, nor which files are due (passes.py).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from lineage_store.config import Settings
from lineage_store.errors import (
    DatabaseUnavailableError,
    LeaseHeldError,
    LeaseLostError,
    LineageParamSummaryPathError,
)
from lineage_store.ingest import base_dirs, commit
from lineage_store.ingest.daemon.backoff import Backoff, next_look_s
from lineage_store.ingest.daemon.keeping import Keeping
from lineage_store.ingest.daemon.passes import Passes
from lineage_store.ingest.daemon.status_file import LEADS, STANDS_BY, DaemonStatus
from lineage_store.ingest.daemon.watchdog import Pulse
from lineage_store.ingest.lease import divide, release_lease
from lineage_store.ingest.pipeline import Ingester
from lineage_store.ingest.read.apart import Apart
from lineage_store.ingest.read.batches import Batches
from lineage_store.json_values import iso
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import apart, reading, writing
from lineage_store.store.database.file_watch import GONE, REPLACED
from lineage_store.store.database.pool import renew
from lineage_store.store.holders import holder_name
from lineage_store.store.leases import Lease
from lineage_store.times import from_unix
from lineage_store.worker import ReaderStuckError, Worker

log = logging.getLogger(__name__)

_SOON = 20
"""A follower on standby tries again when the lease may have expired. While the holder's transaction blocks it, it tries
this many times per lease term."""
_EXPECTED = (DatabaseUnavailableError, DBAPIError, LineageParamSummaryPathError, ReaderStuckError, OSError)
_MAY_BE_ANOTHER = ("down", GONE, REPLACED)
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
        self._apart = Apart(settings)
        self._batches = self._no_batches()
        self._keeping = Keeping(engine, str(base_dir), settings, self._should_stop)

    @property
    def status(self) -> DaemonStatus:
        """Whether this follower leads or stands by, and what keeps it from reading."""
        state = STANDS_BY if self._lease is None else LEADS
        return DaemonStatus(str(self._base_dir), self._holder, state, self._backoff.finding, self.shard)

    def tick(self) -> None:
        """Do what is due, and go on while files wait to be read. After `leave`, close.

        Never raises an Exception: a failure is logged, and the next try waits with backoff.
        """
        if self.leaves:
            if not self.is_closed:
                self.close()
                log.info("let go", extra={"base_dir": str(self._base_dir), "shard": self.shard})
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
        with suppress(LeaseHeldError, LeaseLostError, DatabaseUnavailableError, DBAPIError):
            commit.renew(self._renewing, lease)

    def leave(self) -> None:
        """Have the current tick end after its transaction, and the next one close. May be called from any thread."""
        self.leaves = True

    def close(self) -> None:
        """End the reading processes and release the lease, so that another ingester need not wait for its expiry."""
        for reader in (self._reader, self._apart):
            with suppress(ReaderStuckError):
                reader.close()
        self._keeping.close()
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
            while self._batches.files_waiting and not self._should_stop():
                self._work()
        except LeaseHeldError as error:
            self._stand_by(error)
        except LeaseLostError as error:
            self._lease = None
            self._forget_batches()
            log.warning("lost the lead", extra={"base_dir": str(self._base_dir), "reason": error.message})
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
            batches=self._batches,
        )
        self._searched |= self._passes.make(this)
        if time.monotonic() >= self._heartbeat_due:
            commit.heartbeat(self._engine, lease, searched=self._searched)
            self._searched = False
            self._heartbeat_due = time.monotonic() + self.settings.lease_s / 3
        if self._keeping.step(lease):
            self._forget_batches()  # a file of a removed job may be among them
        self._took_s = time.thread_time() - began_s

    def _no_batches(self) -> Batches:
        return Batches(self._base_dir, self.settings, self._reader, self._apart)

    def _forget_batches(self) -> None:
        """Drop the files that wait to be read: their bookmarks may not be what the store has."""
        self._batches = self._no_batches()
        with suppress(ReaderStuckError):
            self._apart.close()

    def _is_older(self, base_dir_id: int) -> bool:
        """Whether the store's revision went back since the last call: a backup was restored, or a standby took over.

        What this follower remembers of the store is then no longer true. Logs a warning.
        """
        with reading(self._engine) as connection:
            revision = registry.revision(connection, base_dir_id)
        before, self._revision = self._revision, revision
        if revision < before:
            # Revisions are times in ms.
            changed_at, was = (iso(from_unix(each // 1000)) for each in (revision, before))
            fields = {"base_dir": str(self._base_dir), "changed_at": changed_at, "was": was}
            log.warning("the store is an older one", extra=fields)
        return revision < before

    def _beat_and_ask(self) -> bool:
        self.pulse.beat()
        return self._should_stop()

    def _lead(self) -> Lease:
        """Acquire the lease, and forget all that is cached: the previous holder may have changed anything."""
        self._base_dir = Path(os.path.realpath(self.named))
        base_dir_id = base_dirs.register(self._engine, self._base_dir)
        if self._divides_into:
            divide(self._engine, base_dir_id, self._divides_into, self.settings.lease_s)
            self._divides_into = 0  # only once: another daemon's settings may ask for another number later
        lease = self._acquire(base_dir_id)
        place = {"base_dir": str(self._base_dir), "shard": self.shard, "shards": self.shards}
        self._is_older(base_dir_id)  # not yet asked by `_work` when a failure ended the previous lead
        with reading(self._engine) as connection:
            searched_before = registry.discovered_at(connection, base_dir_id)
        log.info("leads", extra={**place, "epoch": lease.epoch})
        self._stands_by_for = ""
        self._keeping.forget()
        self._forget_batches()
        self._passes = Passes(self._base_dir, self.settings, self.pulse.beat, searched_before)
        self._heartbeat_due = time.monotonic() + self.settings.lease_s / 3
        return lease

    def _acquire(self, base_dir_id: int) -> Lease:
        """Acquire the lease of the shard. Raises LeaseHeldError.

        So that shards spread over the daemons, a follower whose last try did not fail may take the lease from a daemon
        that leads at least two shards more than this one.
        """
        may_spread = self._fit and _SPREADING.acquire(blocking=False)
        try:
            with writing(self._engine) as connection:
                self.shards = leases.shard_count(connection, base_dir_id)
                who = self._holder, self.settings.lease_s, "daemon"
                lease = leases.acquire(connection, base_dir_id, *who, shard=self.shard, spread=may_spread)
                base_dirs.confirm(connection, base_dir_id, self._base_dir)
                return lease
        finally:
            if may_spread:
                _SPREADING.release()

    def _stand_by(self, error: LeaseHeldError) -> None:
        if self._stands_by_for != error.message:
            fields = {"base_dir": str(self._base_dir), "reason": error.message, "remedy": error.hint}
            log.info("stands by", extra=fields)
        self._stands_by_for = error.message
        with suppress(ReaderStuckError):
            self._reader.close()  # with many shards, most followers of a daemon stand by and need no process
        self._backoff.succeed()
        lease_s = self.settings.lease_s
        self._backoff.wait(min(lease_s / 3, max(error.ends_in_s, lease_s / _SOON)))

    def _fail(self, error: Exception, *, expected: bool) -> None:
        self._forget_batches()
        if isinstance(error, DatabaseUnavailableError):
            if error.cause != "busy":
                for engine in (self._engine, self._renewing):
                    renew(engine)  # connections made before the failure may never work again
            if error.cause in _MAY_BE_ANOTHER:
                self._lease = None
        else:
            self._fit = False
        self._backoff.fail(error, expected=expected)
