"""One pass over a base dir: bring the store up to date with the log files on disk.

In: an engine, a base dir, a lease. Out: counts of what the pass found and read. Promises: a bad file does not keep the
other files from being read; a pass can stop between any two transactions, and the next one continues there; files are
read a chunk at a time in turn, so that big files do not keep small ones waiting.
Knows only the order of the steps: each step has a module of its own.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import BookmarkMovedError, LineageParamSummaryPathError
from lineage_store.ingest import commit, copies
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest.lease import hold_lease, writing_under
from lineage_store.ingest.problems import missing_files, path_problems
from lineage_store.ingest.read.batch import Batch
from lineage_store.ingest.read.queue import Batches, reader_of
from lineage_store.ingest.report import Counts, IngestReport, Progress
from lineage_store.ingest.scan.discovery import holds_log_files
from lineage_store.ingest.scan.survey import ALL_KINDS, Scope, Survey, find, next_generation, survey
from lineage_store.plain_values import LARGEST_INTEGER
from lineage_store.states import FileEvent
from lineage_store.store.admin import planner_statistics
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading, require_writable
from lineage_store.store.leases import Lease
from lineage_store.store.records import FileKey, KnownFile, NewFile
from lineage_store.store.writes import ingest_log

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ingester:
    """The parameters of every pass over one base dir."""

    engine: Engine
    base_dir: Path
    lease: Lease
    settings: Settings
    progress: Callable[[Progress], None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False
    """Called between transactions; True ends the pass early, with everything so far committed."""
    record: Callable[[Counts], None] = lambda _: None
    """Called after each batch with the counts of the pass so far."""
    batches: Batches | None = None
    """The files that wait to be read, kept from pass to pass; None: a pass reads all files to their ends."""


def run_pass(
    ingester: Ingester, *, only: Collection[str] | None = None, kinds: Collection[str] = ALL_KINDS
) -> Counts:
    """Ingest what is new in the base dir, or in the jobs `only`, or in files of some kinds.

    Raises OSError when the base dir cannot be listed, LeaseLostError when another ingester has taken over.
    """
    counts, todo, searched = Counts(), Survey(), only is None and kinds == ALL_KINDS
    lease, settings = ingester.lease, ingester.settings
    scope = Scope(ingester.engine, ingester.base_dir, lease.base_dir_id, settings, kinds)
    for part, todo in enumerate(survey(scope, only)):
        if part and todo and ingester.should_stop():
            searched = False  # the rest waits for the next pass
            break
        counts = _carry_out(ingester, todo, counts)
    return _finish(ingester, todo, counts, searched=searched)


def carry_out(ingester: Ingester, todo: Survey, *, searched: bool) -> Counts:
    """Ingest what a survey found. Raises LeaseLostError.

    Args:
        searched: whether the survey was of the whole base dir.
    """
    return _finish(ingester, todo, _carry_out(ingester, todo, Counts()), searched=searched)


def _carry_out(ingester: Ingester, todo: Survey, before: Counts) -> Counts:
    """Ingest what a part of a survey found; return its counts added to those of the parts `before`."""
    if todo.missing:
        settings = ingester.settings
        links = settings.follow_symlinks
        missing = missing_files(ingester.base_dir, todo.missing, follow_symlinks=links)
        heirs = commit.mark_missing(ingester.engine, ingester.lease, missing, settings)
        if heirs and ingester.batches is not None:
            ingester.batches.jobs_with_copies |= {file.job_id for file in heirs}
        paths = {(file.job_id, file.name) for file in heirs}
        others = [each for each in todo.changed if (each[0].job_id, each[0].name) not in paths]
        unread = [(file, file.size_bytes - file.byte_offset) for file in heirs]
        todo = replace(todo, changed=(*others, *unread))
    if todo.owners:
        commit.note_owners(ingester.engine, ingester.lease, todo.owners)
    return _read_all(ingester, todo, before.found(todo.counts))


def _finish(ingester: Ingester, todo: Survey, counts: Counts, *, searched: bool) -> Counts:
    """Do the steps at the end of a pass; `todo` is the last part of its survey."""
    if searched:
        problems = path_problems(ingester.base_dir, todo.unreadable)
        rows_at_a_time, should_stop = ingester.settings.batch_rows, ingester.should_stop
        commit.finish_discovery(ingester.engine, ingester.lease, problems, rows_at_a_time, should_stop)
    commit.refresh_quiet_jobs(ingester.engine, ingester.lease, ingester.settings.live_within_s)
    # Only the leader of shard 0 gathers statistics, for the rows that all leaders wrote.
    if 0 in ingester.lease.shards.numbers and _calls_for_analysis(ingester, counts):
        planner_statistics.gather(ingester.engine)
    return counts


def _calls_for_analysis(ingester: Ingester, counts: Counts) -> bool:
    """Return whether statistics are to be gathered: many events were read, or some and the statistics are too old.

    Where batches outlive a pass, the events of all passes since none waited count together, when none waits again.
    """
    batches, events = ingester.batches, counts.events
    if batches is not None and not batches.files_waiting:
        events, batches.events = batches.events, 0
    elif batches is not None:
        events = 0
    return events >= planner_statistics.MANY_EVENTS or (
        counts.events > 0 and planner_statistics.are_due(ingester.engine)
    )


def _read_all(ingester: Ingester, todo: Survey, counts: Counts) -> Counts:
    """Read the files to their ends, one batch per transaction; read each batch while the one before it is written.

    Where batches outlive the pass, it ends after `poll_interval_s` of its own time (program.py), so that what grew
    meanwhile gets its turn.
    Returns `counts` with what was read added.
    """
    if not (todo.changed or todo.new or (ingester.batches and ingester.batches.is_busy)):
        return counts
    if ingester.batches is not None:
        return _commit_all(ingester, ingester.batches, todo, counts, ingester.settings.poll_interval_s)
    with reader_of(len(todo.changed) + len(todo.new), ingester.settings) as reader:
        batches = Batches(ingester.base_dir, ingester.settings, reader)
        return _commit_all(ingester, batches, todo, counts, math.inf)


def _commit_all(ingester: Ingester, batches: Batches, todo: Survey, counts: Counts, seconds: float) -> Counts:
    read, read_before = set[FileKey](), counts.files_read
    with reading(ingester.engine) as session:
        limit = batches.begin_pass(session.now(), seconds)
        changed = registry.with_originals(session, [file for file, _ in todo.changed])
    pending = (size for _, size in todo.changed)
    batches.add_changed(zip(changed, pending, strict=True))
    _register(ingester, batches, todo.new)
    _look_up_some(ingester, batches)
    notes_at = time.monotonic() + ingester.settings.poll_interval_s
    for batch in batches:
        if time.monotonic() >= notes_at:
            _note_sizes(ingester, batches, todo)
            notes_at = math.inf
        if ingester.should_stop():
            break
        batch = _without_copies(ingester, batches, batch)
        started = time.monotonic()
        if _is_committed(ingester, batch):
            took_s = time.monotonic() - started
            batches.go_on(batch)
            batches.resume(_settled(ingester, batches, batch))
            rewritten = [news.file for news in batch.rewritten]
            if rewritten:
                again = list(map(next_generation, rewritten))
                for file in commit.start_generations(ingester.engine, ingester.lease, rewritten, again):
                    batches.add(file)
            read |= {
                each.file.key for each in batch.advances if each.after.byte_offset > each.file.byte_offset
            }
            counts = counts.plus(batch.advances, files_read=read_before + len(read), took_s=took_s)
            ingester.record(counts)
            ingester.progress(Progress(counts.bytes_read, counts.events, batches.files_waiting))
        else:
            batches.drop(batch)
        _look_up_some(ingester, batches)
        if limit.left_s() <= 0:
            break
    return counts


def _without_copies(ingester: Ingester, batches: Batches, batch: Batch) -> Batch:
    """Return the batch without files that begin as others do: they are set aside, to be compared with those.

    What was read ahead of files that a copy has replaced since is left out too.
    """
    moved = copies.changed_since(ingester.engine, batch.advances, batches.jobs_with_copies)
    aside = copies.set_aside(ingester.engine, ingester.lease, batch.advances)
    if moved or aside:
        batch = batch.without([*moved, *aside])
        batches.withdraw([*moved, *aside])
        batches.resume(aside)
    return batch


def _settled(ingester: Ingester, batches: Batches, batch: Batch) -> list[KnownFile]:
    """Store how copies compare, and return the files that are to be read or compared next because of that."""
    engine, anew = ingester.engine, [each.file for each in batch.advances if each.completes_generation]
    following = copies.copies_of(engine, anew) if anew else []
    if batches.compared or batch.compared:
        compared, batches.compared = [*batches.compared, *batch.compared], []
        # A file that has more to be read cannot change places with its copy.
        ready = [each for each in compared if each.original not in batches]
        batches.compared = [each for each in compared if each.original in batches]
        following += copies.settle(engine, ingester.lease, ready, ingester.settings) if ready else []
    return following


def _register(ingester: Ingester, batches: Batches, new: Sequence[NewFile]) -> None:
    """Register new files before any is read, so that the store tells at once what it lacks."""
    most, live_within_s = ingester.settings.batch_files, ingester.settings.live_within_s
    for start in range(0, len(new), most):
        if start and ingester.should_stop():
            break  # the next pass finds the others
        some = new[start : start + most]
        known = commit.register(ingester.engine, ingester.lease, some, live_within_s)
        if len(new) <= most:
            batches.add(*known)
        else:
            batches.add_new(some)


def _look_up_some(ingester: Ingester, batches: Batches) -> None:
    """Look up the new files that are read soon."""
    while new := batches.next_new(ingester.settings.batch_files):
        with reading(ingester.engine) as session:
            batches.add(*registry.registered(session, ingester.lease.base_dir_id, new))


def _note_sizes(ingester: Ingester, batches: Batches, todo: Survey) -> None:
    """Note how large the files of a survey are that still wait; what is read at once is noted when it has been read."""
    waiting = [
        (file, file.byte_offset + more)
        for file, more in todo.changed
        if file.byte_offset + more > file.size_bytes and file in batches
    ]
    if waiting:
        commit.note_sizes(ingester.engine, ingester.lease, waiting, ingester.settings.live_within_s)


def _is_committed(ingester: Ingester, batch: Batch) -> bool:
    """Write a batch; return False if nothing was written, because another one moved a bookmark meanwhile."""
    engine, lease = ingester.engine, ingester.lease
    try:
        if batch.advances:
            commit.write_batch(engine, lease, batch.advances, batch.samples, ingester.settings)
    except BookmarkMovedError as error:
        log.warning("%s Those files are read again in the next pass.", error.message)
        return False
    live_within_s = ingester.settings.live_within_s
    if batch.failures:
        commit.mark_unreadable(engine, lease, batch.failures, live_within_s)
    if batch.riddled:
        commit.mark_unreadable(engine, lease, batch.riddled, live_within_s, FileEvent.RIDDLED)
    if batch.failed_read:
        commit.mark_failed_read(engine, lease, *batch.failed_read, live_within_s)
    return True


# ---- The history of passes: a row of `ingest_cycle` for each recorded pass, and for each part of a long one
# In: a lease, and the counts of a pass meanwhile and when it ends. Out: rows, which tell how reading goes while it
# goes on; the oldest rows are deleted. Does not know which passes are worth a row.


PART_S = 10.0
"""A pass that takes longer leaves a row each time that so much has passed."""


class Record:
    """The rows of one pass."""

    def __init__(self, engine: Engine, lease: Lease, history: int) -> None:
        self._engine, self._lease, self._history = engine, lease, history
        with reading(engine) as session:
            self._started = session.now()
        self._part_ends, self._recorded = time.monotonic() + PART_S, Counts()
        self._outcome: Counts | None = None

    def so_far(self, counts: Counts) -> None:
        """Note what the pass has read; adds a row if the part has been long enough."""
        if time.monotonic() >= self._part_ends:
            self._write(counts)
            self._part_ends = time.monotonic() + PART_S

    def finish(self, counts: Counts) -> None:
        """Note what the pass has read in all; the row is added when the block of `record_cycle` ends."""
        self._outcome = counts

    def close(self) -> None:
        """Add the row of what is not recorded yet, if the pass was finished."""
        if self._outcome is not None:
            self._write(self._outcome)

    def _write(self, so_far: Counts) -> None:
        counts, lease = so_far.since(self._recorded), self._lease
        with writing_under(self._engine, lease) as (session, now):
            left = registry.unfinished(session, lease.base_dir_id)
            row = {
                "base_dir_id": lease.base_dir_id,
                "started_at": self._started,
                "finished_at": now,
                "holder": lease.holder,
                "files_found": counts.files_found,
                "files_read": counts.files_read,
                "bytes_read": min(counts.bytes_read, LARGEST_INTEGER),
                "events": counts.events,
                "samples": counts.samples,
                "pending_bytes": left.pending_bytes,
                "waiting_files": left.waiting_files,
                "waiting_bytes": left.waiting_bytes,
                "problems": left.problems,
            }
            history, took_s = self._history, counts.batches_s
            ingest_log.write_cycle(session, row, history, batches=counts.batches, batches_s=took_s)
        self._started, self._recorded = now, so_far


@contextmanager
def record_cycle(engine: Engine, lease: Lease, history: int) -> Iterator[Record]:
    """Record the pass that the block makes: the block notes its counts.

    A block that fails, or does not finish the record, leaves no row but those of its parts.
    """
    record = Record(engine, lease, history)
    yield record
    record.close()


T = TypeVar("T")


def ingest(
    engine: Engine,
    base_dir: Path,
    settings: Settings,
    *,
    progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    waits: bool = True,
) -> IngestReport:
    """Read everything that is new below a base dir. Registers no base dir without log files.

    Args:
        progress: called after each batch.
        should_stop: asked between transactions; True ends the pass early.
        waits: wait for the lease of a leader on another host to expire, for that leader may have died.

    Raises LineageParamSummaryPathError (no directory, or unlistable), LeaseHeldError, LeaseLostError,
    DatabaseUnavailableError, ReadOnlyStoreError, ReaderStuckError.
    """
    require_writable(engine)
    started = time.monotonic()
    is_known = base_dirs.is_known(engine, base_dir)
    if not is_known:
        base_dirs.refuse_unfit(engine, base_dir)
        if not holds_log_files(base_dir, levels=None if settings.recursive else 1):
            found = listed(base_dir, lambda: find(base_dir, settings))
            if not (found.files or found.unreadable):
                counts = Counts(ignored=dict(found.ignored), too_deep=tuple(found.too_deep))
                return IngestReport(str(base_dir), counts, 0, 0, 0, time.monotonic() - started)
    base_dir_id = base_dirs.register(engine, base_dir)
    stop_waiting = should_stop if waits else lambda: True
    with hold_lease(
        engine, base_dir_id, settings.lease_s, mode="once", base_dir=base_dir, stop_waiting=stop_waiting
    ) as lease:
        this = Ingester(engine, base_dir, lease, settings, progress or (lambda _: None), should_stop)
        with record_cycle(engine, lease, settings.cycle_history) as record:
            counts = listed(base_dir, lambda: run_pass(replace(this, record=record.so_far)))
            record.finish(counts)
        commit.heartbeat(engine, lease, searched=True)
    report = _report(engine, base_dir, base_dir_id, counts, time.monotonic() - started)
    return report if is_known else replace(report, known_at=base_dirs.known_at(engine, base_dir_id))


def listed(base_dir: Path, run: Callable[[], T]) -> T:
    """Run what lists a base dir. Raises LineageParamSummaryPathError when that cannot be listed."""
    try:
        return run()
    except OSError as error:
        reason = error.strerror or str(error)
        raise LineageParamSummaryPathError(
            f"The base dir {base_dir} cannot be listed: {reason}.",
            hint="Is the share mounted, and may this user read it? What the store holds of it is kept.",
        ) from error


def _report(engine: Engine, base_dir: Path, base_dir_id: int, counts: Counts, seconds: float) -> IngestReport:
    with reading(engine) as session:
        jobs = registry.job_count(session, base_dir_id)
        left = registry.unfinished(session, base_dir_id)
    pending_bytes = left.pending_bytes - left.waiting_bytes
    return IngestReport(
        str(base_dir), counts, jobs, pending_bytes, left.problems, seconds, left.waiting_files
    )
