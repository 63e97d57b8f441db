"""Look up and register base dirs, jobs and log files.

In: stored names. Out: rows of `base_dir`, `train_job` and `log_file`, inserted when they are first seen.
Promises: registering is idempotent; the bookmark of a new file is 0. Does not know the disk.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Row,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    select,
    update,
)

from lineage_store import states
from lineage_store.findings import Finding, finding
from lineage_store.plain_values import LARGEST_INTEGER
from lineage_store.states import FILE_TRANSITIONS, FileEvent, FileState, JobEvent, JobState
from lineage_store.store import clock
from lineage_store.store.database.db import UNPAGED, Page
from lineage_store.store.database.sql import Query, Session, among, among_rows, total, upsert
from lineage_store.store.leases import ALL, Shards
from lineage_store.store.records import FileKey, KnownFile, NewFile, relative_path
from lineage_store.store.schema import partitions
from lineage_store.store.schema.tables import (
    base_dir,
    in_file,
    ingest_lease,
    ingest_problem,
    lineage,
    log_file,
    metadata,
    removal,
    tombstone,
    train_job,
)
from lineage_store.texts import from_stored, key

UNSETTLED = log_file.c.state.in_([literal_column(f"'{state}'") for state in states.UNSETTLED])
PENDING = log_file.c.size_bytes - log_file.c.byte_offset > literal_column("0")
"""The conditions of two partial indexes of log files: SQLite uses them only for queries with exactly this text."""
WAITS = log_file.c.stat_stamp.is_(None) & log_file.c.state.in_(states.WAITING_IN)
"""Of a pending log file: it was found, and waits to be read to its end."""
JOBS_AT_ONCE = 1_000
"""Jobs per page of `next_known`."""


def stored_base_dirs(session: Session) -> list[tuple[int, str]]:
    """Return every base dir, as (id, stored path), by path."""
    there = select(base_dir.c.id, base_dir.c.path).where(~base_dir.c.leaving)
    rows = session.rows(there.order_by(base_dir.c.path))
    return [(row.id, row.path) for row in rows]


def base_dir_id(session: Session, path: str) -> int | None:
    """Return the id of a base dir by its stored path; None if the store does not know it."""
    rows = session.rows(_BY_PATH, asked=key(path))
    return rows[0][0] if rows else None


_BY_PATH = Query(select(base_dir.c.id).where(base_dir.c.path_key == bindparam("asked")))


def ensure_base_dir(session: Session, path: str, now: datetime, *, leaving: bool = False) -> int:
    """Return the id of a base dir by its stored path; insert the base dir if the store does not know it."""
    row = {"path": path, "path_key": key(path), "created_at": now, "clock_at": now, "leaving": leaving}
    session.change(upsert(session, base_dir, ["path_key"]), row)
    return int(session.value(_BY_PATH, asked=key(path)))


def job_id(session: Session, base_dir_id: int, train_id: str) -> int | None:
    """Return the id of a job by its stored train id; None if the store does not know it."""
    rows = session.rows(_BY_TRAIN_ID, of_base_dir=base_dir_id, of_train_id=train_id)
    return rows[0][0] if rows else None


_BY_TRAIN_ID = Query(
    select(train_job.c.id).where(
        train_job.c.base_dir_id == bindparam("of_base_dir"), train_job.c.train_id == bindparam("of_train_id")
    )
)


def known_files(
    session: Session, base_dir_id: int, only: Collection[str] | None = None, shards: Shards = ALL
) -> list[KnownFile]:
    """Return the newest generation of every log file of a base dir's shards, or of the jobs `only` in them, by path."""
    query = _KNOWN.where(*shards.conditions(base_dir_id))
    if only is None:
        return _newest(session.rows(query))
    return _newest(session.rows(query.where(among(session, train_job.c.train_id, only))))


def next_known(
    session: Session, base_dir_id: int, after: str, upto: str | None, shards: Shards = ALL
) -> tuple[list[KnownFile], str | None]:
    """Return the known files of the next jobs behind `after`, up to `upto` if given, and the last of these jobs.

    The last job is the next call's `after`; None if no job is left.
    """
    of_shards = select(train_job.c.id, train_job.c.train_id).where(*shards.conditions(base_dir_id))
    jobs = of_shards.where(train_job.c.train_id > after).order_by(train_job.c.train_id)
    if upto is not None:
        jobs = jobs.where(train_job.c.train_id <= upto)
    found = session.rows(jobs.limit(JOBS_AT_ONCE))
    files = _KNOWN.where(among(session, log_file.c.job_id, (row.id for row in found)))
    return _newest(session.rows(files)), found[-1].train_id if len(found) == JOBS_AT_ONCE else None


