"""The write transactions of ingest: lease, bookmarks, rows, and what is derived from them, all or nothing.

In: a lease, and a batch of advances or what else was found. Out: a committed transaction, or an error and no change.
Promises: an ingester that lost its lease writes nothing; bookmarks and the rows read up to them are written together.
Knows the order of the statements; the statements themselves are in store.writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.findings import Finding, finding, in_range
from lineage_store.ingest import copies, folding
from lineage_store.ingest.lease import writing_under
from lineage_store.ingest.problems import MOST_FAILED_READS, poisonous_file
from lineage_store.program import uncollected
from lineage_store.states import FileEvent, FileState
from lineage_store.store import clock, leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.session import Session
from lineage_store.store.leases import Lease
from lineage_store.store.records import Advance, FileKey, KnownFile, NewFile, SampleColumns, relative_path
from lineage_store.store.writes import file_rows, ingest_log, jobs
from lineage_store.store.writes.ingest_log import OfFile
from lineage_store.store.writes.samples import recompute_supersession, write_samples


def write_batch(
    engine: Engine,
    lease: Lease,
    advances: Sequence[Advance],
    samples: Sequence[SampleColumns],
    settings: Settings,
) -> None:
    """Commit one batch. Raises LeaseLostError, or BookmarkMovedError when the files are to be read again."""
    with writing_under(engine, lease, synced=False) as (session, now), uncollected():
        advances = file_rows.settled(session, advances)
        file_rows.move_bookmarks(session, advances)
        advances, with_lineage = folding.write_events(session, advances, settings, now)
        touched, tags, full = write_samples(session, samples, settings.most_tags)
        advances = [_with_tags_left_out(each, full, settings.most_tags) for each in advances]
        recompute_supersession(session, touched, tags)
        replaced = [advance.file for advance in advances if advance.completes_generation]
        for file in replaced:
            file_rows.make_current(session, file)
        switched = {file.job_id for file in replaced}
        recompute_supersession(session, switched, None)
        folding.refold(session, with_lineage | switched, advances, settings)
        found = {each.file: OfFile(_state_problems(each), each.rows.problems) for each in advances}
        ingest_log.record(session, lease.base_dir_id, found, now)
        jobs_of = {advance.file.job_id for advance in advances}
        _refresh_jobs(session, lease, jobs_of, now, settings.live_within_s)


def register(engine: Engine, lease: Lease, files: Sequence[NewFile], live_within_s: float) -> list[KnownFile]:
    """Insert new files, with their sizes; return them as the store knows them. Jobs at rest are being read again."""
    with writing_under(engine, lease) as (session, now), uncollected():
        known = _register(session, lease, files, now)
        resting = jobs.at_rest(session, {file.job_id for file in known})
        _refresh_jobs(session, lease, resting, now, live_within_s)
        return known


def start_generations(
    engine: Engine, lease: Lease, files: Sequence[KnownFile], new: Sequence[NewFile]
) -> list[KnownFile]:
    """Insert new generations of files that are read again, beside those that readers still see; copies start over."""
    started = [copies.start_over(engine, lease, file) for file in files if file.copy_of is not None]
    again = [each for each in zip(files, new, strict=True) if each[0].copy_of is None]
    if not again:
        return started
    with writing_under(engine, lease) as (session, now):
        for file, _ in again:
            file_rows.abandon(session, file)
        return started + _register(session, lease, [generation for _, generation in again], now)


def note_owners(engine: Engine, lease: Lease, owners: Mapping[str, int]) -> None:
    """Store who owns the directories of jobs now, by their train ids."""
    with writing_under(engine, lease) as (session, _):
        registry.note_owners(session, lease.base_dir_id, owners)


def note_sizes(
    engine: Engine, lease: Lease, sizes: Sequence[tuple[KnownFile, int]], live_within_s: float
) -> None:
    """Note how large files are that have grown and wait to be read, so that the store tells what it lacks."""
    with writing_under(engine, lease) as (session, now):
        file_rows.note_sizes(session, sizes, now)
        _refresh_jobs(session, lease, {file.job_id for file, _ in sizes}, now, live_within_s)


def mark_missing(
    engine: Engine, lease: Lease, files: Mapping[KnownFile, Finding], settings: Settings
) -> list[KnownFile]:
    """Mark files as missing from the disk, each with a finding; their rows stay, or go over to copies of them.

    Returns the copies that took over, to be read on.
    """
    with writing_under(engine, lease) as (session, now):
        missing, heirs = copies.inherit(session, lease, files, settings, now)
        file_rows.mark_missing(session, missing)
        states = {file: [files[file]] for file in missing}
        ingest_log.set_file_problems(session, lease.base_dir_id, states, now)
        _refresh_jobs(session, lease, {file.job_id for file in files}, now, settings.live_within_s)
        return heirs


def mark_unreadable(
    engine: Engine,
    lease: Lease,
    failures: Sequence[tuple[KnownFile, Finding]],
    live_within_s: float,
    event: FileEvent = FileEvent.FAILED,
) -> None:
    """Mark files that could not be opened or read or, with RIDDLED as the event, that have too much damage."""
    with writing_under(engine, lease) as (session, now):
        reasons = {file: problem.what for file, problem in failures}
        file_rows.mark_unreadable(session, reasons, event)
        states = {file: [problem] for file, problem in failures}
        ingest_log.set_file_problems(session, lease.base_dir_id, states, now)
        _refresh_jobs(session, lease, {file.job_id for file in states}, now, live_within_s)


def mark_failed_read(
    engine: Engine, lease: Lease, file: KnownFile, reason: str, live_within_s: float
) -> None:
    """Note that reading a file failed the reader. After MOST_FAILED_READS in a row the file is no longer read."""
    failed_reads = file.failed_reads + 1
    event = FileEvent.FAILED_OFTEN if failed_reads >= MOST_FAILED_READS else FileEvent.FAILED
    problem = poisonous_file(_path(file), reason, failed_reads)
    with writing_under(engine, lease) as (session, now):
        file_rows.mark_failed_read(session, file, failed_reads, reason, event)
        ingest_log.set_file_problems(session, lease.base_dir_id, {file: [problem]}, now)
        _refresh_jobs(session, lease, [file.job_id], now, live_within_s)


def finish_discovery(
    engine: Engine,
    lease: Lease,
    paths: Sequence[Finding],
    rows_at_a_time: int,
    should_stop: Callable[[], bool],
) -> None:
    """Store which paths could not be looked at, and remove replaced generations of files in bounded transactions.

    `should_stop` is asked before each of those; the next discovery removes the rest. Writes nothing when nothing has
    changed, as after most discoveries. A path that several shards' ingesters met is stored by one of them.
    """
    mine = [each for each in paths if lease.shards.hold_path(each.subject)]
    with reading(engine) as session:
        more = file_rows.any_replaced(session, lease.base_dir_id, lease.shards)
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


def renew(engine: Engine, lease: Lease) -> None:
    """Renew the lease during a long pass, by an engine that is `apart` from that of the pass.

    Raises LeaseLostError, and LeaseHeldError while the pass itself is in a write transaction.
    """
    with writing(engine) as session:
        leases.renew(session, lease)


def refresh_quiet_jobs(engine: Engine, lease: Lease, live_within_s: float) -> None:
    """Mark live jobs as stalled that have stopped growing."""
    mine = lease.base_dir_id, lease.shards
    with reading(engine) as session:
        if not jobs.quiet_jobs(session, *mine, session.now(), live_within_s):
            return
    with writing_under(engine, lease) as (session, now):
        quiet = jobs.quiet_jobs(session, *mine, now, live_within_s)
        _refresh_jobs(session, lease, quiet, now, live_within_s)


def _register(session: Session, lease: Lease, files: Sequence[NewFile], now: datetime) -> list[KnownFile]:
    known = registry.register(session, lease.base_dir_id, files, now)
    jobs.stamp(session, lease.base_dir_id, {file.job_id for file in known})
    return known


def _refresh_jobs(
    session: Session, lease: Lease, job_ids: Collection[int], now: datetime, live_within_s: float
) -> None:
    if job_ids:
        revision = jobs.take(session, lease.base_dir_id)
        jobs.refresh_jobs(session, job_ids, now, live_within_s, revision)


def _with_tags_left_out(advance: Advance, full: Collection[FileKey], most_tags: int) -> Advance:
    """Add to the advance of a file with too many tags the problem that samples of further tags were left out."""
    if advance.file.key not in full:
        return advance
    reason = f"the file has {most_tags:,} tags, and most_tags allows no more: samples of others are left out"
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
