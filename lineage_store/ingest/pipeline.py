"""The conductor: one pass over a base dir, from what is on disk to what is in the store.

In: an engine, a base dir, a lease. Out: a report of what the pass did. Promises: one bad file costs itself; a pass can
stop between any two transactions and the next one goes on there; big files do not keep small ones waiting.
Knows the order of the steps and nothing else: each step has a module of its own.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import BookmarkMovedError
from lineage_store.ingest import commit
from lineage_store.ingest.counts import Counts
from lineage_store.ingest.problems import missing_files, path_problems
from lineage_store.ingest.read.batch import Batch
from lineage_store.ingest.read.batches import Batches, reader_of
from lineage_store.ingest.report import Progress
from lineage_store.ingest.scan.survey import ALL_KINDS, Survey, next_generation, survey
from lineage_store.states import FileEvent
from lineage_store.store.admin import planner_statistics as statistics
from lineage_store.store.database.engine import database_time, reading
from lineage_store.store.leases import Lease
from lineage_store.store.records import FileKey

log = logging.getLogger(__name__)


def _silent(_: Progress) -> None:
    """No one watches."""


@dataclass(frozen=True, slots=True)
class Ingester:
    """What every pass over one base dir needs."""

    engine: Engine
    base_dir: Path
    lease: Lease
    settings: Settings
    progress: Callable[[Progress], None] = _silent
    should_stop: Callable[[], bool] = lambda: False
    """Asked between transactions; True ends the pass early, with everything so far committed."""
    batches: Batches | None = None
    """What waits to be read, which outlives a pass; None: a pass reads all there is."""


def run_pass(
    ingester: Ingester, *, only: Collection[str] | None = None, kinds: Collection[str] = ALL_KINDS
) -> Counts:
    """Bring the base dir up to date, or the jobs `only`, or the files of some kinds.

    Raises OSError when the base dir cannot be listed, LeaseLostError when another ingester has taken over.
    """
    counts, todo, searched = Counts(), Survey(), only is None and kinds == ALL_KINDS
    place = ingester.engine, ingester.base_dir, ingester.lease.base_dir_id, ingester.settings
    for part, todo in enumerate(survey(*place, only=only, kinds=kinds)):
        if part and todo and ingester.should_stop():
            searched = False  # the rest waits for the next pass
            break
        counts = _carry_out(ingester, todo, counts)
    return _finish(ingester, todo, counts, searched=searched)


def carry_out(ingester: Ingester, todo: Survey, *, searched: bool) -> Counts:
    """Do what a survey calls for; `searched` says that it was of the whole base dir. Raises LeaseLostError."""
    return _finish(ingester, todo, _carry_out(ingester, todo, Counts()), searched=searched)


def _carry_out(ingester: Ingester, todo: Survey, before: Counts) -> Counts:
    """Do what a part of a survey calls for; with what the parts before it came to."""
    if todo.missing:
        settings = ingester.settings
        links = settings.follow_symlinks
        missing = missing_files(ingester.base_dir, todo.missing, follow_symlinks=links)
        commit.mark_missing(ingester.engine, ingester.lease, missing, settings.live_within_s)
    return _read_all(ingester, todo, before.found(todo.counts))


def _finish(ingester: Ingester, todo: Survey, counts: Counts, *, searched: bool) -> Counts:
    """What a pass ends with; `todo` is the last part of its survey."""
    if searched:
        problems = path_problems(ingester.base_dir, todo.unreadable)
        rows_at_a_time, should_stop = ingester.settings.batch_rows, ingester.should_stop
        commit.finish_discovery(ingester.engine, ingester.lease, problems, rows_at_a_time, should_stop)
    commit.refresh_quiet_jobs(ingester.engine, ingester.lease, ingester.settings.live_within_s)
    # Of those who lead shards one gathers statistics, of what all of them wrote.
    if 0 in ingester.lease.shards.numbers and _calls_for_analysis(ingester, counts):
        statistics.gather(ingester.engine)
    return counts


def _calls_for_analysis(ingester: Ingester, counts: Counts) -> bool:
    """Whether a pass, or the last of several that read a backlog, read so much; or the planner knows too little."""
    batches, events = ingester.batches, counts.events
    if batches is not None and not batches.files_waiting:
        events, batches.events = batches.events, 0
    elif batches is not None:
        events = 0
    return events >= statistics.MANY_EVENTS or (counts.events > 0 and statistics.are_due(ingester.engine))


def _read_all(ingester: Ingester, todo: Survey, counts: Counts) -> Counts:
    """Read the files to their ends, a batch a transaction, each while the one before it is written; adds to `counts`.

    Where batches outlive the pass, it ends after a poll's interval, for files that grew meanwhile to have their turn.
    """
    if not (todo.changed or todo.new or (ingester.batches and ingester.batches.is_busy)):
        return counts
    if ingester.batches is not None:
        ends_at = time.monotonic() + ingester.settings.poll_interval_s
        return _commit_all(ingester, ingester.batches, todo, counts, ends_at)
    with reader_of(len(todo.changed) + len(todo.new), ingester.settings) as reader:
        batches = Batches(ingester.base_dir, ingester.settings, reader)
        return _commit_all(ingester, batches, todo, counts, math.inf)


def _commit_all(ingester: Ingester, batches: Batches, todo: Survey, counts: Counts, ends_at: float) -> Counts:
    read, read_before = set[FileKey](), counts.files_read
    with reading(ingester.engine) as connection:
        batches.begin_pass(database_time(connection), ends_at)
    batches.add_found(todo.changed, todo.new)
    _register_some(ingester, batches)
    for batch in batches:
        if ingester.should_stop():
            break
        started = time.monotonic()
        if _is_committed(ingester, batch):
            took_s = time.monotonic() - started
            for news in batch.rewritten:
                again = next_generation(news.file)
                batches.add(commit.start_generation(ingester.engine, ingester.lease, news.file, again))
            read |= {
                each.file.key for each in batch.advances if each.after.byte_offset > each.file.byte_offset
            }
            counts = counts.plus(batch.advances, files_read=read_before + len(read), took_s=took_s)
            ingester.progress(Progress(counts.bytes_read, counts.events, batches.files_waiting))
        else:
            batches.drop(batch)
        _register_some(ingester, batches)
        if time.monotonic() >= ends_at:
            break
    return counts


def _register_some(ingester: Ingester, batches: Batches) -> None:
    """Make rows for new files, as far as they will soon be read."""
    while new := batches.next_new(ingester.settings.batch_files):
        batches.add(*commit.register(ingester.engine, ingester.lease, new))


def _is_committed(ingester: Ingester, batch: Batch) -> bool:
    """Write a batch; False when somebody moved a bookmark meanwhile, and nothing was written."""
    engine, lease = ingester.engine, ingester.lease
    try:
        if batch.advances:
            commit.write_batch(engine, lease, batch.advances, batch.samples, ingester.settings)
    except BookmarkMovedError as error:
        log.warning("%s Those files are read again in the next pass.", error.message)
        return False
    if batch.failures:
        commit.mark_unreadable(engine, lease, batch.failures)
    if batch.riddled:
        commit.mark_unreadable(engine, lease, batch.riddled, FileEvent.RIDDLED)
    if batch.failed_read:
        commit.mark_failed_read(engine, lease, *batch.failed_read)
    return True