def insert_files(
    session: Session, base_dir_id: int, files: Sequence[NewFile], now: datetime
) -> list[KnownFile]:
    """Insert rows for files (and jobs) that the store does not know; return the files as known.

    A job that was removed counts as seen for the first time when it was, and so do its log files of that time.
    """
    train_ids = {file.train_id for file in files}
    seen = clock.not_before_agreed(session, base_dir_id, now)
    stones = covering(session, base_dir_id, train_ids)
    first_seen = {
        train_id: stones[train_id].first_seen_at if train_id in stones else seen for train_id in train_ids
    }
    jobs = _ensure_jobs(session, base_dir_id, files, first_seen)
    next_no = next_numbers(session, log_file.c.file_no, jobs.values())
    rows = []
    for file in files:
        stone, job = stones.get(file.train_id), jobs[file.train_id]
        covered = stone is not None and file.file_time <= stone.last_file_time
        at = first_seen[file.train_id] if covered else file.first_seen_at or seen
        rows.append(_new_row(file, job, next(next_no[job]), at))
    session.change(upsert(session, log_file, ["job_id", "name", "generation"]), rows)
    take_away(session, base_dir_id, jobs)
    wanted = {(jobs[file.train_id], file.name, file.generation) for file in files}
    # Not all files of these jobs: a job may have very many, which are registered part by part.
    these = among_rows(session, (log_file.c.job_id, log_file.c.name), (key[:2] for key in wanted))
    known = session.rows(_KNOWN.where(these))
    return [KnownFile(*row) for row in known if (row.job_id, row.name, row.generation) in wanted]


def registered(session: Session, base_dir_id: int, files: Sequence[NewFile]) -> list[KnownFile]:
    """Return files that were registered lately, as they are known now."""
    of_base_dir = train_job.c.base_dir_id == base_dir_id
    paths = ((file.train_id, file.name) for file in files)
    these = among_rows(session, (train_job.c.train_id, log_file.c.name), paths)
    return _newest(session.rows(_KNOWN.where(of_base_dir, these)))


def next_numbers(
    session: Session, number: Column[int], job_ids: Collection[int]
) -> Mapping[int, Iterator[int]]:
    """Return, by job, an iterator of numbers for new rows of a table whose column `number` counts rows within a job.

    They start behind the greatest number that exists, so a number is used again only after its row was deleted. The
    lease keeps others from using the same numbers.
    """
    job_id = number.table.c.job_id
    greatest = select(job_id, func.max(number)).where(among(session, job_id, job_ids)).group_by(job_id)
    taken = {row[0]: row[1] for row in session.rows(greatest)}
    return {job: count(taken.get(job, 0) + 1) for job in job_ids}


def live_jobs(session: Session, base_dir_id: int, shards: Shards = ALL) -> frozenset[str]:
    """Return the train ids of the jobs that are live, or have a file with suspect bytes."""
    jobs = select(train_job.c.train_id).where(*shards.conditions(base_dir_id))
    growing = jobs.where(train_job.c.state == JobState.LIVE)
    suspect = jobs.join(log_file).where(UNSETTLED, log_file.c.state == FileState.SUSPECT)
    return frozenset(session.column(growing.union(suspect)))


def current_revision(session: Session, base_dir_id: int) -> int:
    """Return the revision of a base dir, which grows with each transaction that changes its jobs; -1 if unknown."""
    found = session.value(select(base_dir.c.revision).where(base_dir.c.id == base_dir_id))
    return -1 if found is None else found


