"""Problems of ingest: what could not be read, where, since when, and the remedy.

In: the present findings about files and directories. Out: rows of `ingest_problem`, one per log file and kind. A
problem of byte ranges stays open and is added up; one of a file or directory as a whole is a state, which is resolved
when it ends, and opened again when it returns. Promises: a job has at most MOST_OF_JOB rows of problems and as many of
notes, however much of it is damaged. Those beyond have no rows of their own: their kinds are noted with the log file
(`log_file.unlisted`), and one row of the job has their number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, delete, insert, select, update

from lineage_store.finding_kinds import KINDS, Severity
from lineage_store.findings import Finding, RangeProblems, clipped, finding, in_turn, severity_of
from lineage_store.store.database.sql import Session, among, listed_rows, one_of_rows, update_by_key, upsert
from lineage_store.store.leases import ALL, Shards
from lineage_store.store.records import FileKey, KnownFile, relative_path
from lineage_store.store.schema.tables import ingest_cycle, ingest_problem, ingest_total, log_file

MOST_OF_JOB = 50
"""Maximum number of a job's rows that are problems, and of those that are notes; resolved ones included."""
MOST_PATHS = 1000
"""Maximum number of a base dir's open rows about directories and entries; and of the resolved ones."""

_OPEN = ingest_problem.c.resolved_at.is_(None)
_RANGES = ("count", "bytes", "range_start", "first_range_end", "last_range_start", "range_end")
_CHANGING = ("problems", *_RANGES, "reason", "remedy", "first_seen_at", "last_seen_at", "resolved_at")


class OfFile(NamedTuple):
    """What was found about one log file."""

    states: Sequence[Finding] = ()
    """Everything that is wrong with the file as a whole now."""
    ranges: Sequence[RangeProblems] = ()
    """What is wrong with the bytes that were just read."""


_Found = Finding | RangeProblems
_New = tuple[KnownFile, _Found]


def record(session: Session, base_dir_id: int, found: Mapping[KnownFile, OfFile], now: datetime) -> None:
    """Make the open states of files exactly the given ones, and add the given byte ranges to the stored ones."""
    if not found:
        return
    stored, before = _stored(session, found), _unlisted(session, found)
    changed, new = list[dict[str, Any]](), list[_New]()
    after = defaultdict[FileKey, set[str]](set)
    for file, of_file in found.items():
        rows, problems = stored.get(file.key, {}), _by_kind(of_file)
        changed += _changes(rows, problems, now)
        # What is not listed of byte ranges was not counted, so that it cannot be listed later.
        kept = {kind for kind in before.get(file.key, ()) if kind in KINDS and KINDS[kind].ranged}
        new += [(file, each) for kind, each in problems.items() if kind not in rows and kind not in kept]
        after[file.key] = kept
    update_by_key(session, ingest_problem, changed)
    listed, beyond = _within_bounds(session, new)
    session.insert(ingest_problem, [_row(base_dir_id, *each, now) for each in listed])
    for file, problem in beyond:
        after[file.key].add(problem.kind)
    jobs = {file.job_id: (base_dir_id, file.train_id) for file in found}
    _note_unlisted(session, jobs, before, after, now)


def set_file_problems(
    session: Session, base_dir_id: int, states: Mapping[KnownFile, Sequence[Finding]], now: datetime
) -> None:
    """Make the open states of files exactly the given ones."""
    record(session, base_dir_id, {file: OfFile(found) for file, found in states.items()}, now)


def forget_files(session: Session, job_id: int, file_nos: Collection[int]) -> None:
    """Delete the problems of generations of log files that no longer count."""
    theirs = (ingest_problem.c.job_id == job_id) & among(session, ingest_problem.c.file_no, file_nos)
    session.change(delete(ingest_problem).where(theirs))
    before = _unlisted_of(session, [(job_id, file_no) for file_no in file_nos])
    _note_unlisted(session, {}, before, {key: set() for key in before})


def _by_kind(of_file: OfFile) -> dict[str, _Found]:
    """Return what was found about a file, each kind once."""
    ranges: dict[str, RangeProblems] = {}
    for each in of_file.ranges:
        before = ranges.get(each.kind)
        ranges[each.kind] = each if before is None else before.plus(each)
    return {**ranges, **{state.kind: state for state in of_file.states}}


