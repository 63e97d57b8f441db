"""The passes over one base dir, or one shard of it: which directories and files the leader looks at, and when.

In: an ingester, at every tick. Out: an up-to-date store, and rows in the history. Promises: every pass looks at live
jobs; every discovery looks for new directories and at all files that may grow, and at a thousand of the resting
directories (a hundredth, where that is more), whose files it looks at when the directory changed or the finished
interval has passed. Remembers what is on disk, so it is valid only as long as nobody else leads. Does not know leases,
nor what a failure means.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.ingest import commit, pipeline
from lineage_store.ingest.counts import Counts
from lineage_store.ingest.history import record_cycle
from lineage_store.ingest.pipeline import Ingester
from lineage_store.ingest.problems import unlistable_base_dir
from lineage_store.ingest.scan.directory_cache import Signs, new_cache
from lineage_store.ingest.scan.survey import Scope, Survey, survey_changes
from lineage_store.json_values import iso
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import reading

log = logging.getLogger(__name__)

SCAN_SHARE = 0.1
"""The share of the time that discoveries may take; with very many directories they become rarer."""
QUIET_CYCLE_S = 60.0
"""How often a pass that read nothing leaves a row in the history."""


class Passes:
    """The passes of one leader, with what it remembers between them."""

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
        is_discovery = time.monotonic() >= self.discovery_due
        if is_discovery:
            self._discover(this)
        else:
            self._poll_live_jobs(this)
        return is_discovery

    def _discover(self, this: Ingester) -> None:
        """Look for new jobs and files, and at a part of the resting directories."""
        started = time.monotonic()
        self._recorded(this, self._full_pass)
        took = self._survey_ended - started  # without reading, which is no reason to search less often
        self.discovery_due = started + max(this.settings.discovery_interval_s, took / SCAN_SHARE)

    def _full_pass(self, this: Ingester) -> Counts:
        try:
            relist_after_s = this.settings.finished_interval_s
            return self._pass(this, signs=self._cache.signs(this.base_dir, relist_after_s=relist_after_s))
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
        calls_for_more = todo or searched or _is_busy(this)
        return pipeline.carry_out(this, todo, searched=searched) if calls_for_more else todo.counts

    def _recorded(self, this: Ingester, run: Callable[[Ingester], Counts]) -> Counts:
        """Run a pass; add a row to the history when the pass read something, or when none was added for a while."""
        with record_cycle(this.engine, this.lease, this.settings.cycle_history) as record:
            counts = run(replace(this, record=record.so_far))
            if counts.bytes_read or time.monotonic() >= self._cycle_row_due:
                record.finish(counts)
                self._cycle_row_due = time.monotonic() + QUIET_CYCLE_S
        if counts.bytes_read:
            numbers = {"files": counts.files_read, "events": counts.events, "bytes": counts.bytes_read}
            log.info("read", extra={"base_dir": str(this.base_dir), **numbers})
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
        log.info("reads what came since", extra={"base_dir": str(base_dir), "searched_at": since, **counts})


def _is_busy(this: Ingester) -> bool:
    return this.batches is not None and this.batches.is_busy