def note_discovery(session: Session, base_dir_id: int, shards: Shards, now: datetime) -> None:
    """Store that a base dir was searched in full for the jobs of some shards.

    The base dir's own `discovered_at` becomes the oldest such time of its shards, or NULL if a shard has none.
    """
    lease = ingest_lease.c
    mine = lease.base_dir_id == base_dir_id
    searched = update(ingest_lease).where(mine, lease.shard.in_(shards.numbers))
    session.change(searched.values(searched_at=now))
    of_all = select(
        case((func.count(lease.searched_at) >= base_dir.c.shards, func.min(lease.searched_at)))
    ).where(mine, lease.shard < base_dir.c.shards)
    this = update(base_dir).where(base_dir.c.id == base_dir_id)
    session.change(this.values(discovered_at=of_all.correlate(base_dir).scalar_subquery()))


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What ingest has left to do in a base dir."""

    pending_bytes: int
    """Bytes behind the bookmarks of the log files that are there."""
    waiting_files: int
    """Log files that were found and not yet read to their ends."""
    waiting_bytes: int
    """The bytes of those that are not yet read."""
    problems: int
    """Open problems."""


def unfinished(session: Session, base_dir_id: int) -> Unfinished:
    """Return what is left of a base dir; reads every pending file and every open problem."""
    mine, dialect_name = train_job.c.base_dir_id == base_dir_id, session.kind
    bytes_of_file = log_file.c.size_bytes - log_file.c.byte_offset
    pending = (
        select(
            total(dialect_name, bytes_of_file),
            func.count().filter(WAITS),
            total(dialect_name, case((WAITS, bytes_of_file), else_=0)),
        )
        .join_from(log_file, train_job)
        .where(mine, PENDING, log_file.c.state.not_in([FileState.REPLACED, FileState.MISSING]))
        # Without the hint SQLite would scan all files of each job, because these are neighbours in the table.
        .with_hint(log_file, "INDEXED BY ix_log_file_pending", "sqlite")
    )
    opened = (ingest_problem.c.base_dir_id == base_dir_id) & ingest_problem.c.resolved_at.is_(None)
    problems = select(func.coalesce(func.sum(ingest_problem.c.problems), 0)).where(opened)
    waiting: tuple[int, int, int] = tuple(session.one(pending))
    return Unfinished(*waiting, session.value(problems))


def job_count(session: Session, base_dir_id: int) -> int:
    """Return how many jobs the store has of a base dir; scans them all."""
    mine = train_job.c.base_dir_id == base_dir_id
    return session.value(select(func.count()).select_from(train_job).where(mine))


def has_jobs(session: Session, base_dir_id: int) -> bool:
    """Return whether the store has any job of a base dir."""
    return session.value(Query(FIRST_JOB), asked=base_dir_id) is not None


FIRST_JOB = select(func.min(train_job.c.train_id)).where(train_job.c.base_dir_id == bindparam("asked"))
"""The least train id, found by one index. For LIMIT 1 or EXISTS, PostgreSQL may scan the jobs of all base dirs."""


def forget_base_dir(session: Session, path: str) -> None:
    """Delete a base dir that has no jobs, by its stored path, if the store knows it."""
    found = base_dir_id(session, path)
    if found is not None:
        drop_base_dir(session, found)


def drop_base_dir(session: Session, base_dir_id: int) -> None:
    """Delete a base dir that has no jobs, and its rows in other tables."""
    for table in metadata.sorted_tables:
        if "base_dir_id" in table.c and table is not train_job:
            session.change(delete(table).where(table.c.base_dir_id == base_dir_id))
    session.change(delete(base_dir).where(base_dir.c.id == base_dir_id))


def discovered_at(session: Session, base_dir_id: int) -> datetime | None:
    """Return when a base dir was last searched in full; None if it never was."""
    at: datetime | None = session.value(select(base_dir.c.discovered_at).where(base_dir.c.id == base_dir_id))
    return at


def files(session: Session, which: ColumnElement[bool]) -> list[KnownFile]:
    """Return every generation of the log files that meet a condition, by job, name and generation."""
    return [KnownFile(*row) for row in session.rows(_KNOWN.where(which))]


def replaced_file(session: Session, base_dir_id: int, shards: Shards = ALL) -> FileKey | None:
    """Return a replaced generation of a log file that still has rows; None if there is none."""
    found = session.first(
        select(log_file.c.job_id, log_file.c.file_no)
        .join_from(log_file, train_job)
        .where(*shards.conditions(base_dir_id), UNSETTLED, log_file.c.state == FileState.REPLACED)
        .limit(1)
    )
    return None if found is None else (found.job_id, found.file_no)


def with_originals(session: Session, copies: Sequence[KnownFile]) -> list[KnownFile]:
    """Return the files, each copy among them with the log file with which it is to be compared."""
    wanted = {(file.job_id, file.copy_of) for file in copies if file.copy_of is not None}
    if not wanted:
        return list(copies)
    these = among_rows(session, (log_file.c.job_id, log_file.c.file_no), wanted)
    found = {file.key: file for file in files(session, these)}
    return [
        file if file.copy_of is None else file._replace(original=found.get((file.job_id, file.copy_of)))
        for file in copies
    ]


_COLUMNS = [name for name in KnownFile._fields if name != "original"]
_KNOWN = (
    select(*((train_job if name in ("train_id", "owner_uid") else log_file).c[name] for name in _COLUMNS))
    .join_from(log_file, train_job)
    .order_by(log_file.c.job_id, log_file.c.name, log_file.c.generation)
)


def _newest(rows: Iterable[Any]) -> list[KnownFile]:
    newest = {(row.train_id, row.name): KnownFile(*row) for row in rows}
    return [newest[path] for path in sorted(newest)]


def note_owners(session: Session, base_dir_id: int, owners: Mapping[str, int]) -> None:
    """Store who owns the directories of jobs, by their train ids."""
    for train_id, owner_uid in sorted(owners.items()):
        this = (train_job.c.base_dir_id == base_dir_id) & (train_job.c.train_id == train_id)
        session.change(update(train_job).where(this).values(owner_uid=owner_uid))


def _ensure_jobs(
    session: Session,
    base_dir_id: int,
    files: Sequence[NewFile],
    first_seen: Mapping[str, datetime],
) -> dict[str, int]:
    """Return the ids of the files' jobs by train id; insert new jobs, with what their files' names and sizes tell.

    The lease keeps others from it, so no upsert is needed.
    """
    of_job: dict[str, list[NewFile]] = defaultdict(list)
    for file in files:
        of_job[file.train_id].append(file)
    jobs = _job_ids(session, base_dir_id, sorted(of_job))
    state = states.JOB_TRANSITIONS[JobEvent.FOUND].after
    fresh = {"base_dir_id": base_dir_id, "state": state, "source_present": True}
    new = [train_id for train_id in sorted(of_job) if train_id not in jobs]
    rows = [
        {
            "train_id": train_id,
            "train_key": key(train_id),
            "owner_uid": of_job[train_id][0].owner_uid,
            **fresh,
            **dict.fromkeys(("created_at", "begun_at", "alive_at"), first_seen[train_id]),
            **_seen(of_job[train_id]),
        }
        for train_id in new
    ]
    if new:
        session.insert(train_job, rows)
        made = _job_ids(session, base_dir_id, new)
        if session.kind != "sqlite":
            partitions.ensure(session, made.values())
        jobs |= made
    return jobs


def _seen(files: Sequence[NewFile]) -> dict[str, int]:
    """What is known of a job before its files are read; store.writes.jobs derives the same from files that were."""
    return {
        "update_time": max(file.modified_s for file in files),
        "log_bytes": min(sum(file.size_bytes for file in files), LARGEST_INTEGER),
    }


def _job_ids(session: Session, base_dir_id: int, train_ids: list[str]) -> dict[str, int]:
    query = select(train_job.c.train_id, train_job.c.id).where(train_job.c.base_dir_id == base_dir_id)
    found = session.rows(query.where(among(session, train_job.c.train_id, train_ids)))
    return {row.train_id: row.id for row in found}


def _new_row(file: NewFile, job: int, file_no: int, now: datetime) -> dict[str, object]:
    event = FileEvent.FOUND if file.generation == 1 else FileEvent.REWRITTEN
    return {
        "job_id": job,
        "file_no": file_no,
        "name": file.name,
        "generation": file.generation,
        "current": file.generation == 1,
        "format": file.format,
        "kind": file.kind,
        "file_time": file.file_time,
        "device": file.device,
        "host": file.host,
        "size_bytes": file.size_bytes,
        "modified_s": file.modified_s,
        "state": FILE_TRANSITIONS[event].after,
        "created_at": now,
        **_UNREAD,
    }


_NUMBERS_OF_READING = (
    *("byte_offset", "quarantined_bytes", "event_count"),
    *("fingerprint_bytes", "anchor_bytes", "failed_reads"),
)
_UNREAD = {"closed": False, "unread": True, **dict.fromkeys(_NUMBERS_OF_READING, 0)}


# ---- What the store has of one job or one log file, for the answers of `why`. Only reads
# In: ids and stored names. Out: rows of `log_file`, open problems, whether there is lineage.


# Only problems without a log file are looked up by path: those of older generations, and of jobs inside a job's
# directory, belong to files of their own.
_OF_NO_LOG_FILE = ingest_problem.c.file_no.is_(None)


def generations(session: Session, base_dir_id: int, train_id: str) -> list[Row[Any]]:
    """Return every generation of every log file of a job, by name and generation."""
    mine = (train_job.c.base_dir_id == base_dir_id) & (train_job.c.train_id == train_id)
    query = select(log_file).join_from(log_file, train_job).where(mine)
    return session.rows(query.order_by(log_file.c.name, log_file.c.generation))


def has_lineage(session: Session, job_id: int) -> bool:
    """Return whether the job has a row of lineage."""
    return session.first(select(lineage.c.job_id).where(lineage.c.job_id == job_id)) is not None


def problems_of_job(session: Session, base_dir_id: int, train_id: str, job_id: int | None) -> Sequence[Any]:
    """Return the open problems of a job's log files, its directory, and entries in it that are not in the store."""
    directory = relative_path(train_id)
    entry = func.substr(ingest_problem.c.path, 1, len(directory) + 1) == f"{directory}/"
    concerned = _OF_NO_LOG_FILE & ((ingest_problem.c.path == directory) | entry)
    if job_id is not None:
        concerned |= ingest_problem.c.job_id == job_id
    return _open_problems(session, base_dir_id, concerned)