def _stored(session: Session, files: Iterable[KnownFile]) -> dict[FileKey, dict[str, Row[Any]]]:
    """Return the rows of files by kind, resolved ones included."""
    dialect_name, found = session.kind, defaultdict[FileKey, dict[str, Row[Any]]](dict)
    parameters = listed_rows(dialect_name, 2, (file.key for file in files))
    for row in session.rows(_of_files(dialect_name), parameters):
        found[row.job_id, row.file_no][row.kind] = row
    return found


@cache
def _of_files(dialect_name: str) -> Select[Any]:
    mine = one_of_rows(dialect_name, (ingest_problem.c.job_id, ingest_problem.c.file_no))
    return select(ingest_problem).where(mine)


def _changes(
    rows: Mapping[str, Row[Any]], wanted: Mapping[str, _Found], now: datetime
) -> Iterable[dict[str, Any]]:
    """Yield the updates of the stored rows of one file."""
    for kind, row in rows.items():
        found = wanted.get(kind)
        if isinstance(found, RangeProblems):
            yield _update(row, last_seen_at=now, **_measures(_stored_ranges(row).plus(found)))
        elif found is not None and row.resolved_at is not None:
            again = {"first_seen_at": now, "last_seen_at": now, "resolved_at": None}
            yield _update(row, **again, **_measures(found), **_texts(found))
        elif found is not None and row.reason != clipped(found.what):
            yield _update(row, last_seen_at=now, **_measures(found), **_texts(found))
        elif found is None and row.range_end is None and row.resolved_at is None:
            yield _update(row, resolved_at=now)


def _update(row: Row[Any], **changed: Any) -> dict[str, Any]:
    """Return the update of a row; each has all columns that may change, so that one statement updates many rows."""
    return {"of_id": row.id, **{name: row._mapping[name] for name in _CHANGING}, **changed}


def _stored_ranges(row: Row[Any]) -> RangeProblems:
    return RangeProblems._make((row.kind, *(row._mapping[name] for name in _RANGES), row.reason, row.remedy))


def _within_bounds(session: Session, new: Sequence[_New]) -> tuple[list[_New], list[_New]]:
    """Return which new problems get rows, and those for which their jobs have too many; make room for the former.

    Resolved rows make room, the oldest first.
    """
    if not new:
        return [], []
    counted = (ingest_problem.c[name] for name in ("id", "job_id", "kind", "resolved_at"))
    of_jobs = among(session, ingest_problem.c.job_id, {file.job_id for file, _ in new})
    of_files = select(*counted).where(of_jobs, ingest_problem.c.file_no.is_not(None))
    rows = session.rows(of_files.order_by(ingest_problem.c.resolved_at, ingest_problem.c.id))
    opened = Counter((row.job_id, _beyond(row.kind)) for row in rows if row.resolved_at is None)
    resolved: dict[tuple[int, str], list[int]] = defaultdict(list)
    for row in rows:
        if row.resolved_at is not None:
            resolved[row.job_id, _beyond(row.kind)].append(row.id)
    listed, beyond, freed = list[_New](), list[_New](), list[int]()
    for file, problem in new:
        share = file.job_id, _beyond(problem.kind)
        if opened[share] >= MOST_OF_JOB:
            beyond.append((file, problem))
            continue
        listed.append((file, problem))
        opened[share] += 1
        if opened[share] + len(resolved[share]) > MOST_OF_JOB:
            freed.append(resolved[share].pop(0))
    if freed:
        session.change(delete(ingest_problem).where(among(session, ingest_problem.c.id, freed)))
    return listed, beyond


def _beyond(kind: str) -> str:
    """Return the kind of the row for the problems of this kind that have no rows: notes never crowd out problems."""
    return "more_notes" if severity_of(kind) == Severity.NOTE else "more_problems"


def _unlisted(session: Session, files: Collection[KnownFile]) -> dict[FileKey, frozenset[str]]:
    """Return the kinds of problems that have no rows, by file; only for files that have such problems."""
    wanted = _of_jobs(session, {file.job_id for file in files}, ingest_problem.c.job_id)
    jobs = set(session.column(wanted))
    return _unlisted_of(session, [file.key for file in files if file.job_id in jobs]) if jobs else {}


def _of_jobs(session: Session, job_ids: Collection[int], *columns: Any) -> Select[Any]:
    """Select the rows of jobs that have the number of their problems without rows."""
    mine = among(session, ingest_problem.c.job_id, job_ids)
    return select(*columns).where(mine, ingest_problem.c.file_no.is_(None))


