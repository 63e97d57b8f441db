"""The status of the store (base dirs with lag and leader, open problems), and everything about one job.

In: an open read transaction. Out: frozen reports made of rows of the views. Text is in its stored form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnClause,
    ColumnElement,
    Select,
    Text,
    bindparam,
    case,
    cast,
    column,
    func,
    literal_column,
    or_,
    select,
    table,
)
from sqlalchemy.types import NULLTYPE, TypeEngine

from lineage_store.findings import Finding, finding, severity_of, with_places
from lineage_store.plain_values import LARGEST_INTEGER
from lineage_store.plugins import GRAPH
from lineage_store.states import FileState
from lineage_store.store.catalog import registry, retention
from lineage_store.store.catalog.registry import PENDING, WAITS
from lineage_store.store.database.db import UNPAGED, Page
from lineage_store.store.database.sql import Query, Session, UtcTime, listed, one_of
from lineage_store.store.schema.tables import (
    CURRENT_FILE,
    base_dir,
    ingest_cycle,
    ingest_lease,
    log_file,
    of_file,
    series,
    train_job,
)
from lineage_store.store.schema.views import VIEWS
from lineage_store.texts import from_stored

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """The status of ingest, as rows of its views."""

    base_dirs: Sequence[Row]
    """v_base_dir."""
    problems: Sequence[Finding]
    """The open problems of v_ingest_problem, newest first; where they are too many, some of every job."""
    cycles: Sequence[Row]
    """v_ingest_cycle, the last pass over each base dir."""
    shards: Sequence[Row]
    """v_shard."""
    known_twice: Sequence[Finding]
    """Base dirs that hold the same jobs as another base dir, for example after a mount was renamed."""
    removed_by_policy: Sequence[Row]
    """Removals by policy: base_dir, policy, jobs (their number), last_removed_at."""
    policies_wait: Sequence[Finding]
    """What policies wait for: jobs that a person may let go, a clock that is wrong."""
    backlogs: Sequence[Backlog]
    """Of base dirs with log files that wait to be read."""


@dataclass(frozen=True, slots=True)
class JobReport:
    """What the views show of one job; a part that was not asked for is empty."""

    job: Row
    """v_job."""
    metrics: Sequence[Row]
    """v_metric, the latest evaluation."""
    user_info: Sequence[Row]
    series: Sequence[Row]
    """v_series, sorted by plugin and tag."""
    log_files: Sequence[Row]
    problems: Sequence[Finding]
    """The open problems of v_ingest_problem."""


def read_status(
    session: Session, base_dir: str | None = None, base_dir_id: int | None = None, *, problems: int = 10
) -> StoreStatus:
    """Return the status of one base dir (stored path, and its id), or of all, with the newest `problems` problems."""
    base_dirs = view_rows(session, "v_base_dir", _within(base_dir), "base_dir")
    return StoreStatus(
        base_dirs=base_dirs,
        problems=read_some_problems(session, base_dir, problems) if problems else [],
        cycles=[row for each in base_dirs for row in read_cycles(session, each["base_dir"], limit=1)],
        shards=read_shards(session, base_dir),
        known_twice=list(registry.known_twice(session, base_dir_id)),
        removed_by_policy=registry.by_policy(session, base_dir),
        policies_wait=list(retention.waiting(session, base_dir_id)),
        backlogs=read_backlogs(session, base_dirs),
    )


def read_shards(session: Session, base_dir: str | None = None) -> list[dict[str, Any]]:
    """Return the rows of v_shard, which name the leaders, of one base dir (stored path) or of all."""
    return view_rows(session, "v_shard", _within(base_dir), "base_dir", "shard")


def read_problems(
    session: Session, base_dir: str | None = None, *, resolved: bool = False, page: Page = UNPAGED
) -> list[Finding]:
    """Return the open problems of a base dir (stored path), or of all, newest first; `resolved`: resolved ones too."""
    wanted = _within(base_dir) if resolved else {**_within(base_dir), "resolved_at": None}
    newest = "-first_seen_at", "problems", "path", "base_dir", "kind", "range_start"
    return list(map(problem_of, view_rows(session, "v_ingest_problem", wanted, *newest, page=page)))


def read_some_problems(
    session: Session, base_dir: str | None, most: int, *, resolved: bool = False
) -> list[Finding]:
    """Return at most `most` problems, newest first: the newest of every job, then the second newest of every job, …"""
    rows = view_select("v_ingest_problem")
    column = rows.selected_columns
    if base_dir is not None:
        rows = rows.where(column["base_dir"] == base_dir)
    if not resolved:
        rows = rows.where(column["resolved_at"].is_(None))
    newest = column["first_seen_at"].desc(), column["problems"], column["path"], column["kind"]
    turn = func.row_number().over(partition_by=(column["base_dir"], column["train_id"]), order_by=newest)
    in_turn = rows.add_columns(turn.label("turn")).subquery()
    fair = in_turn.c["turn", "first_seen_at", "problems", "path", "base_dir", "kind"]
    order = [each.desc() if each.name == "first_seen_at" else each for each in fair]
    some = select(in_turn).order_by(*order).limit(min(most, LARGEST_INTEGER))
    return sorted(map(problem_of, session.mappings(some)), key=_newest_first)


def _newest_first(problem: Finding) -> tuple[Any, ...]:
    age = 0.0 if problem.since is None else -problem.since.timestamp()
    return age, problem.problems, problem.subject, problem.kind


def read_problems_below(session: Session, place: str) -> list[Finding]:
    """Return the open problems of what is at a stored absolute path, or beneath it."""
    rows = view_select("v_ingest_problem")
    column = rows.selected_columns
    base_dir, path = cast(column["base_dir"], Text), cast(column["path"], Text)
    subject = case((path == ".", base_dir), else_=func.rtrim(base_dir, "/").concat("/").concat(path))
    inside = f"{place.rstrip('/')}/"
    below = (subject == place) | (func.substr(subject, 1, len(inside)) == inside)
    rest = (column[name] for name in ("problems", "path", "base_dir", "kind"))
    newest = column["first_seen_at"].desc(), *rest
    wanted = rows.where(below, column["resolved_at"].is_(None)).order_by(*newest)
    return list(map(problem_of, session.mappings(wanted)))


def _within(base_dir: str | None) -> dict[str, object]:
    """Return the values that columns of a view must equal: a base dir, or none for all."""
    return {} if base_dir is None else {"base_dir": base_dir}


def problem_of(row: Row) -> Finding:
    """Turn a row of v_ingest_problem into a finding, whose subject is the absolute path."""
    return Finding(
        row["kind"],
        str(Path(row["base_dir"], row["path"])),
        severity_of(row["kind"]),
        with_places(row["reason"], row["count"], row["bytes"]),
        row["remedy"],
        since=row["first_seen_at"],
        until=row["resolved_at"],
        range_start=row["range_start"],
        range_end=row["range_end"],
        **{name: row[name] for name in ("count", "bytes", "first_range_end", "last_range_start", "problems")},
    )


def read_cycles(session: Session, base_dir: str, limit: int) -> list[dict[str, Any]]:
    """Return the last `limit` passes over a base dir (stored path), newest first."""
    return view_rows(session, "v_ingest_cycle", {"base_dir": base_dir}, "-finished_at", page=Page(limit))


def read_job(session: Session, job_id: int, parts: Collection[str] | None = None) -> JobReport:
    """Return some parts of the report on one job, or all."""
    of_job = {"job_id": job_id}

    def rows(part: str, view: str, *order: str, **given: object) -> list[dict[str, Any]]:
        wanted = parts is None or part in parts
        return view_rows(session, view, {**of_job, **given}, *order) if wanted else []

    problems = rows("problems", "v_ingest_problem", "problems", "path", "kind", resolved_at=None)
    return JobReport(
        job=view_rows(session, "v_job", of_job)[0],
        metrics=rows("metrics", "v_metric", "name", is_latest=True),
        user_info=rows("user_info", "v_user_info", "key"),
        series=rows("series", "v_series", "plugin", "tag", "device", "first_step"),
        log_files=rows("log_files", "v_log_file", "begun_at", "log_file", "generation"),
        problems=list(map(problem_of, problems)),
    )


def read_evaluations(session: Session, job_id: int) -> list[dict[str, Any]]:
    """Return the results of every evaluation of one job, in the order of evaluations."""
    return view_rows(session, "v_metric", {"job_id": job_id}, "evaluation_no", "name")


# ---- Rows of the views, as analysts see them
# In: an open read transaction, the name of a view, values that columns must equal. Out: dicts of plain values, in the
# order of the view's columns; times are aware datetimes on both databases. Text is in its stored form.


_TYPES: dict[str, TypeEngine[Any]] = {"timestamptz": UtcTime(), "boolean": Boolean()}
VIEW_COLUMNS = {view.name: {item.name: item.type for item in view.columns} for view in VIEWS}
"""The types of the columns of each view."""


def view_select(name: str, *, as_stored: bool = False) -> Select[Any]:
    """Return the SELECT of all rows of a view; `as_stored`: times and bools of SQLite stay texts and numbers."""
    types = {} if as_stored else _TYPES
    columns = [column(item, types.get(type_, NULLTYPE)) for item, type_ in VIEW_COLUMNS[name].items()]
    return select(*columns).select_from(table(name))


def view_rows(
    session: Session, name: str, where: Mapping[str, object], *order: str, page: Page = UNPAGED
) -> list[dict[str, Any]]:
    """Return rows of a view.

    Args:
        where: values that columns must equal; None means IS NULL.
        order: columns to sort by; `-column` is descending.
        page: the page of the rows.
    """
    query = view_select(name)
    for item, value in where.items():
        query = query.where(column(item) == value)
    for item in order:
        key: ColumnClause[Any] = column(item.removeprefix("-"))
        query = query.order_by(key.desc() if item.startswith("-") else key)
    return session.mappings(page.of(query))


# ---- What the log files of jobs hold: how many files there are, whether all could be read, and their tags
# In: an open read transaction, ids of jobs. Out: a frozen `JobContents` for each job that the store knows.


_DAMAGED: list[ColumnElement[Any]] = [
    literal_column(f"'{state}'")
    for state in (FileState.TORN, FileState.SUSPECT, FileState.UNREADABLE, FileState.QUARANTINED)
]


@dataclass(frozen=True, slots=True)
class JobContents:
    """What the log files of a job hold."""

    summary_files: int
    lineage_files: int
    is_intact: bool
    """Whether all of its summary files could be read, without damage."""
    tags: Sequence[tuple[str, str]]
    """(plugin, tag) pairs in the order in which the store first saw them."""


def job_contents(
    session: Session, names: Mapping[int, str], most_tags: int | None = None
) -> dict[str, JobContents]:
    """Return the contents of jobs by their names, which are given by job id.

    `most_tags`: return no more tags of a plugin and job, but the last ones to appear; of graphs, one a file, all.
    """
    files, tags_of = _statements(dialect := session.kind)
    if not names:
        return {}
    wanted = listed(dialect, names)
    rows = session.rows(Query(files), wanted=wanted)
    counts = {(job_id, kind): (number, of_damaged) for job_id, kind, number, of_damaged in rows}
    tags = defaultdict(list)
    most = LARGEST_INTEGER if most_tags is None else most_tags
    for job_id, plugin, tag in session.rows(Query(tags_of), wanted=wanted, most=most):
        tags[job_id].append((plugin, from_stored(tag)))
    found = {}
    for job_id, name in names.items():
        summary_files, damaged_files = counts.get((job_id, "summary"), (0, 0))
        lineage_files, _ = counts.get((job_id, "lineage"), (0, 0))
        found[name] = JobContents(summary_files, lineage_files, damaged_files == 0, tags[job_id])
    return found


@cache
def _statements(dialect: str) -> tuple[Select[Any], Select[Any]]:
    """Return two SELECTs: the log files of jobs, and their tags.

    A job's series are numbered in the order of arrival, so the least number of a tag's series orders the tags.
    """
    wanted: Any = bindparam("wanted")
    damaged = or_(log_file.c.state.in_(_DAMAGED), log_file.c.quarantined_bytes > 0)
    files = (
        select(log_file.c.job_id, log_file.c.kind, func.count(), func.sum(case((damaged, 1), else_=0)))
        .where(one_of(dialect, log_file.c.job_id, wanted), CURRENT_FILE)
        .group_by(log_file.c.job_id, log_file.c.kind)
    )
    tag, first = (series.c.job_id, series.c.plugin, series.c.tag), func.min(series.c.series_no)
    place = func.row_number().over(partition_by=tag[:2], order_by=first.desc())
    seen = (
        select(*tag, first.label("first"), place.label("place"))
        .join(log_file, of_file(series))
        .where(one_of(dialect, series.c.job_id, wanted), CURRENT_FILE)
        .group_by(*tag)
        .subquery()
    )
    tags = (
        select(seen.c.job_id, seen.c.plugin, seen.c.tag)
        .where(or_(seen.c.place <= bindparam("most"), seen.c.plugin == literal_column(f"'{GRAPH}'")))
        .order_by(seen.c.first)
    )
    return files, tags


# ---- What a base dir has found and not yet read, how fast it is read, and whether that goes on
# In: an open read transaction, and rows of v_base_dir. Out: a `Backlog` for each base dir where log files wait.
# Promises: rate and time left come from what ingesters have committed lately, and are None where that is nothing; a
# backlog that is being read is a note, one that stands or grows is not well. Text is in its stored form.


LATELY_S = 120.0
"""The rate is that of the passes that began within so many seconds."""
STANDS_AFTER_S = 60.0
"""A backlog of which nothing was read for so long stands; one that is read in less is none to speak of."""
REMEMBERED_S = 600.0
"""A backlog grows if it is larger than it was up to so many seconds ago."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The log files of a base dir that were found and are not yet read to their ends."""

    base_dir: str
    files: int
    bytes: int
    bytes_per_s: float | None
    """How fast they are read; None: nothing was read lately."""
    left_s: float | None
    """How long reading them takes at that rate."""
    finding: Finding
    """`backlog`, or `backlog_grows` or `backlog_stands`, which are not well."""