def problems_of_file(
    session: Session, base_dir_id: int, train_id: str, name: str, file: FileKey | None
) -> Sequence[Any]:
    """Return the open problems of a log file: by its path, and by `file` if the store has it."""
    concerned = _OF_NO_LOG_FILE & (ingest_problem.c.path == relative_path(train_id, name))
    if file is not None:
        concerned |= in_file(ingest_problem, file)
    return _open_problems(session, base_dir_id, concerned)


def _open_problems(session: Session, base_dir_id: int, concerned: ColumnElement[bool]) -> Sequence[Any]:
    ours = (ingest_problem.c.base_dir_id == base_dir_id) & ingest_problem.c.resolved_at.is_(None)
    told = select(
        *(ingest_problem.c[name] for name in ("path", "kind", "reason", "remedy", "count", "bytes"))
    ).distinct()
    return session.rows(told.where(ours, concerned).order_by(ingest_problem.c.path))


# ---- Tombstones of jobs that were removed on purpose: ingest leaves their log files alone
# In: a base dir, and log files in it that the store does not know. Out: those of them that are to be ingested.
# Promises: a tombstone covers the log files that were there when the job was removed; when a log file with a newer
# timestamp in its name appears, somebody trains there again, and the whole job comes back. Does not know how jobs are
# removed.