def _unlisted_of(session: Session, files: Sequence[FileKey]) -> dict[FileKey, frozenset[str]]:
    dialect_name = session.kind
    rows = session.rows(_kinds_of_files(dialect_name), listed_rows(dialect_name, 2, files)) if files else ()
    return {(row.job_id, row.file_no): frozenset(row.unlisted.split()) for row in rows}


@cache
def _kinds_of_files(dialect_name: str) -> Select[Any]:
    mine = one_of_rows(dialect_name, (log_file.c.job_id, log_file.c.file_no))
    columns = log_file.c.job_id, log_file.c.file_no, log_file.c.unlisted
    return select(*columns).where(mine, log_file.c.unlisted.is_not(None))


def _note_unlisted(
    session: Session,
    jobs: Mapping[int, tuple[int, str]],
    before: Mapping[FileKey, Collection[str]],
    after: Mapping[FileKey, Collection[str]],
    now: datetime | None = None,
) -> None:
    """Store which kinds of problems of files have no rows, and their number with the jobs.

    Args:
        jobs: the base dir and the train id of each job that may get its first problem without a row.
        now: when something was found; None if nothing was, and problems may only become fewer.
    """
    marks, more = [], Counter[tuple[int, str]]()
    for key, kinds in after.items():
        known = before.get(key, frozenset())
        if set(kinds) != set(known):
            text = " ".join(sorted(kinds)) or None
            marks.append({"of_job_id": key[0], "of_file_no": key[1], "unlisted": text})
            more.update((key[0], _beyond(kind)) for kind in kinds)
            more.subtract((key[0], _beyond(kind)) for kind in known)
    if not marks:
        return
    update_by_key(session, log_file, marks)
    wanted = _of_jobs(session, {job_id for job_id, _ in more}, ingest_problem)
    rows = {(row.job_id, row.kind): row for row in session.rows(wanted)}
    for (job_id, kind), added in more.items():
        row = rows.get((job_id, kind))
        count = added if row is None else row.problems + added
        if row is not None and count <= 0:
            session.change(delete(ingest_problem).where(ingest_problem.c.id == row.id))
        elif row is not None and added:
            texts = _texts(finding(kind, row.path, more=count))
            longer = update(ingest_problem).where(ingest_problem.c.id == row.id)
            seen_at = now or row.last_seen_at
            session.change(longer.values(problems=count, count=count, **texts, last_seen_at=seen_at))
        elif row is None and count > 0 and now is not None:
            base_dir_id, train_id = jobs[job_id]
            path = relative_path(train_id)
            columns = _columns(base_dir_id, path, finding(kind, path, more=count), now)
            of_job = {"job_id": job_id, "train_id": train_id, "problems": count, "count": count}
            session.change(insert(ingest_problem), {**columns, **of_job})


def set_path_problems(
    session: Session, base_dir_id: int, paths: Iterable[Finding], now: datetime, shards: Shards = ALL
) -> None:
    """Make the open problems of the shards' directories exactly the given ones, whose subjects are the paths.

    Those beyond MOST_PATHS have one row together.
    """
    known = {(row.path, row.kind): row for row in _path_rows(session, base_dir_id, shards)}
    wanted = {(problem.subject, problem.kind): problem for problem in _listed_paths(paths)}
    changed = [
        each
        for place, row in known.items()
        for each in _changes({row.kind: row}, {row.kind: wanted[place]} if place in wanted else {}, now)
    ]
    update_by_key(session, ingest_problem, changed)
    new = [each for place, each in wanted.items() if place not in known]
    rows = [_columns(base_dir_id, each.subject, each, now) for each in new]
    session.insert(ingest_problem, rows)
    _delete_old_paths(session, base_dir_id)


def path_problems_are(
    session: Session, base_dir_id: int, paths: Iterable[Finding], shards: Shards = ALL
) -> bool:
    """Whether the open problems of the shards' directories are exactly the given ones."""
    opened = [row for row in _path_rows(session, base_dir_id, shards) if row.resolved_at is None]
    wanted = {each.subject: clipped(each.what) for each in _listed_paths(paths)}
    return {row.path: row.reason for row in opened} == wanted


def _listed_paths(paths: Iterable[Finding]) -> list[Finding]:
    """Return the problems of directories that get rows; every directory of the base dir has its turn."""
    in_order = sorted(paths, key=lambda problem: problem.subject)
    if len(in_order) <= MOST_PATHS:
        return in_order
    fair = in_turn(in_order, lambda problem: problem.subject.partition("/")[0])
    listed, rest = fair[: MOST_PATHS - 1], fair[MOST_PATHS - 1 :]
    told = finding("more_paths", rest[0].subject, more=len(rest))
    return [*listed, replace(told, problems=len(rest), count=len(rest))]


