"""Following one base dir: what a daemon does at each tick.

In: an engine, a base dir, settings; ticks at any pace. Out: an up-to-date store, log lines on what changed.
Promises: live jobs are looked at every tick, new directories and files within one discovery interval, finished jobs
when their directory changes or the finished interval has passed; a failure waits with backoff and never ends the
daemon; who leads is settled by the lease. Does not know who ticks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
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
from lineage_store.ingest.ingester import Ingester, PassOutcome
from lineage_store.ingest.leading import holder_name, let_go
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
        self._resting: Mapping[str, int] = {}
        self._distrust = is_network(filesystem_type(base_dir))
        self._discovery_due = self._full_look_due = self._heartbeat_due = self._cycle_row_due = 0.0
        self._not_before, self._failures, self._standing_by = 0.0, 0, False
        self._searched = False

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
        except (DatabaseUnavailableError, DBAPIError, LineageParamSummaryPathError, OSError) as error:
            self._back_off(error, expected=True)
        except Exception as error:  # noqa: BLE001 - one base dir's surprise must not end the others' work
            self._back_off(error, expected=False)
        else:
            self._failures = 0

    def close(self) -> None:
        """Let another ingester lead at once."""
        if self._lease is not None:
            let_go(self._engine, self._lease)
            self._lease = None

    def _work(self) -> None:
        lease = self._lease = self._lease or self._lead()
        this = Ingester(self._engine, self._base_dir, lease, self._settings, should_stop=self._should_stop)
        if time.monotonic() >= self._discovery_due:
            self._discover(this)
            self._searched = True
        else:
            self._poll_live_jobs(this)
        if time.monotonic() >= self._heartbeat_due:
            commit.heartbeat(self._engine, lease, searched=self._searched)
            self._searched = False
            self._heartbeat_due = time.monotonic() + self._settings.lease_s / 3

    def _lead(self) -> Lease:
        base_dir_id = base_dirs.register(self._engine, self._base_dir)
        with writing(self._engine) as connection:
            lease = leases.acquire(connection, base_dir_id, self._holder, self._settings.lease_s, "daemon")
        log.info("leads", extra={"base_dir": str(self._base_dir), "epoch": lease.epoch})
        self._standing_by = False
        self._heartbeat_due = time.monotonic() + self._settings.lease_s / 3
        return lease

    def _discover(self, this: Ingester) -> None:
        """Look for new jobs and files; list finished jobs' directories only when they changed, or once in a while."""
        started = time.monotonic()
        if started >= self._full_look_due:
            self._resting, self._full_look_due = {}, started + self._settings.finished_interval_s
        outcome = self._recorded(this, lambda: self._full_pass(this))
        with reading(self._engine) as connection:
            finished = registry.finished_jobs(connection, this.lease.base_dir_id)
        seen = outcome.directories
        self._resting = {train_id: seen[train_id] for train_id in finished if train_id in seen}
        took = time.monotonic() - started
        read = outcome.counts.events or outcome.counts.bytes_read
        interval = (
            self._settings.discovery_interval_s
            if read
            else max(self._settings.discovery_interval_s, took / SCAN_SHARE)
        )
        self._discovery_due = started + interval

    def _full_pass(self, this: Ingester) -> PassOutcome:
        try:
            return ingester.run_pass(this, distrust=self._distrust, resting=self._resting)
        except OSError as error:
            problem = {".": unlistable_base_dir(str(self._base_dir), error)}
            commit.finish_discovery(self._engine, this.lease, problem, self._settings.batch_rows)
            raise

    def _poll_live_jobs(self, this: Ingester) -> None:
        with reading(self._engine) as connection:
            live = registry.live_jobs(connection, this.lease.base_dir_id)
        if live:
            self._recorded(this, lambda: ingester.run_pass(this, only=live, distrust=self._distrust))

    def _recorded(self, this: Ingester, run: Callable[[], PassOutcome]) -> PassOutcome:
        """Run a pass; leave a row in the history when it read something, or none has been left for a while."""
        with record_cycle(self._engine, this.lease, self._settings.cycle_history) as finish:
            outcome = run()
            counts = outcome.counts
            if counts.bytes_read or time.monotonic() >= self._cycle_row_due:
                finish(counts)
                self._cycle_row_due = time.monotonic() + QUIET_CYCLE_S
        if counts.bytes_read:
            numbers = {"files": counts.files_read, "events": counts.events, "bytes": counts.bytes_read}
            log.info("read", extra={"base_dir": str(self._base_dir), **numbers})
        return outcome

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