BY_POLICY = "policy "
"""A tombstone's reason begins with this if a policy named the job; the policy's setting follows."""


@dataclass(frozen=True, slots=True)
class RemovedJob:
    """A removed job, which ingest ignores."""

    base_dir: str
    train_id: str
    removed_at: datetime
    reason: str
    removal: int | None
    """The number of the removal that it was part of."""


def _removed_job(base_dir: str, train_id: str, *rest: Any) -> RemovedJob:
    return RemovedJob(from_stored(base_dir), from_stored(train_id), *rest)


class Covering(NamedTuple):
    """What a tombstone says of the time before it."""

    last_file_time: int
    first_seen_at: datetime


def covering(session: Session, base_dir_id: int, train_ids: Iterable[str]) -> dict[str, Covering]:
    """Return what the tombstones of jobs, lifted ones too, say of the time before them, by stored train id."""
    mine = select(tombstone.c.train_id, *(tombstone.c[name] for name in Covering._fields))
    here = mine.where(tombstone.c.base_dir_id == base_dir_id, tombstone.c.first_seen_at.is_not(None))
    rows = session.rows(here.where(among(session, tombstone.c.train_id, train_ids)))
    return {row.train_id: Covering(row.last_file_time, row.first_seen_at) for row in rows}


def without_removed(session: Session, base_dir_id: int, files: Sequence[NewFile]) -> list[NewFile]:
    """Return the files whose job has no tombstone, or has a newer file among `files` than its tombstone covers."""
    newest: dict[str, int] = {}
    for file in files:
        newest[file.train_id] = max(file.file_time, newest.get(file.train_id, file.file_time))
    mine = select(tombstone.c.train_id, tombstone.c.last_file_time).where(
        tombstone.c.base_dir_id == base_dir_id, ~tombstone.c.lifted
    )
    covered = {
        row.train_id
        for row in session.rows(mine.where(among(session, tombstone.c.train_id, newest)))
        if newest[row.train_id] <= row.last_file_time
    }
    return [file for file in files if file.train_id not in covered] if covered else list(files)


