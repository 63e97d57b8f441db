"""One pass over a base dir: bring the store up to date with the log files on disk.

In: an engine, a base dir, a lease. Out: counts of what the pass found and read, and a row of `ingest_cycle` for each
recorded pass and each part of a long one. Promises: a bad file does not keep the other files from being read; a pass
can stop between any two transactions, and the next one continues there; files are read a chunk at a time in turn, so
that big files do not keep small ones waiting. Knows only the order of the steps: each has a module of its own.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import BookmarkMovedError, LineageParamSummaryPathError
from lineage_store.ingest import commit, copies
from lineage_store.ingest.lease import hold_lease, is_known, known_at, refuse_unfit, register, writing_under
from lineage_store.ingest.problems import missing_files, path_problems
from lineage_store.ingest.read.batch import Batch
from lineage_store.ingest.read.queue import FileQueue, reader_of
from lineage_store.ingest.report import Counts, IngestReport, Progress
from lineage_store.ingest.scan.discovery import holds_log_files
from lineage_store.ingest.scan.survey import Scope, Survey, find_files, survey
from lineage_store.plain_values import LARGEST_INTEGER
from lineage_store.program import Limit
from lineage_store.store.admin import planner_statistics
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading, require_writable
from lineage_store.store.leases import Lease
from lineage_store.store.records import FileKey, KnownFile
from lineage_store.store.writes import file_rows, ingest_log, jobs

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
    queue: FileQueue | None = None
    """The files that wait to be read, kept from pass to pass; None: a pass reads all files to their ends."""

    @property
    def is_busy(self) -> bool:
        """Whether files wait that earlier passes found."""
        return self.queue is not None and self.queue.is_busy


def run_pass(this: Ingester, *, only: Collection[str] | None = None) -> Counts:
    """Ingest what is new in the base dir, or in the jobs `only`.

    Raises OSError when the base dir cannot be listed, LeaseLostError when another ingester has taken over.
    """
    counts, todo, searched = Counts(), Survey(), only is None
    scope = Scope(this.engine, this.base_dir, this.lease.base_dir_id, this.settings)
    for part, todo in enumerate(survey(scope, only)):
        if part and todo and this.should_stop():
            searched = False  # the rest waits for the next pass
            break
        counts = _ingest_part(this, todo, counts)
    return _finish(this, todo, counts, searched=searched)


def ingest_survey(this: Ingester, todo: Survey, *, searched: bool) -> Counts:
    """Ingest what a survey found. Raises LeaseLostError.

    Args:
        searched: whether the survey was of the whole base dir.
    """
    return _finish(this, todo, _ingest_part(this, todo, Counts()), searched=searched)


def _ingest_part(this: Ingester, todo: Survey, before: Counts) -> Counts:
    """Ingest what a part of a survey found; return its counts added to those of the parts `before`."""
    if todo.missing:
        todo = _mark_missing(this, todo)
    if todo.owners:
        with writing_under(this.engine, this.lease) as (session, _):
            registry.note_owners(session, this.lease.base_dir_id, todo.owners)
    counts, settings = before.found(todo.counts), this.settings
    if not (todo.changed or todo.new or this.is_busy):
        return counts
    if this.queue is not None:
        return _read_and_write(this, this.queue, todo, counts, settings.poll_interval_s)
    with reader_of(len(todo.changed) + len(todo.new), settings) as reader:
        return _read_and_write(this, FileQueue(this.base_dir, settings, reader), todo, counts, math.inf)


def _mark_missing(this: Ingester, todo: Survey) -> Survey:
    """Mark missing files; return the survey with the copies that took their places among the files to be read."""
    missing = missing_files(this.base_dir, todo.missing, follow_symlinks=this.settings.follow_symlinks)
    heirs = copies.note_missing(this.engine, this.lease, missing, this.settings)
    if this.queue is not None:
        this.queue.jobs_with_copies |= {file.job_id for file in heirs}
    paths = {(file.job_id, file.name) for file in heirs}
    others = [each for each in todo.changed if (each[0].job_id, each[0].name) not in paths]
    return replace(todo, changed=(*others, *((file, file.size_bytes - file.byte_offset) for file in heirs)))


def _finish(this: Ingester, todo: Survey, counts: Counts, *, searched: bool) -> Counts:
    """Do the steps at the end of a pass; `todo` is the last part of its survey."""
    engine, lease, settings = this.engine, this.lease, this.settings
    if searched:
        problems = path_problems(this.base_dir, todo.unreadable) if todo.unreadable else []
        commit.finish_discovery(engine, lease, problems, settings.batch_rows, this.should_stop)
    commit.refresh_quiet_jobs(engine, lease, settings.live_within_s)
    # Only the leader of shard 0 gathers statistics, for the rows that all leaders wrote.
    if 0 in lease.shards.numbers and _calls_for_analysis(this, counts):
        planner_statistics.gather(engine)
    return counts


def _calls_for_analysis(this: Ingester, counts: Counts) -> bool:
    """Return whether statistics are to be gathered: many events were read, or some and the statistics are too old.

    Where a queue outlives a pass, the events of all passes since none waited count together, when none waits again.
    """
    queue, events = this.queue, counts.events
    if queue is not None and not queue.files_waiting:
        events, queue.events = queue.events, 0
    elif queue is not None:
        events = 0
    many = events >= planner_statistics.MANY_EVENTS
    return many or (counts.events > 0 and planner_statistics.are_due(this.engine))


def _read_and_write(this: Ingester, queue: FileQueue, todo: Survey, counts: Counts, seconds: float) -> Counts:
    """Read the files to their ends, one batch per transaction; read each batch while the one before it is written.

    Returns `counts` with what was read added.

    Args:
        seconds: how long to go on by itself (program.py), so that what grew meanwhile gets its turn.
    """
    limit = _put_in_queue(this, queue, todo, seconds)
    read, read_before = set[FileKey](), counts.files_read
    notes_at = time.monotonic() + this.settings.poll_interval_s
    for batch in queue:
        if time.monotonic() >= notes_at:
            _note_sizes(this, queue, todo)
            notes_at = math.inf
        if this.should_stop():
            break
        batch = _without_copies(this, queue, batch)
        started = time.monotonic()
        if _write(this, queue, batch):
            took_s = time.monotonic() - started
            queue.add(_to_read_next(this, queue, batch))
            read |= {
                each.file.key for each in batch.advances if each.after.byte_offset > each.file.byte_offset
            }
            counts = counts.plus(batch.advances, files_read=read_before + len(read), took_s=took_s)
            this.record(counts)
            this.progress(Progress(counts.bytes_read, counts.events, queue.files_waiting))
        _look_up_some(this, queue)
        if limit.left_s() <= 0:
            break
    return counts


def _put_in_queue(this: Ingester, queue: FileQueue, todo: Survey, seconds: float) -> Limit:
    """Put what a survey found in the queue, new files when they are registered; return the limit of the pass."""
    with reading(this.engine) as session:
        limit = queue.begin_pass(session.now(), seconds)
        changed = registry.with_originals(session, [file for file, _ in todo.changed])
    queue.add_changed(zip(changed, (size for _, size in todo.changed), strict=True))
    # New files are registered before any is read, so that the store tells at once what it lacks.
    most = this.settings.batch_files
    for start in range(0, len(todo.new), most):
        if start and this.should_stop():
            break  # the next pass finds the others
        some = todo.new[start : start + most]
        known = commit.add_files(this.engine, this.lease, some, this.settings.live_within_s)
        if len(todo.new) <= most:
            queue.add(known)
        else:
            queue.add_new(some)
    _look_up_some(this, queue)
    return limit


def _look_up_some(this: Ingester, queue: FileQueue) -> None:
    """Look up the new files that are read soon."""
    while new := queue.next_new(this.settings.batch_files):
        with reading(this.engine) as session:
            queue.add_looked_up(registry.registered(session, this.lease.base_dir_id, new))


def _note_sizes(this: Ingester, queue: FileQueue, todo: Survey) -> None:
    """Note how large the files of a survey are that still wait; what is read at once is noted when it has been read."""
    waiting = [
        (file, file.byte_offset + more)
        for file, more in todo.changed
        if file.byte_offset + more > file.size_bytes and file in queue
    ]
    if waiting:
        with writing_under(this.engine, this.lease) as (session, now):
            file_rows.note_sizes(session, waiting, now)
            job_ids, live_within_s = {file.job_id for file, _ in waiting}, this.settings.live_within_s
            jobs.refresh_jobs(session, this.lease.base_dir_id, job_ids, now, live_within_s)


def _without_copies(this: Ingester, queue: FileQueue, batch: Batch) -> Batch:
    """Return the batch without files that begin as others do: they are set aside, to be compared with those.

    What was read ahead of files that a copy has replaced since is left out too.
    """
    moved = copies.changed_since(this.engine, batch.advances, queue.jobs_with_copies)
    aside = copies.set_aside(this.engine, this.lease, batch.advances)
    if moved or aside:
        batch = batch.without([*moved, *aside])
        queue.withdraw([*moved, *aside])
        queue.add(aside)
    return batch


def _write(this: Ingester, queue: FileQueue, batch: Batch) -> bool:
    """Write a batch; return False if nothing was written, because somebody else moved a bookmark meanwhile."""
    if not batch.calls_for_writing:
        return True
    try:
        commit.write_batch(this.engine, this.lease, batch, this.settings)
    except BookmarkMovedError as error:
        log.warning("%s Those files are read again in the next pass.", error.message)
        queue.withdraw(
            each.file for each in batch.advances
        )  # reading must not go on behind what was not written
        return False
    queue.go_on(batch)
    return True


def _to_read_next(this: Ingester, queue: FileQueue, batch: Batch) -> list[KnownFile]:
    """Store how copies compare, and return the files that are to be read or compared next because of a batch."""
    engine, lease = this.engine, this.lease
    following = list[KnownFile]()
    if anew := [each.file.key for each in batch.advances if each.completes_generation]:
        with reading(engine) as session:
            following += registry.with_originals(session, file_rows.copies_of(session, anew))
    if queue.compared or batch.compared:
        compared, queue.compared = [*queue.compared, *batch.compared], []
        # A file that has more to be read cannot change places with its copy.
        ready = [each for each in compared if each.original not in queue]
        queue.compared = [each for each in compared if each.original in queue]
        following += copies.settle(engine, lease, ready, this.settings) if ready else []
    if batch.rewritten:
        following += copies.start_generations(engine, lease, [each.file for each in batch.rewritten])
    return following


# ---- The history of passes

PART_S = 10.0
"""A pass that takes longer leaves a row each time that so much has passed."""


class PassRecord:
    """The rows of `ingest_cycle` of one pass, which tell how reading goes while it goes on."""

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
                **{
                    name: getattr(counts, name) for name in ("files_found", "files_read", "events", "samples")
                },
                "bytes_read": min(counts.bytes_read, LARGEST_INTEGER),
                **asdict(left),
            }
            history, took_s = self._history, counts.batches_s
            ingest_log.write_cycle(session, row, history, batches=counts.batches, batches_s=took_s)
        self._started, self._recorded = now, so_far


@contextmanager
def record_cycle(engine: Engine, lease: Lease, history: int) -> Iterator[PassRecord]:
    """Record the pass that the block makes: the block notes its counts.

    A block that fails, or does not finish the record, leaves no row but those of its parts.
    """
    record = PassRecord(engine, lease, history)
    yield record
    record.close()


# ---- A pass by itself, for a person who waits for it

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
    was_known = is_known(engine, base_dir)
    if not was_known:
        refuse_unfit(engine, base_dir)
        if not holds_log_files(base_dir, levels=None if settings.recursive else 1):
            found = run_listing(base_dir, lambda: find_files(base_dir, settings))
            if not (found.files or found.unreadable):
                counts = Counts(ignored=dict(found.ignored), too_deep=tuple(found.too_deep))
                return IngestReport(str(base_dir), counts, 0, 0, 0, time.monotonic() - started)
    base_dir_id = register(engine, base_dir)
    stop_waiting = should_stop if waits else lambda: True
    with hold_lease(
        engine, base_dir_id, settings.lease_s, mode="once", base_dir=base_dir, stop_waiting=stop_waiting
    ) as lease:
        this = Ingester(engine, base_dir, lease, settings, progress or (lambda _: None), should_stop)
        with record_cycle(engine, lease, settings.cycle_history) as record:
            counts = run_listing(base_dir, lambda: run_pass(replace(this, record=record.so_far)))
            record.finish(counts)
        commit.heartbeat(engine, lease, searched=True)
    report = _report(engine, base_dir, base_dir_id, counts, time.monotonic() - started)
    return report if was_known else replace(report, known_at=known_at(engine, base_dir_id))


def run_listing(base_dir: Path, run: Callable[[], T]) -> T:
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
