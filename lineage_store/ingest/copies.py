"""Copies of log files in their job's directory: each event counts once, however many files hold it.

In: what was read, and how files compare (ingest/read/log_reader.py). Out: files that are set aside as copies, take the
place of their originals, or are read by themselves; each with what is to be read or compared next. Promises: of files
with the same first bytes, device and host, one counts whose bytes are not all in another one; it is the one with the
most bytes and, of equal ones, the one whose name the writer more likely gave. Nothing that was read is lost when an
original vanishes, for its rows go over to a copy that has all of it. Every step is one transaction, and the next pass
continues after it. Does not know the disk.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.eventlog.formats import format_of
from lineage_store.findings import Finding, finding
from lineage_store.ingest.commit import refold
from lineage_store.ingest.lease import writing_under
from lineage_store.ingest.read.log_reader import Compared, CopyOutcome
from lineage_store.ingest.scan.survey import next_generation
from lineage_store.states import FileState
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import reading
from lineage_store.store.database.sql import Session
from lineage_store.store.leases import Lease
from lineage_store.store.records import Advance, FileKey, KnownFile, relative_path
from lineage_store.store.schema.tables import log_file
from lineage_store.store.writes import file_rows, ingest_log, jobs
from lineage_store.store.writes.samples import recompute_supersession
from lineage_store.texts import from_stored

MOST_COMPARED = 8
"""A file is compared with at most so many others that begin alike, the first that the store saw."""


def set_aside(engine: Engine, lease: Lease, advances: Sequence[Advance]) -> list[KnownFile]:
    """Find among files that were read for the first time those that may be copies, and set them aside.

    Returns them with their originals, to be compared; what was read of them is not to be stored.
    """
    first = [each for each in advances if each.file.byte_offset == 0 and each.after.likeness is not None]
    if not first:
        return []
    wanted = {(each.file.job_id, each.after.likeness or 0) for each in first}
    with reading(engine) as session:
        known = file_rows.alike(session, wanted)
    if not known and len(wanted) == len(first):
        return []
    originals: dict[tuple[int, int | None], list[KnownFile]] = defaultdict(list)
    for file in known:
        originals[file.job_id, file.likeness].append(file)
    found: dict[KnownFile, KnownFile] = {}
    # Readers do not see a new generation until it is read to its end, so it is no original before that.
    for each in sorted(first, key=lambda each: (not each.file.current, each.file.key)):
        alike = originals[each.file.job_id, each.after.likeness]
        if original := _original_of(each.after, alike):
            found[each.file] = original
        elif each.file.current and len(alike) < file_rows.ALIKE_SEEN:
            insort(alike, each.after, key=lambda file: file.file_no)
    if not found:
        return []
    with writing_under(engine, lease) as (session, _):
        file_rows.mark_copies(session, found)
        jobs.stamp(session, lease.base_dir_id, {file.job_id for file in found})
        aside = file_rows.of_keys(session, [file.key for file in found])
        return registry.with_originals(session, aside)


def _original_of(file: KnownFile, alike: Iterable[KnownFile]) -> KnownFile | None:
    """Return the first file with which this one is still to be compared."""
    may_be_copies, name = format_of(file.format).may_be_copies, from_stored(file.name)
    others = (
        other for other in alike if other.name != file.name and may_be_copies(name, from_stored(other.name))
    )
    return next(
        (other for other in islice(others, MOST_COMPARED) if other.file_no > file.compared_upto), None
    )


def changed_since(engine: Engine, advances: Sequence[Advance], job_ids: Collection[int]) -> list[KnownFile]:
    """Return the files of jobs with copies that are no longer as they were when they were read."""
    doubtful = [each.file for each in advances if each.file.job_id in job_ids]
    if not doubtful:
        return []
    with reading(engine) as session:
        unchanged = file_rows.unchanged(session, doubtful)
    return [file for file in doubtful if file not in unchanged]


def settle(engine: Engine, lease: Lease, compared: Sequence[Compared], settings: Settings) -> list[KnownFile]:
    """Store how copies compare with their originals; return what is to be compared or read next."""
    compared = list({each.file.key: each for each in compared}.values())
    with writing_under(engine, lease) as (session, now):
        unchanged = file_rows.unchanged(session, [each.file for each in compared])
        valid = [each for each in compared if each.file in unchanged and each.is_news]
        alike = [each for each in valid if each.outcome is not CopyOutcome.OTHER]
        file_rows.note(session, [(each.after, each.sight.modified_s) for each in alike])
        complete = [each for each in alike if each.outcome in (CopyOutcome.WITHIN, CopyOutcome.SAME)]
        for each in complete:
            _hide_older(session, each.file, each.original)
        told = {each.file: [_copied(each.file, each.original)] for each in complete}
        ingest_log.set_file_problems(session, lease.base_dir_id, told, now)
        again = [
            each.file for each in compared if each.file not in unchanged or each.outcome is CopyOutcome.ALIKE
        ]
        for each in valid:
            if each.outcome is CopyOutcome.OTHER:
                file_rows.part(session, each.file, each.original.file_no)
                again.append(each.file)
            elif each.outcome is CopyOutcome.HOLDS or (each.outcome is CopyOutcome.SAME and _is_better(each)):
                again += _exchange(session, lease, each.original, each.after, settings, now)
        changed = {each.file.job_id for each in valid}
        jobs.refresh_jobs(session, lease.base_dir_id, changed, now, settings.live_within_s)
        return registry.with_originals(session, file_rows.of_paths(session, again)) if again else []


def note_missing(
    engine: Engine, lease: Lease, files: Mapping[KnownFile, Finding], settings: Settings
) -> list[KnownFile]:
    """Mark files as missing from the disk, each with a finding; their rows stay, or go over to copies of them.

    Returns the copies that took over, to be read on.
    """
    with writing_under(engine, lease) as (session, now):
        missing, heirs = _inherit(session, lease, files, settings, now)
        file_rows.mark_missing(session, missing)
        states = {file: [files[file]] for file in missing}
        ingest_log.set_file_problems(session, lease.base_dir_id, states, now)
        job_ids = {file.job_id for file in files}
        jobs.refresh_jobs(session, lease.base_dir_id, job_ids, now, settings.live_within_s)
        return heirs


def _inherit(
    session: Session, lease: Lease, gone: Collection[KnownFile], settings: Settings, now: datetime
) -> tuple[list[KnownFile], list[KnownFile]]:
    """Let copies take the place of files that are no longer on disk, and forget copies that are not.

    Returns the files that have rows which nothing on disk has any more, and those that took over, to be read on.
    """
    lost = [file for file in gone if file.copy_of is None]
    file_rows.delete_copies(session, [file for file in gone if file.copy_of is not None])
    heirs: dict[FileKey, list[KnownFile]] = defaultdict(list)
    for copy in file_rows.copies_of(session, [file.key for file in lost]) if lost else ():
        if copy.state == FileState.COPY:
            heirs[copy.job_id, copy.copy_of or 0].append(copy)
    heirs_of = {file: _heir(file, heirs[file.key]) for file in lost if file.current}
    taken: list[KnownFile] = []
    for file, heir in heirs_of.items():
        if heir is not None:
            taken += _exchange(session, lease, file, heir, settings, now, is_gone=True)
    missing = [file for file in lost if heirs_of.get(file) is None]
    return missing, file_rows.of_paths(session, taken) if taken else []


def start_generations(engine: Engine, lease: Lease, files: Sequence[KnownFile]) -> list[KnownFile]:
    """Have files read again from their first byte, as new generations beside those that readers still see.

    Copies, of which nothing is seen, start over. Returns what is to be read.
    """
    started = [_start_over(engine, lease, file) for file in files if file.copy_of is not None]
    again = [file for file in files if file.copy_of is None]
    if not again:
        return started
    with writing_under(engine, lease) as (session, now):
        for file in again:
            file_rows.abandon(session, file)
        new = registry.insert_files(session, lease.base_dir_id, list(map(next_generation, again)), now)
        jobs.stamp(session, lease.base_dir_id, {file.job_id for file in new})
        return started + new


def _start_over(engine: Engine, lease: Lease, file: KnownFile) -> KnownFile:
    """Have a copy whose bytes have changed read from its first byte, as a new file is."""
    with writing_under(engine, lease) as (session, _):
        file_rows.part(session, file, 0)
        jobs.stamp(session, lease.base_dir_id, {file.job_id})
        (unread,) = file_rows.of_keys(session, [file.key])
        return unread


def _exchange(
    session: Session,
    lease: Lease,
    original: KnownFile,
    copy: KnownFile,
    settings: Settings,
    now: datetime,
    *,
    is_gone: bool = False,
) -> list[KnownFile]:
    """Let a copy take the place of its original, unless more was read of that meanwhile; return both paths."""
    known = {file.key: file for file in file_rows.of_keys(session, [original.key])}.get(original.key)
    if (
        known is None
        or (known.name, known.current) != (original.name, True)
        or known.byte_offset > copy.byte_offset
    ):
        return [copy]
    is_gone = is_gone or known.state == FileState.MISSING
    file_rows.exchange(session, known, copy, is_gone=is_gone)
    _hide_older(session, copy, original)
    heir, job = copy._replace(file_no=original.file_no), [copy.job_id]
    others = file_rows.copies_of(session, [original.key])
    told: dict[KnownFile, list[Finding]] = {heir: []}
    told |= {each: [_copied(each, heir)] for each in others if each.stat_stamp is not None}
    ingest_log.set_file_problems(session, lease.base_dir_id, told, now)
    recompute_supersession(session, job, None)
    refold(session, job, [], settings)
    return [heir] if is_gone else [heir, known]


def _hide_older(session: Session, copy: KnownFile, original: KnownFile) -> None:
    """Take older generations of a copy out of sight: what they held is no longer on disk."""
    if copy.generation > 1:
        of_path = (log_file.c.job_id == copy.job_id) & (log_file.c.name == copy.name)
        older = of_path & (log_file.c.generation < copy.generation)
        file_rows.supersede(session, copy.job_id, older, original.file_no)
        recompute_supersession(session, [copy.job_id], None)


def _heir(file: KnownFile, heirs: Iterable[KnownFile]) -> KnownFile | None:
    able = [each for each in heirs if each.byte_offset >= file.byte_offset]
    return min(able, key=lambda each: (-each.byte_offset, *_rank(each), each.name), default=None)


def _is_better(compared: Compared) -> bool:
    return _rank(compared.file) < _rank(compared.original)


def _rank(file: KnownFile) -> tuple[bool, int]:
    """The less, the more likely a name is the original's."""
    name = from_stored(file.name)
    return not format_of(file.format).is_regular(name), len(name)


def _copied(file: KnownFile, original: KnownFile) -> Finding:
    other = relative_path(original.train_id, original.name)
    return finding("copied_file", relative_path(file.train_id, file.name), other=other)