def take_away(session: Session, base_dir_id: int, train_ids: Iterable[str]) -> None:
    """Delete the tombstones of jobs that are in the store again."""
    mine = delete(tombstone).where(tombstone.c.base_dir_id == base_dir_id)
    session.change(mine.where(among(session, tombstone.c.train_id, train_ids)))


def of_job(session: Session, base_dir_id: int, train_id: str) -> RemovedJob | None:
    """Return the tombstone of a job; None if it has none."""
    mine = (tombstone.c.base_dir_id == base_dir_id) & (tombstone.c.train_id == train_id)
    row = session.first(_ALL.where(mine))
    return None if row is None else _removed_job(*row)


def latest(session: Session, base_dir_id: int | None = None, *, page: Page = UNPAGED) -> list[RemovedJob]:
    """Return a page of the tombstones of a base dir, or of all base dirs, latest first."""
    here = tombstone.c.base_dir_id == base_dir_id
    query = _ALL.where(_THERE if base_dir_id is None else here)
    ordered = query.order_by(tombstone.c.removed_at.desc(), tombstone.c.train_id, tombstone.c.base_dir_id)
    return [_removed_job(*row) for row in session.rows(page.of(ordered))]


@dataclass(frozen=True, slots=True)
class PastRemoval:
    """What one call, or the policies at one time, removed of a base dir."""

    number: int
    base_dir: str
    removed_at: datetime
    reason: str
    by: str
    """`policies` if these removed by themselves, else `a person`."""
    holder: str
    """The process that did it: host:pid:nonce."""
    jobs: int
    restorable: int
    """How many of the jobs have not come back, nor were allowed to."""


def removals(session: Session, base_dir_id: int | None = None, *, page: Page = UNPAGED) -> list[PastRemoval]:
    """Return a page of the removals of a base dir, or of all base dirs, latest first."""
    here = removal.c.base_dir_id == base_dir_id
    query = _REMOVALS if base_dir_id is None else _REMOVALS.where(here)
    rows = session.rows(page.of(query.order_by(removal.c.removed_at.desc(), removal.c.id.desc())))
    return [
        PastRemoval(number, from_stored(path), at, reason, "policies" if by_policy else "a person", *rest)
        for number, path, at, reason, by_policy, *rest in rows
    ]


def of_removal(session: Session, number: int) -> tuple[int, str, list[str]] | None:
    """Return the base dir of a removal, as id and stored path, and those of its jobs that have not come back, nor were
    allowed to; None if there is no such removal."""
    known = select(base_dir.c.id, base_dir.c.path).join(removal, removal.c.base_dir_id == base_dir.c.id)
    place = session.first(known.where(removal.c.id == number, ~base_dir.c.leaving))
    if place is None:
        return None
    jobs = select(tombstone.c.train_id).where(tombstone.c.removal_id == number, ~tombstone.c.lifted)
    return place.id, place.path, session.column(jobs.order_by(tombstone.c.train_id))


def removed_among(session: Session, base_dir_id: int, train_ids: Iterable[str]) -> set[str]:
    """Return which of the jobs have a tombstone."""
    mine = select(tombstone.c.train_id).where(tombstone.c.base_dir_id == base_dir_id, ~tombstone.c.lifted)
    return set(session.column(mine.where(among(session, tombstone.c.train_id, train_ids))))


