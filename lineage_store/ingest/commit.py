"""The write transactions of ingest: lease, bookmarks, rows, and the lineage that is folded anew, all or nothing.

In: a lease, and a batch or what else was found. Out: a committed transaction, or an error and no change.
Promises: an ingester that lost its lease writes nothing; bookmarks and the rows read up to them are written together;
old lineage events are not read again, but for the few that count in a job's lineage: only the summary of each file is,
and the results of evaluations. Jobs are folded in portions, each of which ends with the job that brings it to
PORTION_BYTES of lineage. Knows the order of the statements, which are in store.writes; does not know the disk.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.fields import less_is_better
from lineage_store.findings import Finding, RangeProblems, finding, in_range
from lineage_store.ingest.decode.lineage_fold import binding, come_to, extended, merge
from lineage_store.ingest.decode.rows import no_room_for, plus
from lineage_store.ingest.lease import writing_under
from lineage_store.ingest.problems import MOST_FAILED_READS, quarantined_file
from lineage_store.ingest.read.batch import Batch
from lineage_store.program import uncollected
from lineage_store.states import FileEvent, FileState
from lineage_store.store import clock
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading
from lineage_store.store.database.sql import Session
from lineage_store.store.leases import Lease
from lineage_store.store.records import (
    Advance,
    FileKey,
    FileLineage,
    FoldedLineage,
    KnownFile,
    LineageRow,
    NewFile,
    relative_path,
)
from lineage_store.store.writes import file_rows, ingest_log, jobs, lineage
from lineage_store.store.writes.ingest_log import OfFile
from lineage_store.store.writes.lineage import FileOfJob, write_summaries
from lineage_store.store.writes.samples import recompute_supersession, write_samples

PORTION_BYTES = 8 << 20


def write_batch(engine: Engine, lease: Lease, batch: Batch, settings: Settings) -> None:
    """Commit one batch. Raises LeaseLostError, or BookmarkMovedError when the files are to be read again."""
    # Log files can repeat what is in a batch, so no commit of one waits for the disk.
    with writing_under(engine, lease, synced=False) as (session, now), uncollected():
        found = _write_advances(session, batch, settings, now) if batch.advances else {}
        _note_failures(session, batch, found)
        ingest_log.record(session, lease.base_dir_id, found, now)
        changed = {file.job_id for file in found}
        jobs.refresh_jobs(session, lease.base_dir_id, changed, now, settings.live_within_s)


def _write_advances(
    session: Session, batch: Batch, settings: Settings, now: datetime
) -> dict[KnownFile, OfFile]:
    """Move bookmarks and store what was read up to them; return what was found wrong with each file."""
    advances: Sequence[Advance] = file_rows.settled(session, batch.advances)
    file_rows.move_bookmarks(session, advances)
    advances, with_lineage = write_events(session, advances, settings, now)
    touched, tags, full = write_samples(session, batch.samples, settings.most_tags)
    advances = [_with_tags_left_out(each, full, settings.most_tags) for each in advances]
    recompute_supersession(session, touched, tags)
    replaced = [advance.file for advance in advances if advance.completes_generation]
    for file in replaced:
        file_rows.make_current(session, file)
    switched = {file.job_id for file in replaced}
    recompute_supersession(session, switched, None)
    refold(session, with_lineage | switched, advances, settings)
    return {each.file: OfFile(_state_problems(each), each.rows.problems) for each in advances}


def _note_failures(session: Session, batch: Batch, found: dict[KnownFile, OfFile]) -> None:
    """Mark files that could not be read, have too much damage, or failed the reader; add what is wrong to `found`.

    A file that failed the reader MOST_FAILED_READS times in a row is no longer read.
    """
    for event, files in (
        (FileEvent.FAILED, batch.failures),
        (FileEvent.HEAVILY_DAMAGED, batch.heavily_damaged),
    ):
        for file, problem in files:
            file_rows.mark_failed(session, file, event, problem.what)
            found[file] = OfFile([problem], found.get(file, OfFile()).ranges)
    if batch.failed_read:
        file, reason = batch.failed_read
        times = file.failed_reads + 1
        event = FileEvent.FAILED_OFTEN if times >= MOST_FAILED_READS else FileEvent.FAILED
        file_rows.mark_failed(session, file, event, reason, failed_reads=times)
        found[file] = OfFile([quarantined_file(_path(file), reason, times)])


def add_files(
    engine: Engine, lease: Lease, files: Sequence[NewFile], live_within_s: float
) -> list[KnownFile]:
    """Insert new files, with their sizes; return them as the store knows them. Jobs at rest are being read again."""
    with writing_under(engine, lease) as (session, now), uncollected():
        known = registry.insert_files(session, lease.base_dir_id, files, now)
        job_ids = {file.job_id for file in known}
        jobs.stamp(session, lease.base_dir_id, job_ids)
        resting = jobs.at_rest(session, job_ids)
        jobs.refresh_jobs(session, lease.base_dir_id, resting, now, live_within_s)
        return known


def finish_discovery(
    engine: Engine,
    lease: Lease,
    paths: Sequence[Finding],
    rows_at_a_time: int,
    should_stop: Callable[[], bool],
) -> None:
    """Store which paths could not be read, and remove replaced generations of files in bounded transactions.

    `should_stop` is asked before each of those; the next discovery removes the rest. Writes nothing when nothing has
    changed, as after most discoveries. A path that several shards' ingesters met is stored by one of them.
    """
    mine = [each for each in paths if lease.shards.hold_path(each.subject)]
    with reading(engine) as session:
        more = registry.replaced_file(session, lease.base_dir_id, lease.shards) is not None
        quiet = not more and ingest_log.path_problems_are(session, lease.base_dir_id, mine, lease.shards)
    if quiet:
        return
    with writing_under(engine, lease) as (session, now):
        ingest_log.set_path_problems(session, lease.base_dir_id, mine, now, lease.shards)
    while more and not should_stop():
        with writing_under(engine, lease) as (session, _):
            more = file_rows.remove_replaced(session, lease.base_dir_id, lease.shards, rows_at_a_time)


def heartbeat(engine: Engine, lease: Lease, *, searched: bool) -> None:
    """Renew the lease; with `searched`, also note that the base dir was searched in full now."""
    with writing_under(engine, lease) as (session, now):
        clock.agree(session, lease.base_dir_id, now)
        if searched:
            registry.note_discovery(session, lease.base_dir_id, lease.shards, now)


def refresh_quiet_jobs(engine: Engine, lease: Lease, live_within_s: float) -> None:
    """Mark live jobs as stalled that have stopped growing."""
    mine = lease.base_dir_id, lease.shards
    with reading(engine) as session:
        if not jobs.quiet_jobs(session, *mine, session.now(), live_within_s):
            return
    with writing_under(engine, lease) as (session, now):
        quiet = jobs.quiet_jobs(session, *mine, now, live_within_s)
        jobs.refresh_jobs(session, lease.base_dir_id, quiet, now, live_within_s)


def _with_tags_left_out(advance: Advance, full: Collection[FileKey], most_tags: int) -> Advance:
    """Add to the advance of a file with too many tags the problem that samples of further tags were left out."""
    if advance.file.key not in full:
        return advance
    reason = f"the file has {most_tags:,} tags, which is the limit most_tags: samples of others are left out"
    noted = in_range("beyond_bounds", advance.file.byte_offset, advance.rows.end, reason=reason)
    return advance._replace(rows=advance.rows._replace(problems=(*advance.rows.problems, noted)))


def _state_problems(advance: Advance) -> list[Finding]:
    if advance.rows.suspect:
        return [advance.rows.suspect]
    if advance.after.state == FileState.TORN:
        pending = advance.sight.size_bytes - advance.rows.end
        return [finding("torn_file", _path(advance.file), pending=pending)]
    return []


def _path(file: KnownFile) -> str:
    return relative_path(file.train_id, file.name)


# ---- Lineage: store a job's new events as far as it has room, and fold its lineage anew


def write_events(
    session: Session, advances: Sequence[Advance], most: Settings, now: datetime
) -> tuple[list[Advance], set[int]]:
    """Store lineage events as far as their jobs have room.

    Returns the advances without the events that were left out, each with a problem that says so, and the jobs to fold.
    """
    jobs = {advance.file.job_id for advance in advances if advance.rows.lineage_events}
    if not jobs:
        return list(advances), jobs
    used: dict[int, _Used] = defaultdict(_Used)
    for file in lineage.files_of_jobs(session, jobs):
        used[file.job_id].put(file)
    within: list[Advance] = []
    begun: dict[FileKey, FileLineage] = {}
    counted: dict[FileKey, FileLineage] = {}
    for advance in advances:
        if advance.rows.lineage_events:
            advance, before = _within(advance, used[advance.file.job_id], most)
            key, events = advance.file.key, advance.rows.lineage_events
            if not before.events:
                begun[key] = extended(before, events, now)
            elif not any(event.kind == "user_info" for event in events):
                counted[key] = extended(before, events, now)
            else:  # one file at a time, because its user-defined values may be large
                values = lineage.user_info_of(session, [key])[key]
                lineage.write_files(session, {key: extended(before._replace(user_info=values), events, now)})
        within.append(advance)
    lineage.write_files(session, begun)
    lineage.write_files(session, counted, user_info=False)
    lineage.write_lineage_events(session, within)
    return within, jobs


def refold(
    session: Session, job_ids: Collection[int], advances: Sequence[Advance], settings: Settings
) -> None:
    """Fold the lineage of jobs and store it, with summaries of their metrics.

    A job whose only lineage file was read from its beginning was folded when it was decoded.
    """
    if not job_ids:
        return
    folded = {each.file.job_id: each.rows.folded for each in advances if each.rows.folded is not None}
    alone = lineage.jobs_of_one_file(session, folded)
    folds = {job: found for job, found in folded.items() if job in alone}
    files: dict[int, list[FileOfJob]] = {job: [] for job in job_ids if job not in alone}
    for file in lineage.files_of_jobs(session, files):
        if file.current:
            files[file.job_id].append(file)
    lineage.number_evaluations(session, files.values())
    for portion in _portions(files):
        lineage.replace_lineage(session, folds | _folds(session, portion))
        folds = {}
    lineage.replace_lineage(session, folds)
    write_summaries(session, job_ids, less_is_better(settings.less_is_better))


@dataclass(slots=True)
class _Used:
    """What the log files of a job have used of its bounds; only the newest generation of each name counts."""

    files: dict[str, FileOfJob] = field(default_factory=dict)
    total: FileLineage = field(default_factory=FileLineage)

    def put(self, file: FileOfJob) -> None:
        """Count a file, in place of an older generation."""
        self._count(self.files.get(file.name), -1)
        self._count(file, 1)
        self.files[file.name] = file

    def of(self, file: KnownFile) -> FileLineage:
        """Return the summary of a file; from then on older generations of the file no longer count."""
        known = self.files.get(file.name)
        if known is None or known.file_no != file.file_no:
            known = FileOfJob(file.job_id, file.file_no, file.name, file.current, FileLineage())
            self.put(known)
        return known.lineage

    def _count(self, file: FileOfJob | None, sign: int) -> None:
        if file is not None:
            names = ("events", "content_bytes", "user_values")
            self.total = self.total._replace(
                **{name: getattr(self.total, name) + sign * getattr(file.lineage, name) for name in names}
            )


def _within(advance: Advance, job: _Used, most: Settings) -> tuple[Advance, FileLineage]:
    """Return the advance without the events for which its job has no room, and its file's summary before them."""
    rows, before = advance.rows, job.of(advance.file)
    kept: list[LineageRow] = []
    left_out: RangeProblems | None = None
    evaluations = before.evaluations
    begins = list(dict.fromkeys(event.byte_offset for event in rows.lineage_events))
    ends = dict(zip(begins, [*begins[1:], rows.end], strict=True))
    for event in rows.lineage_events:
        if reason := no_room_for(job.total, event, most):
            begin, end = event.byte_offset, ends[event.byte_offset]
            this = in_range("beyond_bounds", begin, end, reason=reason)
            if left_out is None or left_out.last_end != end:  # one frame may hold several events
                left_out = left_out.plus(this) if left_out else this
            continue
        if event.kind == "eval":
            evaluations += 1
            event = event._replace(evaluation_no=evaluations)
        kept.append(event)
        job.total = plus(job.total, event)
    if left_out:
        rows = rows._replace(folded=None, problems=(*rows.problems, left_out))
    return advance._replace(rows=rows._replace(lineage_events=tuple(kept))), before


