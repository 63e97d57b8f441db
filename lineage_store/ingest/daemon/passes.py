"""What a leader looks at, and when: the passes over one base dir, or one shard of it.

In: an ingester, whenever there is time. Out: an up-to-date store, and rows in the history. Promises: live jobs are
looked at every time; new directories and all files that may grow within one discovery interval; directories that rest a
thousand in each discovery, and their files when the directory changed or the finished interval has passed. Remembers
what is on disk, so that it is of use only as long as nobody else leads. Does not know why it leads, nor what a failure
means.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from lineage_store.ingest import commit, pipeline
from lineage_store.ingest.counts import Counts
from lineage_store.ingest.daemon.older_store import tell_lack
from lineage_store.ingest.history import record_cycle
from lineage_store.ingest.pipeline import Ingester
from lineage_store.ingest.problems import unlistable_base_dir
from lineage_store.ingest.scan.directory_cache import DirectoryCache, Signs
from lineage_store.ingest.scan.survey import survey_changes
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import reading
from lineage_store.store.database.filesystem import filesystem_type, is_network

log = logging.getLogger(__name__)

SCAN_SHARE = 0.1
"""A discovery may take this share of the time at most; where directories are many, discoveries become rarer."""
QUIET_CYCLE_S = 60.0
"""A pass that read nothing leaves a row in the history this often."""


class Passes:
    """How far one leader is with looking."""

    def __init__(
        self,
        base_dir: Path,
        on_directory: Callable[[], None],
        *,
        follow_symlinks: bool,
        searched_before: datetime | None,
    ) -> None:
        """`searched_before`: when the store was searched last, which is told once, with what it lacks."""
        distrust = is_network(filesystem_type(base_dir))
        self._cache = DirectoryCache(follow_symlinks=follow_symlinks, distrust=distrust)
        self._on_directory, self._searched_before, self._is_first = on_directory, searched_before, True
        self.discovery_due = self._cycle_row_due = self._survey_ended = 0.0

    def make(self, this: Ingester) -> bool:
        """Make the pass that is due; whether it searched the whole base dir."""
        is_discovery = time.monotonic() >= self.discovery_due
        if is_discovery:
            self._discover(this)
        else:
            self._poll_live_jobs(this)
        return is_discovery

    def _discover(self, this: Ingester) -> None:
        """Look for new jobs and files, and at a part of what rests."""
        started = time.monotonic()
        self._recorded(this, lambda: self._full_pass(this))
        took = self._survey_ended - started  # what was read then is no reason to search less often
        self.discovery_due = started + max(this.settings.discovery_interval_s, took / SCAN_SHARE)

    def _full_pass(self, this: Ingester) -> Counts:
        try:
            relist_after_s = this.settings.finished_interval_s
            return self._pass(this, self._cache.signs(this.base_dir, relist_after_s=relist_after_s))
        except OSError as error:
            problem = [unlistable_base_dir(str(this.base_dir), error)]
            most_rows = this.settings.batch_rows
            commit.finish_discovery(this.engine, this.lease, problem, most_rows, this.should_stop)
            raise

    def _poll_live_jobs(self, this: Ingester) -> None:
        with reading(this.engine) as connection:
            live = registry.live_jobs(connection, this.lease.base_dir_id, this.lease.shards)
        if live or _is_busy(this):
            signs = self._cache.signs_in(this.base_dir, live)
            self._recorded(this, lambda: self._pass(this, signs, searched=False))

    def _pass(self, this: Ingester, signs: Signs, *, searched: bool = True) -> Counts:
        todo = survey_changes(
            this.engine,
            this.base_dir,
            this.lease.base_dir_id,
            this.settings,
            self._cache,
            signs,
            distrust=self._cache.distrust,
            on_directory=self._on_directory,
            shards=this.lease.shards,
        )
        self._survey_ended = time.monotonic()
        if searched and self._is_first:
            tell_lack(this.base_dir, self._searched_before, todo)
            self._is_first = False
        calls_for_more = todo or searched or _is_busy(this)
        return pipeline.carry_out(this, todo, searched=searched) if calls_for_more else todo.counts

    def _recorded(self, this: Ingester, run: Callable[[], Counts]) -> Counts:
        """Run a pass; leave a row in the history when it read something, or none has been left for a while."""
        with record_cycle(this.engine, this.lease, this.settings.cycle_history) as finish:
            counts = run()
            if counts.bytes_read or time.monotonic() >= self._cycle_row_due:
                finish(counts)
                self._cycle_row_due = time.monotonic() + QUIET_CYCLE_S
        if counts.bytes_read:
            numbers = {"files": counts.files_read, "events": counts.events, "bytes": counts.bytes_read}
            log.info("read", extra={"base_dir": str(this.base_dir), **numbers})
        return counts


def _is_busy(this: Ingester) -> bool:
    return this.batches is not None and this.batches.is_busy