def by_policy(session: Session, path: str | None = None) -> list[dict[str, Any]]:
    """Return, per base dir (or of one stored path) and policy, how many removed jobs there are and the last removal."""
    counted = func.count().label("jobs"), func.max(tombstone.c.removed_at).label("last_removed_at")
    named = func.substr(tombstone.c.reason, len(BY_POLICY) + 1).label("policy")
    wanted = (
        select(base_dir.c.path.label("base_dir"), named, *counted)
        .join_from(tombstone, base_dir, base_dir.c.id == tombstone.c.base_dir_id)
        .where(~tombstone.c.lifted, ~base_dir.c.leaving, tombstone.c.reason.startswith(BY_POLICY))
        .group_by(base_dir.c.path, tombstone.c.reason)
        .order_by(base_dir.c.path, tombstone.c.reason)
    )
    if path is not None:
        wanted = wanted.where(base_dir.c.path == path)
    return session.mappings(wanted)


# A subquery, because for a join SQLite would start from the base dirs and sort all their tombstones.
_PATH = select(base_dir.c.path).where(base_dir.c.id == tombstone.c.base_dir_id).scalar_subquery()
_THERE = tombstone.c.base_dir_id.not_in(select(base_dir.c.id).where(base_dir.c.leaving))
_TOLD = ("train_id", "removed_at", "reason", "removal_id")
_ALL = select(_PATH, *(tombstone.c[name] for name in _TOLD)).where(~tombstone.c.lifted)
_LEFT = select(func.count()).where(tombstone.c.removal_id == removal.c.id, ~tombstone.c.lifted)
_REMOVALS = (
    select(removal.c.id, base_dir.c.path)
    .add_columns(*(removal.c[name] for name in ("removed_at", "reason", "by_policy", "holder", "jobs")))
    .add_columns(_LEFT.scalar_subquery())
    .join_from(removal, base_dir, base_dir.c.id == removal.c.base_dir_id)
    .where(~base_dir.c.leaving)
)


# ---- Base dirs that were moved, and jobs that the store has in two base dirs. Only reads
# In: a session, a stored path or a base dir. Out: where the base dir is now, or which others have the same jobs.
# Promises: two jobs count as the same only if they have the same train id and a log file with the same name and the
# same digest of its first frame.


def moved_to(session: Session, path: str) -> tuple[int, str] | None:
    """Return the base dir, as (id, stored path), that was at `path` before it was moved; None if there is none."""
    moved = select(base_dir.c.id, base_dir.c.path, base_dir.c.moved_from).where(
        base_dir.c.moved_from.is_not(None)
    )
    rows = session.rows(moved.where(~base_dir.c.leaving).order_by(base_dir.c.id))
    return next(((row.id, row.path) for row in rows if path in json.loads(row.moved_from)), None)


def same_jobs(session: Session, base_dir_id: int) -> Mapping[int, int]:
    """Return, by the id of each other base dir that also has jobs of this one, how many."""
    mine, other = train_job.alias("mine"), train_job.alias("other")
    file, again = log_file.alias("file"), log_file.alias("again")
    ours = select(mine.c.train_id, file.c.name, file.c.fingerprint).join(file, file.c.job_id == mine.c.id)
    here = ours.where(mine.c.base_dir_id == base_dir_id).cte("here")
    found = (
        select(other.c.base_dir_id, func.count(other.c.id.distinct()))
        .select_from(here)
        .join(base_dir, (base_dir.c.id != base_dir_id) & ~base_dir.c.leaving)
        .join(other, (other.c.base_dir_id == base_dir.c.id) & (other.c.train_id == here.c.train_id))
        .join(again, (again.c.job_id == other.c.id) & (again.c.name == here.c.name))
        .where(again.c.fingerprint == here.c.fingerprint)
        .group_by(other.c.base_dir_id)
    )
    return {row[0]: row[1] for row in session.rows(found)}


def known_twice(session: Session, base_dir_id: int | None = None) -> Iterator[Finding]:
    """Yield a finding for each pair of base dirs that have jobs in common: for all base dirs, or those of one."""
    paths = {number: from_stored(path) for number, path in stored_base_dirs(session)}
    asked = paths if base_dir_id is None else [base_dir_id]
    for number in asked if len(paths) > 1 else ():
        for other, jobs in same_jobs(session, number).items():
            if base_dir_id is not None or number < other:
                yield finding("known_twice", paths[number], jobs=jobs, other=paths[other])