def _portions(files: Mapping[int, list[FileOfJob]]) -> Iterator[dict[int, list[FileOfJob]]]:
    portion: dict[int, list[FileOfJob]] = {}
    weight = 0
    for job, of_job in files.items():
        portion[job] = of_job
        weight += sum(file.lineage.content_bytes for file in of_job)
        if weight >= PORTION_BYTES:
            yield portion
            portion, weight = {}, 0
    if portion:
        yield portion


def _folds(session: Session, files: Mapping[int, Sequence[FileOfJob]]) -> dict[int, FoldedLineage]:
    """Fold jobs from the events that count, and the user-defined values of the files that count."""
    bound = {job: binding([file.lineage for file in of_job]) for job, of_job in files.items()}
    places = {
        (job, kind): (job, files[job][number].file_no, at, kind)
        for job, (found, _) in bound.items()
        for kind, (number, at) in found.items()
    }
    contents = lineage.event_contents(session, places.values())
    counting = {job: [file.key for file in files[job][first:]] for job, (_, first) in bound.items()}
    users = lineage.user_info_of(session, [key for keys in counting.values() for key in keys])
    folds = {}
    for job, (found, _) in bound.items():
        user: dict[str, Any] = {}
        for key in counting[job]:
            merge(user, json.loads(users.pop(key)))
        folds[job] = come_to({kind: contents[places[job, kind]] for kind in found}, user)
    return folds