def _path_rows(session: Session, base_dir_id: int, shards: Shards) -> list[Row[Any]]:
    rows = session.rows(select(ingest_problem).where(*_of_paths(base_dir_id)))
    return [row for row in rows if shards.hold_path(row.path)]


def _of_paths(base_dir_id: int) -> tuple[Any, ...]:
    return ingest_problem.c.base_dir_id == base_dir_id, ingest_problem.c.job_id.is_(None)


def _delete_old_paths(session: Session, base_dir_id: int) -> None:
    """Delete the oldest of the resolved problems of directories beyond MOST_PATHS."""
    ended = select(ingest_problem.c.id).where(*_of_paths(base_dir_id), ~_OPEN)
    newest = ended.order_by(ingest_problem.c.resolved_at.desc(), ingest_problem.c.id.desc())
    old = session.first(newest.offset(MOST_PATHS).limit(1))
    if old is not None:
        kept = newest.limit(MOST_PATHS).subquery()
        which = ingest_problem.c.id.in_(ended) & ingest_problem.c.id.not_in(select(kept.c.id))
        session.change(delete(ingest_problem).where(which))


def _row(base_dir_id: int, file: KnownFile, problem: _Found, now: datetime) -> dict[str, Any]:
    path = relative_path(file.train_id, file.name)
    of_file = {"job_id": file.job_id, "train_id": file.train_id, "file_no": file.file_no}
    return {**_columns(base_dir_id, path, problem, now), **of_file}


def _columns(base_dir_id: int, path: str, problem: _Found, now: datetime) -> dict[str, Any]:
    return {
        "base_dir_id": base_dir_id,
        "path": path,
        "kind": problem.kind,
        **_measures(problem),
        **_texts(problem),
        "first_seen_at": now,
        "last_seen_at": now,
    }


def _measures(problem: _Found) -> dict[str, Any]:
    """Return how much a problem is, and where."""
    if isinstance(problem, RangeProblems):
        return {"problems": 1, **dict(zip(_RANGES, problem[1 : 1 + len(_RANGES)], strict=True))}
    return {"problems": problem.problems, **dict.fromkeys(_RANGES), "count": problem.count}


def _texts(problem: _Found) -> dict[str, Any]:
    return {"reason": clipped(problem.what), "remedy": problem.remedy}


# ---- Rows of `ingest_cycle`, of which the newest are kept, and the totals of all cycles in `ingest_total`


def write_cycle(
    session: Session, row: Mapping[str, Any], history: int, *, batches: int, batches_s: float
) -> None:
    """Add a cycle, and delete all but the newest `history` cycles of its base dir.

    Args:
        row: the row of `ingest_cycle`.
        batches, batches_s: how many batches the cycle wrote, and how many seconds writing them took; for the totals.
    """
    session.change(insert(ingest_cycle).values(row))
    mine = ingest_cycle.c.base_dir_id == row["base_dir_id"]
    newest_first = select(ingest_cycle.c.id).where(mine).order_by(ingest_cycle.c.id.desc())
    last_kept = session.value(newest_first.offset(history - 1).limit(1))
    if last_kept is not None:
        session.change(delete(ingest_cycle).where(mine, ingest_cycle.c.id < last_kept))
    took_s = (row["finished_at"] - row["started_at"]).total_seconds()
    added = {"cycles": 1, "cycles_s": took_s, "batches": batches, "batches_s": batches_s}
    added |= {name: row[name] for name in ("bytes_read", "events", "samples")}
    _add_up(session, row["base_dir_id"], added)


def _add_up(session: Session, base_dir_id: int, added: Mapping[str, float]) -> None:
    """Add numbers to the totals of a base dir. The row is made by upsert: ingesters of other shards may do the same."""
    more = {name: ingest_total.c[name] + value for name, value in added.items()}
    mine = update(ingest_total).where(ingest_total.c.base_dir_id == base_dir_id).values(more)
    if not session.change(mine):
        nothing = dict.fromkeys(added, 0)
        made = upsert(session, ingest_total, ["base_dir_id"])
        session.change(made, {"base_dir_id": base_dir_id, **nothing})
        session.change(mine)
