"""The conductor: one pass over a base dir, from what is on disk to what is in the store.

In: an engine, a base dir, a lease. Out: a report of what the pass did. Promises: one bad file costs itself; a pass can
stop between any two transactions and the next one goes on there; big files do not keep small ones waiting.
Knows the order of the steps and nothing else: each step has a module of its own.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import BookmarkMovedError
from lineage_store.ingest import commit
from lineage_store.ingest.counts import Counts
from lineage_store.ingest.problems import path_problems
from lineage_store.ingest.read.batch import Batch
from lineage_store.ingest.read.batches import Batches, reader_of
from lineage_store.ingest.read.worker import Reader
from lineage_store.ingest.report import Progress
from lineage_store.ingest.scan.survey import ALL_KINDS, Survey, next_generation, survey
from lineage_store.store.admin import analyze
from lineage_store.store.database.engine import database_time, reading
from lineage_store.store.leases import Lease
from lineage_store.store.records import FileKey, NewFile

log = logging.getLogger(__name__)

EVENTS_BEFORE_ANALYSE = 50_000
"""A pass that read more gives the planner something new to know; so may many that read less."""


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
    reader: Reader | None = None
    """Where log files are read and decoded; None: in a thread of this process."""


def run_pass(
    ingester: Ingester, *, only: Collection[str] | None = None, kinds: Collection[str] = ALL_KINDS
) -> Counts:
    """Bring the base dir up to date, or the jobs `only`, or the files of some kinds.

    Raises OSError when the base dir cannot be listed, LeaseLostError when another ingester has taken over.
    """
    base_dir_id = ingester.lease.base_dir_id
    todo = survey(ingester.engine, ingester.base_dir, base_dir_id, ingester.settings, only=only, kinds=kinds)
    return carry_out(ingester, todo, searched=only is None and kinds == ALL_KINDS)


def carry_out(ingester: Ingester, todo: Survey, *, searched: bool) -> Counts:
    """Do what a survey calls for; `searched` says that it was of the whole base dir. Raises LeaseLostError."""
    if todo.missing:
        live_within_s = ingester.settings.live_within_s
        commit.mark_missing(ingester.engine, ingester.lease, todo.missing, live_within_s)
    counts = _read_all(ingester, todo)
    if searched:
        problems = path_problems(str(ingester.base_dir), todo.unreadable)
        rows_at_a_time, should_stop = ingester.settings.batch_rows, ingester.should_stop
        commit.finish_discovery(ingester.engine, ingester.lease, problems, rows_at_a_time, should_stop)
    commit.refresh_quiet_jobs(ingester.engine, ingester.lease, ingester.settings.live_within_s)
    if counts.events >= EVENTS_BEFORE_ANALYSE or (counts.events and analyze.is_due(ingester.engine)):
        analyze.analyse(ingester.engine)
    return counts


def _read_all(ingester: Ingester, todo: Survey) -> Counts:
    """Read the files to their ends, a batch a transaction, each while the one before it is written."""
    if not (todo.changed or todo.new):
        return todo.counts
    with reading(ingester.engine) as connection:
        now = database_time(connection)
    files = len(todo.changed) + len(todo.new)
    reader = nullcontext(ingester.reader) if ingester.reader else reader_of(files, ingester.settings)
    with reader as given:
        batches = Batches(ingester.base_dir, todo.changed, ingester.settings, now, given)
        return _commit_all(ingester, batches, deque(todo.new), todo.counts)


def _commit_all(ingester: Ingester, batches: Batches, new: deque[NewFile], counts: Counts) -> Counts:
    read = set[FileKey]()
    _register_some(ingester, new, batches)
    for batch in batches:
        if ingester.should_stop():
            break
        if _is_committed(ingester, batch):
            for news in batch.rewritten:
                again = next_generation(news.file)
                batches.add(commit.start_generation(ingester.engine, ingester.lease, news.file, again))
            read |= {
                each.file.key for each in batch.advances if each.after.byte_offset > each.file.byte_offset
            }
            counts = counts.plus(batch.advances, files_read=len(read))
            waiting = batches.files_waiting + len(new)
            ingester.progress(Progress(counts.bytes_read, counts.events, waiting))
        _register_some(ingester, new, batches)
    return counts


def _register_some(ingester: Ingester, new: deque[NewFile], batches: Batches) -> None:
    """Make rows for new files, as far as they will soon be read: while one batch of them is read, the next is known."""
    size = ingester.settings.batch_files
    while new and batches.files_waiting < 2 * size:
        part = [new.popleft() for _ in range(min(size, len(new)))]
        batches.add(*commit.register(ingester.engine, ingester.lease, part))


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
    if batch.failed_read:
        commit.mark_failed_read(engine, lease, *batch.failed_read)
    return True
