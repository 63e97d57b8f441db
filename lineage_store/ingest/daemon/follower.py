"""Following one base dir, or one shard of it: what a daemon does at each tick.

In: an engine, a base dir, which shard, settings; ticks at any pace. Out: an up-to-date store, a pulse that beats with
every tick, batch and directory. Promises: while it leads, what is due is looked at every tick; a failure waits with
backoff and never ends the daemon; who leads is settled by the lease. Touches no disk before its first tick. Does not
know who ticks, nor what is looked at when (passes.py).
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
from lineage_store.ingest.daemon.older_store import tell_older
from lineage_store.ingest.daemon.passes import Passes
from lineage_store.ingest.daemon.status_file import LEADS, STANDS_BY, DaemonStatus
from lineage_store.ingest.daemon.watchdog import Pulse
from lineage_store.ingest.lease import divide, release_lease
from lineage_store.ingest.pipeline import Ingester
from lineage_store.ingest.read.apart import Apart
from lineage_store.ingest.read.batches import Batches
from lineage_store.ingest.read.worker import ReaderStuckError, Worker
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import apart, reading, writing
from lineage_store.store.database.file_watch import GONE, REPLACED
from lineage_store.store.database.pool import renew
from lineage_store.store.holders import holder_name
from lineage_store.store.leases import Lease

log = logging.getLogger(__name__)

_SOON = 20
"""A follower on standby tries again when the lease may have expired. While the holder's transaction blocks it, it tries
this many times in the length of a lease."""
_EXPECTED = (DatabaseUnavailableError, DBAPIError, LineageParamSummaryPathError, ReaderStuckError, OSError)
_MAY_BE_ANOTHER = ("down", GONE, REPLACED)
"""After these causes the store may be a backup: nothing that is remembered of the other one holds."""
_SPREADING = threading.Lock()
"""Of the followers in this process one at a time takes a shard from a daemon that leads more: the count changes."""


class Follower:
    """The state of following one shard of a base dir; one that is not divided has shard 0 alone."""

    def __init__(
        self,
        engine: Engine,
        base_dir: Path,
        settings: Settings,
        should_stop: Callable[[], bool] = lambda: False,
        shard: int = 0,
    ) -> None:
        self.shard, self.shards = shard, shard + 1
        """Which shard, and how many the base dir had when that was asked last."""
        self._divides_into = 0 if shard else settings.shards
        self._engine, self.named, self._base_dir = engine, base_dir, base_dir
        # Where all others are in use, or wait for each other, the lease must not be lost for want of one.
        self._renewing = apart(engine, allow_network_filesystem=settings.allow_network_filesystem)
        self._settings, self.leaves, self.is_closed = settings, False, False
        self._is_over = should_stop
        self._holder = holder_name()
        self._lease: Lease | None = None
        self._revision = 0
        self._passes: Passes | None = None
        self._heartbeat_due = 0.0
        self._backoff, self._at_work, self._stands_by_for = Backoff(str(base_dir)), False, ""
        self._searched, self._fit = False, True
        self.pulse, self._renewed_at, self._took_s = Pulse(str(base_dir)), 0, 0.0
        self._reader = Worker(settings.slow_reading_s, settings.reading_memory_bytes, self.pulse.beat)
        self._apart = Apart(settings)
        self._batches = self._no_batches()
        self._keeping = Keeping(engine, str(base_dir), settings, self._should_stop)

    @property
    def settings(self) -> Settings:
        """What it follows the base dir by."""
        return self._settings

    @property
    def status(self) -> DaemonStatus:
        """Whether it leads or stands by, and what keeps it from reading."""
        state = STANDS_BY if self._lease is None else LEADS
        return DaemonStatus(str(self._base_dir), self._holder, state, self._backoff.finding, self.shard)

    def tick(self) -> None:
        """Do what is due, again and again while files wait to be read.

        Failures are logged and waited out; nothing is raised but the end of the process.
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
        """How long after the beginning of one tick the next is due."""
        return next_look_s(self._settings.poll_interval_s, self._took_s)

    def renew(self) -> None:
        """Renew the lease while a tick takes long; may be called from another thread, once in `lease_s` / 3.

        A tick that makes no progress, unless the reader's deadline is running, loses the lease: another host's disk may
        answer.
        """
        lease, beats = self._lease, self.pulse.beats
        goes_on = self._reader.is_awaited or beats != self._renewed_at
        self._renewed_at = beats
        if lease is None or not self._at_work or not goes_on or self._backoff.failures:
            return
        # Whatever fails here fails the tick's next write too, which says so.
        with suppress(LeaseHeldError, LeaseLostError, DatabaseUnavailableError, DBAPIError):
            commit.renew(self._renewing, lease)

    def leave(self) -> None:
        """End the tick at work when its transaction is done, and close at the next; from any thread."""
        self.leaves = True

    def close(self) -> None:
        """Release the lease, so that another ingester need not wait for its end."""
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
        assert self._passes is not None, "who leads has begun with it"
        this = Ingester(
            self._engine,
            self._base_dir,
            lease,
            self._settings,
            progress=lambda _: self.pulse.beat(),
            should_stop=self._beat_and_ask,
            batches=self._batches,
        )
        self._searched |= self._passes.make(this)
        if time.monotonic() >= self._heartbeat_due:
            commit.heartbeat(self._engine, lease, searched=self._searched)
            self._searched = False
            self._heartbeat_due = time.monotonic() + self._settings.lease_s / 3
        if self._keeping.step(lease):
            self._forget_batches()  # a file of a job that went may be among them
        self._took_s = time.thread_time() - began_s

    def _no_batches(self) -> Batches:
        return Batches(self._base_dir, self._settings, self._reader, self._apart)

    def _forget_batches(self) -> None:
        """Read nothing on: what waits stands where a transaction may not have come to."""
        self._batches = self._no_batches()
        with suppress(ReaderStuckError):
            self._apart.close()

    def _is_older(self, base_dir_id: int) -> bool:
        """Whether the store is older than it was, such as a standby that took over: nothing remembered holds for it."""
        with reading(self._engine) as connection:
            revision = registry.revision(connection, base_dir_id)
        before, self._revision = self._revision, revision
        if revision < before:
            tell_older(self._base_dir, revision, before)
        return revision < before

    def _beat_and_ask(self) -> bool:
        self.pulse.beat()
        return self._should_stop()

    def _lead(self) -> Lease:
        """Acquire the lease. The holder before may have changed anything, so nothing that is cached holds."""
        self._base_dir = Path(os.path.realpath(self.named))
        base_dir_id = base_dirs.register(self._engine, self._base_dir)
        if self._divides_into:
            divide(self._engine, base_dir_id, self._divides_into, self._settings.lease_s)
            self._divides_into = 0  # once: another daemon may be told otherwise later
        lease = self._acquire(base_dir_id)
        place = {"base_dir": str(self._base_dir), "shard": self.shard, "shards": self.shards}
        self._is_older(base_dir_id)  # the failure before may have told it first
        with reading(self._engine) as connection:
            searched_before = registry.discovered_at(connection, base_dir_id)
        log.info("leads", extra={**place, "epoch": lease.epoch})
        self._stands_by_for = ""
        self._keeping.forget()
        self._forget_batches()
        self._passes = Passes(
            self._base_dir,
            self.pulse.beat,
            follow_symlinks=self._settings.follow_symlinks,
            searched_before=searched_before,
        )
        self._heartbeat_due = time.monotonic() + self._settings.lease_s / 3
        return lease

    def _acquire(self, base_dir_id: int) -> Lease:
        """Shards spread over the daemons: one that did not fail here takes from one that holds two more."""
        may_spread = self._fit and _SPREADING.acquire(blocking=False)
        try:
            with writing(self._engine) as connection:
                self.shards = leases.shard_count(connection, base_dir_id)
                lease = leases.acquire(
                    connection,
                    base_dir_id,
                    self._holder,
                    self._settings.lease_s,
                    "daemon",
                    shard=self.shard,
                    spread=may_spread,
                )
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
            self._reader.close()  # it would wait for nothing: of many shards each daemon leads some
        self._backoff.succeed()
        lease_s = self._settings.lease_s
        self._backoff.wait(min(lease_s / 3, max(error.ends_in_s, lease_s / _SOON)))

    def _fail(self, error: Exception, *, expected: bool) -> None:
        self._forget_batches()
        if isinstance(error, DatabaseUnavailableError):
            if error.cause != "busy":
                for engine in (self._engine, self._renewing):
                    renew(engine)  # what was connected before it came back may never work again
            if error.cause in _MAY_BE_ANOTHER:
                self._lease = None
        else:
            self._fit = False
        self._backoff.fail(error, expected=expected)
