"""Following one base dir: what a daemon does at each tick.

In: an engine, a base dir, settings; ticks at any pace. Out: an up-to-date store, log lines on what changed.
Promises: live jobs are looked at every tick, new directories and all files that may grow within one discovery interval,
directories that rest a thousand in each discovery, and their files when the directory changed or the finished interval
has passed; a failure waits with backoff and never ends the daemon; who leads is settled by the lease. Does not know who
ticks.
"""

from __future__ import annotations

import logging
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
from lineage_store.ingest import base_dirs, commit, ingester
from lineage_store.ingest.cycles import record_cycle
from lineage_store.ingest.failures import unlistable_base_dir
from lineage_store.ingest.ingester import Ingester
from lineage_store.ingest.leading import holder_name, let_go
from lineage_store.ingest.memory import Memory, Signs
from lineage_store.ingest.report import Counts
from lineage_store.ingest.surveying import survey_changes
from lineage_store.ingest.worker import ReaderStuckError, Worker
from lineage_store.store import leases, registry
from lineage_store.store.engine import reading, writing
from lineage_store.store.filesystem import filesystem_type, is_network
from lineage_store.store.leases import Lease

log = logging.getLogger(__name__)

SCAN_SHARE = 0.1
"""A discovery may take this share of the time at most; where directories are many, discoveries become rarer."""
LONGEST_BACKOFF_S = 10.0
QUIET_CYCLE_S = 60.0
"""A pass that read nothing leaves a row in the history this often."""


_EXPECTED = (DatabaseUnavailableError, DBAPIError, LineageParamSummaryPathError, ReaderStuckError, OSError)


class Follower:
    """The state of following one base dir."""

    def __init__(
        self,
        engine: Engine,
        base_dir: Path,
        settings: Settings,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._engine, self._base_dir = engine, base_dir
        self._settings, self._should_stop = settings, should_stop
        self._holder = holder_name()
        self._lease: Lease | None = None
        self._memory = self._nothing_remembered()
        self._discovery_due = self._heartbeat_due = self._cycle_row_due = 0.0
        self._not_before, self._failures, self._standing_by = 0.0, 0, False
        self._searched, self._survey_ended = False, 0.0
        self._reader = Worker(settings.reading_deadline_s, settings.reading_memory_bytes)

    def tick(self) -> None:
        """Do what is due. Failures are logged and waited out; nothing is raised but the end of the process."""
        if time.monotonic() < self._not_before:
            return
        try:
            self._work()
        except LeaseHeldError as error:
            self._stand_by(error)
        except LeaseLostError as error:
            self._lease = None
            log.warning("lost the lead", extra={"base_dir": str(self._base_dir), "reason": error.message})
        except _EXPECTED as error:
            self._back_off(error, expected=True)
        except Exception as error:  # noqa: BLE001 - one base dir's surprise must not end the others' work
            self._back_off(error, expected=False)
        else:
            self._failures = 0

    def close(self) -> None:
        """Let another ingester lead at once."""
        with suppress(ReaderStuckError):
            self._reader.close()
        if self._lease is not None:
            let_go(self._engine, self._lease)
            self._lease = None

    def _work(self) -> None:
        lease = self._lease = self._lease or self._lead()
        this = Ingester(
            self._engine,
            self._base_dir,
            lease,
            self._settings,
            should_stop=self._should_stop,
            reader=self._reader,
        )
        if time.monotonic() >= self._discovery_due:
            self._discover(this)
            self._searched = True
        else:
            self._poll_live_jobs(this)
        if time.monotonic() >= self._heartbeat_due:
            commit.heartbeat(self._engine, lease, searched=self._searched)
            self._searched = False
            self._heartbeat_due = time.monotonic() + self._settings.lease_s / 3

    def _nothing_remembered(self) -> Memory:
        distrust = is_network(filesystem_type(self._base_dir))
        return Memory(follow_symlinks=self._settings.follow_symlinks, distrust=distrust)

    def _lead(self) -> Lease:
        """Take the lead. Who led before may have changed anything: nothing that is remembered holds."""
        base_dir_id = base_dirs.register(self._engine, self._base_dir)
        with writing(self._engine) as connection:
            lease = leases.acquire(connection, base_dir_id, self._holder, self._settings.lease_s, "daemon")
        log.info("leads", extra={"base_dir": str(self._base_dir), "epoch": lease.epoch})
        self._standing_by = False
        self._memory, self._discovery_due = self._nothing_remembered(), 0.0
        self._heartbeat_due = time.monotonic() + self._settings.lease_s / 3
        return lease

    def _discover(self, this: Ingester) -> None:
        """Look for new jobs and files, and at a part of what rests."""
        started = time.monotonic()
        self._recorded(this, lambda: self._full_pass(this))
        took = self._survey_ended - started  # what was read then is no reason to search less often
        self._discovery_due = started + max(self._settings.discovery_interval_s, took / SCAN_SHARE)

    def _full_pass(self, this: Ingester) -> Counts:
        try:
            relist_after_s = self._settings.finished_interval_s
            return self._pass(this, self._memory.signs(self._base_dir, relist_after_s=relist_after_s))
        except OSError as error:
            problem = {".": unlistable_base_dir(str(self._base_dir), error)}
            commit.finish_discovery(self._engine, this.lease, problem, self._settings.batch_rows)
            raise

    def _poll_live_jobs(self, this: Ingester) -> None:
        with reading(self._engine) as connection:
            live = registry.live_jobs(connection, this.lease.base_dir_id)
        if live:
            signs = self._memory.signs_in(self._base_dir, live)
            self._recorded(this, lambda: self._pass(this, signs, searched=False))

    def _pass(self, this: Ingester, signs: Signs, *, searched: bool = True) -> Counts:
        base_dir_id, trusted = this.lease.base_dir_id, not self._memory.distrust
        todo = survey_changes(
            self._engine,
            self._base_dir,
            base_dir_id,
            self._settings,
            self._memory,
            signs,
            distrust=not trusted,
        )
        self._survey_ended = time.monotonic()
        return ingester.carry_out(this, todo, searched=searched) if todo or searched else todo.counts

    def _recorded(self, this: Ingester, run: Callable[[], Counts]) -> Counts:
        """Run a pass; leave a row in the history when it read something, or none has been left for a while."""
        with record_cycle(self._engine, this.lease, self._settings.cycle_history) as finish:
            counts = run()
            if counts.bytes_read or time.monotonic() >= self._cycle_row_due:
                finish(counts)
                self._cycle_row_due = time.monotonic() + QUIET_CYCLE_S
        if counts.bytes_read:
            numbers = {"files": counts.files_read, "events": counts.events, "bytes": counts.bytes_read}
            log.info("read", extra={"base_dir": str(self._base_dir), **numbers})
        return counts

    def _stand_by(self, error: LeaseHeldError) -> None:
        if not self._standing_by:
            log.info("stands by", extra={"base_dir": str(self._base_dir), "reason": error.message})
        self._standing_by = True
        self._not_before = time.monotonic() + self._settings.lease_s / 3

    def _back_off(self, error: Exception, *, expected: bool) -> None:
        self._failures += 1
        wait_s = min(LONGEST_BACKOFF_S, 2.0 ** min(self._failures, 10) / 2)
        self._not_before = time.monotonic() + wait_s
        fields = {"base_dir": str(self._base_dir), "reason": str(error), "again_in_s": wait_s}
        log.error("pass failed", extra=fields, exc_info=None if expected else error)