def read_backlogs(session: Session, base_dirs: Iterable[Mapping[str, Any]]) -> list[Backlog]:
    """Return the backlogs of base dirs (rows of v_base_dir)."""
    return [_backlog(session, row) for row in base_dirs if row["waiting_files"]]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What ingesters have done lately."""

    now: datetime
    bytes_per_s: float | None
    read_at: datetime | None
    """When a pass that read something ended last."""
    before: tuple[datetime, int] | None
    """When the oldest pass that counts ended, and how many bytes waited then."""


def _backlog(session: Session, row: Mapping[str, Any]) -> Backlog:
    base_dir_id = session.value(select(base_dir.c.id).where(base_dir.c.path == row["base_dir"]))
    files, size = row["waiting_files"], row["waiting_bytes"]
    reading = _lately(session, base_dir_id)
    rate = reading.bytes_per_s
    left_s = size / rate if rate else None
    pace = f"{rate:,.0f} bytes/s, about {_in_words(left_s)} left" if rate and left_s is not None else _UNKNOWN
    told: dict[str, Any] = {"files": files, "size": size}
    if why := _why_it_stands(session, base_dir_id, row, reading):
        found = finding("backlog_stands", row["base_dir"], why=why, **told)
    elif (before_s := _grows_since(session, base_dir_id, size, left_s, reading)) is not None:
        found = finding("backlog_grows", row["base_dir"], before_s=before_s, pace=pace, **told)
    else:
        found = finding("backlog", row["base_dir"], pace=pace, **told)
    return Backlog(row["base_dir"], files, size, rate, left_s, found)


_UNKNOWN = "none was read recently, so the time left is unknown"


def _lately(session: Session, base_dir_id: int) -> _Reading:
    now, cycle = session.now(), ingest_cycle.c
    since = now - timedelta(seconds=REMEMBERED_S)
    columns = cycle.started_at, cycle.finished_at, cycle.bytes_read, cycle.waiting_bytes
    mine = select(*columns).where(cycle.base_dir_id == base_dir_id, cycle.started_at >= since)
    cycles = session.rows(mine.order_by(cycle.started_at))
    latest = [each for each in cycles if each.started_at >= now - timedelta(seconds=LATELY_S)]
    read = sum(each.bytes_read for each in latest)
    rate = read / max((now - latest[0].started_at).total_seconds(), 1.0) if read else None
    read_at = max((each.finished_at for each in cycles if each.bytes_read), default=None)
    before = (cycles[0].finished_at, cycles[0].waiting_bytes) if cycles else None
    return _Reading(now, rate, read_at, before)


def _why_it_stands(
    session: Session, base_dir_id: int, row: Mapping[str, Any], reading: _Reading
) -> str | None:
    """Say why nothing of a backlog is read; None while it is read, or has just been found."""
    if not row["led_shards"]:
        return "no ingester holds its lease"
    lease = ingest_lease.c
    led_since = select(func.min(lease.acquired_at)).where(
        lease.base_dir_id == base_dir_id, lease.shard < row["shards"], lease.expires_at > reading.now
    )
    found_at = case((log_file.c.unread, log_file.c.created_at), else_=log_file.c.grown_at)
    waiting_since = (
        select(func.min(found_at))
        .join_from(log_file, train_job)
        .where(train_job.c.base_dir_id == base_dir_id, PENDING, WAITS)
    )
    times = reading.read_at, *(session.value(asked) for asked in (led_since, waiting_since))
    last = max((time for time in times if time is not None), default=reading.now)
    quiet_s = (reading.now - last).total_seconds()
    return f"none was read in the last {quiet_s:,.0f} s" if quiet_s > STANDS_AFTER_S else None


def _grows_since(
    session: Session, base_dir_id: int, size: int, left_s: float | None, reading: _Reading
) -> float | None:
    """Return for how many seconds a daemon's backlog has grown; None if it has not.

    A single ingest finds a large base dir part by part, which is no growth.
    """
    if reading.before is None or (left_s is not None and left_s < STANDS_AFTER_S):
        return None
    lease = ingest_lease.c
    daemon = select(func.count()).where(lease.base_dir_id == base_dir_id, lease.mode == "daemon")
    at, before = reading.before
    passed_s = (reading.now - at).total_seconds()
    if passed_s < STANDS_AFTER_S or size <= before:
        return None
    return passed_s if session.value(daemon) else None


def _in_words(seconds: float) -> str:
    """Say how long something takes, roughly."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{max(1, round(seconds))} s"
