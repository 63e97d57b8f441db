"""One question about jobs: which match a condition, and what is wanted of them.

In: an open read transaction, a checked condition, a `Want`. Out: jobs as rows (`page`, `each`, `one`, `newest`) or as
columns (`columns`). Promises: an answer is of one snapshot, but for `each`; the jobs of a page and what is wanted of
them are one SELECT. Does not know how lineage gets into the store, nor whether it is up to date.
"""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import repeat
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select

from lineage_store import texts
from lineage_store.errors import LineageParamValueError
from lineage_store.plain_values import NUMBER_BY_KIND, from_unix, instant, is_integer, is_text
from lineage_store.query.condition import NAMED, SearchCondition, Subject, names_asked
from lineage_store.query.job_sql import (
    LEAVING,
    BaseDirs,
    ChosenStatements,
    Want,
    choose,
    compile_all,
    compile_columns,
    compile_rows,
    select_jobs,
    table_of,
)
from lineage_store.store.catalog.registry import FIRST_JOB
from lineage_store.store.database.db import UNPAGED, Page
from lineage_store.store.database.sql import Query, Session, among, listed, statement_of
from lineage_store.store.opened import asked_again
from lineage_store.store.schema.tables import base_dir, series, train_job
from lineage_store.texts import from_stored, shown, to_stored

S = TypeVar("S", bound=Select[Any])
Named = Mapping[str, Any]
_NO_VALUES: Named = {}

_EVERY_JOB = 2**31 - 1
"""More than there can be: ids have 31 bits."""
_ROWS_AT_ONCE, _LISTED_AT_ONCE = 500, 10_000
_MOST_JOINED = 16
"""So many named values are joined to the rows; further ones are read by the jobs' ids. SQLite joins 64 tables at most,
and the order may need as many again."""


class JobRow(NamedTuple):
    """A train job, which is a directory of log files. What was not wanted (`Want`) is None."""

    job_id: int
    base_dir_id: int
    base_dir: str
    train_id: str
    """`./name` below the base dir."""
    label: int | None
    remark: str | None
    state: str
    """reading, live, stalled, finished or missing."""
    outcome: str | None
    """completed, failed or interrupted; None while it is live, or when it is unknown."""
    source_present: bool
    """Whether its log files are still on disk."""
    host: str | None
    log_bytes: int
    update_time: int
    """`updated_at` in unix seconds, however far from the calendar."""
    updated_at: datetime
    """Greatest modification time of its log files, UTC, to the second."""
    first_started_at: datetime | None
    """Least timestamp in the names of its log files; None if unknown, or beyond the year 9999."""
    last_started_at: datetime | None
    """Greatest timestamp in the names of its log files."""
    last_event_at: datetime | None
    """Greatest wall time of its events."""
    model_lineage: Named | None
    """Fields by name, with NaN as the word of JSON; the metrics as `metric`, user-defined values as `user_defined`."""
    dataset_graph: Named | None
    """Empty if the job recorded none."""
    values: Named
    """The single values that were asked for, by name; None is unknown."""

    @property
    def path(self) -> PurePath:
        """The job's directory."""
        return PurePath(self.base_dir, self.train_id)

    @property
    def cursor(self) -> str:
        """The place of this job in the list: pass it as `after` to get the jobs behind it."""
        place = _Place(self.update_time, to_stored(self.train_id), self.base_dir_id)
        return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode()


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some of the matching jobs, in order."""

    rows: list[JobRow]
    count: int | None
    """The number of all matching jobs; None: it was not counted."""
    several: bool
    """Whether the question is about several base dirs, so that a train id alone is ambiguous."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Matching jobs as columns, each with an item per job; see `JobRow`. A column that was not wanted is empty."""

    job_id: Sequence[int]
    base_dir_id: Sequence[int]
    base_dir: list[str]
    train_id: list[str]
    label: list[int | None] = field(default_factory=list)
    remark: list[str | None] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    outcome: list[str | None] = field(default_factory=list)
    source_present: list[bool] = field(default_factory=list)
    host: list[str | None] = field(default_factory=list)
    log_bytes: list[int] = field(default_factory=list)
    update_time: list[int] = field(default_factory=list)
    updated_at: list[datetime] = field(default_factory=list)
    first_started_at: list[datetime | None] = field(default_factory=list)
    last_started_at: list[datetime | None] = field(default_factory=list)
    last_event_at: list[datetime | None] = field(default_factory=list)
    model_lineage: list[Named | None] = field(default_factory=list)
    dataset_graph: list[Named] = field(default_factory=list)
    values: Mapping[str, list[Any]] = field(default_factory=dict)
    """Lists of values by name, in the order asked for."""

    def rows(self) -> list[JobRow]:
        """Return the jobs as rows."""
        if not self.job_id:
            return []
        columns = (getattr(self, name) or repeat(None) for name in JobRow._fields[:-1])
        values: Iterator[Named] = repeat(_NO_VALUES)
        if self.values:
            known = zip(*self.values.values(), strict=True)
            values = (dict(zip(self.values, each, strict=True)) for each in known)
        return list(map(JobRow._make, zip(*columns, values, strict=False)))


# ---- The questions


def page(
    session: Session,
    condition: SearchCondition,
    want: Want,
    base_dir_ids: Sequence[int] | None,
    *,
    count: bool = True,
) -> JobPage:
    """Return the page that the condition asks for (without one, all jobs), and the number of matching jobs.

    Args:
        base_dir_ids: None means all base dirs.
        count: False leaves the number None unless it follows from the page itself.
    """
    scope = _scope_of(session, base_dir_ids)
    chosen = choose(session, condition, scope.base_dirs, _joined(want), count=count)
    if chosen.everything is not None:
        ids = [row[0] for row in session.rows(Query(chosen.everything), **condition.values)]
        rows = _of_ids(session, ids, want, scope.paths)
    else:
        found = _page_rows(session, condition, chosen)
        rows = _read(session, found, want, scope.paths).rows()
    counted = _count_by_page(condition, len(rows)) if chosen.counted is None else chosen.counted
    if counted is None and chosen.count is not None:
        counted = _number(session, chosen.count, condition)
    return JobPage(rows, counted, len(scope.paths) > 1)


def columns(
    session: Session,
    condition: SearchCondition,
    want: Want,
    base_dir_ids: Sequence[int] | None,
    *,
    most: int | None = None,
    every: bool = False,
) -> Columns:
    """Return the first `most` matching jobs (None: all) as columns, for tables and plots of very many.

    The condition's page is ignored. `every`: also jobs without lineage, unless the condition has an order.
    """
    scope = _scope_of(session, base_dir_ids)
    statement = compile_columns(condition.where, condition.sort, scope.base_dirs, _joined(want), every=every)
    limit = _EVERY_JOB if most is None else min(most, _EVERY_JOB)
    return _read(session, session.rows(Query(statement), **condition.values, most=limit), want, scope.paths)


_Reading = Callable[[], AbstractContextManager[Session]]


def each(
    reading: _Reading,
    condition: SearchCondition,
    want: Want,
    base_dir_ids: Sequence[int] | None,
    *,
    jobs_at_once: int = _ROWS_AT_ONCE,
) -> Iterator[JobPage]:
    """Yield all matching jobs, a part at a time, to a caller who may take as long as needed; the page is ignored.

    No transaction is open while the caller works: otherwise PostgreSQL would end it, and SQLite's write-ahead log would
    grow. Which jobs match, and their order, is of the beginning, and kept in sixteen bytes per job. The data of a job
    is of the moment when its part is read; a job that was removed by then is left out.
    """
    scope, ids, names = _all_of(reading, condition, base_dir_ids)
    for start in range(0, len(ids), jobs_at_once):
        part = slice(start, start + jobs_at_once)
        found = _part_of(reading, ids[part], want, scope.paths)
        known = dict(zip(ids[part], names[part], strict=True))
        same = [row for row in found if known[row.job_id] == hash((row.base_dir_id, to_stored(row.train_id)))]
        yield JobPage(same, None, len(scope.paths) > 1)


@asked_again
def _all_of(
    reading: _Reading, condition: SearchCondition, base_dir_ids: Sequence[int] | None
) -> tuple[_Scope, array[int], array[int]]:
    """Return the ids of all matching jobs in order, and the hashes of their names.

    SQLite may give the id of a removed job to a new one: then the names differ.
    """
    ids, names = array("q"), array("q")
    with reading() as session:
        scope = _scope_of(session, base_dir_ids)
        statement = compile_all(condition.where, condition.sort, scope.base_dirs, names=True)
        for rows in session.stream(statement, _LISTED_AT_ONCE, condition.values):
            ids.extend(row[0] for row in rows)
            names.extend(hash((row[1], row[2])) for row in rows)
    return scope, ids, names


@asked_again
def _part_of(reading: _Reading, ids: Sequence[int], want: Want, paths: Mapping[int, str]) -> list[JobRow]:
    with reading() as session:
        return _of_ids(session, ids, want, paths)


def one(session: Session, job_id: int, want: Want) -> JobRow:
    """Return a job that the store has; it may have no lineage."""
    (row,) = jobs_of_ids(session, [job_id], want)
    return row


def jobs_of_ids(session: Session, job_ids: Sequence[int], want: Want) -> list[JobRow]:
    """Return jobs that the store has in the order of these ids; they may have no lineage."""
    return _of_ids(session, job_ids, want, _paths(session), every=True)


def newest(
    session: Session,
    base_dir_ids: Sequence[int] | None,
    *,
    state: str | None = None,
    outcome: str | None = None,
    train_ids: Collection[str] | None = None,
    with_samples: bool = False,
    after: str | None = None,
    page: Page = UNPAGED,
) -> list[JobRow]:
    """Return a page of the jobs of some base dirs (None: of all), most recently updated first, then by id.

    A page behind a cursor takes the same time, however many jobs come before it.

    Args:
        train_ids: stored ids of the jobs to choose from; None: all.
        after: only jobs behind the job with this cursor. Raises LineageParamValueError when it is none.
    """
    want = Want(own=True)
    query = _of_base_dirs(select_jobs(want), base_dir_ids)
    if state is not None:
        query = query.where(train_job.c.state == state)
    if outcome is not None:
        query = query.where(train_job.c.outcome == outcome)
    if train_ids is not None:
        query = query.where(_OF_ANY, among(session, train_job.c.train_id, train_ids))
    if with_samples:
        query = query.where(exists().where(series.c.job_id == train_job.c.id))
    if after is not None:
        query = query.where(_behind(_place_of(after)))
    ordered = query.order_by(train_job.c.update_time.desc(), train_job.c.train_id, train_job.c.base_dir_id)
    # Base dirs are few, and read apart: in a join, SQLite would begin with them and sort all their jobs.
    paths, rows = _paths(session), session.rows(page.of(ordered))
    return _read(session, [tuple(row) for row in rows], want, paths).rows()


def count_jobs(session: Session, base_dir_ids: Sequence[int] | None) -> int:
    """Return the number of jobs in some base dirs (None: in all)."""
    counted = _of_base_dirs(select(func.count()).select_from(train_job), base_dir_ids)
    return session.value(counted)


_OF_ANY = train_job.c.base_dir_id.in_(select(base_dir.c.id))
"""Always true. The index on train ids begins with the base dir, so a query needs it to use the index."""


def _of_base_dirs(query: S, base_dir_ids: Sequence[int] | None) -> S:
    """Restrict a query to jobs of these base dirs (None: of all), without base dirs that are being removed."""
    query = query.where(train_job.c.base_dir_id.not_in(LEAVING))
    return query if base_dir_ids is None else query.where(train_job.c.base_dir_id.in_(base_dir_ids))


class _Place(NamedTuple):
    """The place of a job among jobs that are ordered by update time, the newest first, then by id."""

    update_time: int
    train_id: str
    """As the store has it."""
    base_dir_id: int


def _place_of(cursor: str) -> _Place:
    """Return the place of a cursor, which SQL can compare. Raises LineageParamValueError when it is no cursor."""
    try:
        place = _Place(*json.loads(base64.urlsafe_b64decode(cursor)))
        is_key = is_integer(place.base_dir_id, bits=32)
        if not (is_integer(place.update_time) and is_text(place.train_id) and is_key):
            raise TypeError
    except (ValueError, TypeError, RecursionError) as error:
        raise LineageParamValueError(
            f"after = {shown(cursor)} is no cursor of a list of jobs.",
            hint="Give the cursor of the last job of the page before as it was.",
        ) from error
    return place


def _behind(place: _Place) -> ColumnElement[bool]:
    """Return the condition for jobs behind a place."""
    time, name, base = train_job.c.update_time, train_job.c.train_id, train_job.c.base_dir_id
    tie = or_(name > place.train_id, and_(name == place.train_id, base > place.base_dir_id))
    return and_(time <= place.update_time, or_(time < place.update_time, tie))


def _page_rows(
    session: Session, condition: SearchCondition, chosen: ChosenStatements
) -> list[tuple[Any, ...]]:
    """Return the rows of the page's jobs, in order."""
    assert condition.page is not None
    take, skip = condition.page
    found: list[tuple[Any, ...]] = []
    if chosen.counted is not None and skip >= chosen.counted:
        return found
    for part in chosen.ranges:
        found += session.rows(Query(part.page), **condition.values, take=take - len(found), skip=skip)
        if len(found) == take:
            break
        if found:
            skip = 0
        elif skip:
            skip -= _number(session, part.count, condition)
    return found


def _count_by_page(condition: SearchCondition, shown: int) -> int | None:
    """Return the number of matching jobs if it follows from the page: the last one, or no page at all."""
    if condition.page is None:
        return shown
    take, skip = condition.page
    return skip + shown if 0 < shown < take or skip + shown == 0 else None


def _number(session: Session, statement: Select[Any], condition: SearchCondition) -> int:
    return int(session.value(Query(statement), **condition.values))


# ---- Rows of the statements become columns: fast, because a function converts a whole column


def _of_ids(
    session: Session, ids: Sequence[int], want: Want, paths: Mapping[int, str], *, every: bool = False
) -> list[JobRow]:
    """Return jobs in the order of their ids, without those that no longer exist; `every`: those without lineage too."""
    dialect, found = session.kind, list[JobRow]()
    statement = compile_rows(dialect, _joined(want), every=every)
    for start in range(0, len(ids), _ROWS_AT_ONCE):
        part = ids[start : start + _ROWS_AT_ONCE]
        by_id = {row[0]: row for row in session.rows(Query(statement), wanted=listed(dialect, part))}
        rows = [by_id[job_id] for job_id in part if job_id in by_id]
        found += _read(session, rows, want, paths).rows()
    return found


def _joined(want: Want) -> Want:
    """Return what one statement reads of the jobs."""
    return replace(want, names=want.names[:_MOST_JOINED]) if len(want.names) > _MOST_JOINED else want


def _read(session: Session, rows: Sequence[tuple[Any, ...]], want: Want, paths: Mapping[int, str]) -> Columns:
    """Return what the rows of a statement for `_joined(want)` say, and what else is wanted of their jobs."""
    given: Iterator[Sequence[Any]] = zip(*rows, strict=True) if rows else repeat(())
    job_ids, base_dirs, train_ids = next(given), next(given), next(given)
    decoded_paths = {number: from_stored(path) for number, path in paths.items()}
    found: dict[str, Any] = {
        "job_id": job_ids,
        "base_dir_id": base_dirs,
        "base_dir": [decoded_paths[number] for number in base_dirs],
        "train_id": list(map(from_stored, train_ids)),
    }
    if want.notes:
        found |= {"label": list(next(given)), "remark": list(next(given))}
    if want.own:
        found |= _own(given)
    if want.lineage:
        found["model_lineage"] = _parsed(next(given), "null")
    if want.dataset:
        found["dataset_graph"] = _parsed(next(given), "{}")
    values = {name: _decoded(subject, given) for name, subject in want.names[:_MOST_JOINED]}
    for start in range(_MOST_JOINED, len(want.names), _MOST_JOINED):
        more = want.names[start : start + _MOST_JOINED]
        values |= _more(session, job_ids, more)
    return Columns(**found, values=values)


def _more(
    session: Session, job_ids: Sequence[int], names: tuple[tuple[str, Subject], ...]
) -> dict[str, list[Any]]:
    """Return further values of these jobs, by name."""
    dialect = session.kind
    statement = compile_rows(dialect, Want(notes=False, names=names), every=True)
    by_id = {row[0]: row for row in session.rows(Query(statement), wanted=listed(dialect, job_ids))}
    given: Iterator[Any] = zip(*map(by_id.__getitem__, job_ids), strict=True) if job_ids else repeat(())
    _job = next(given), next(given), next(given)
    return {name: _decoded(subject, given) for name, subject in names}


def _own(given: Iterator[Sequence[Any]]) -> dict[str, list[Any]]:
    """Take the columns `OWN` and return them by the names of `JobRow`."""
    states, outcomes, present, hosts, log_bytes, updated, *times = (next(given) for _ in range(9))
    first, last, event = (list(map(instant, each)) for each in times)
    return {
        "state": list(states),
        "outcome": list(outcomes),
        "source_present": list(map(bool, present)),
        "host": [host and from_stored(host) for host in hosts],
        "log_bytes": list(log_bytes),
        "update_time": list(updated),
        "updated_at": [instant(seconds) or from_unix(seconds) for seconds in updated],
        "first_started_at": first,
        "last_started_at": last,
        "last_event_at": event,
    }


def _parsed(documents: Sequence[str | None], missing: str) -> list[Any]:
    # parsing one document is faster than parsing many small ones
    return list(json.loads(f"[{','.join([each or missing for each in documents])}]"))


def _decoded(subject: Subject, given: Iterator[Sequence[Any]]) -> list[Any]:
    """Take the columns of a subject and return its values."""
    if subject.type in NAMED:
        columns = next(given), next(given), next(given)
        return [
            None if kind is None else value_of(kind, number, text)
            for kind, number, text in zip(*columns, strict=True)
        ]
    values = next(given)
    if subject.type == "float":
        return [NUMBER_BY_KIND.get(kind, value) for value, kind in zip(values, next(given), strict=True)]
    if subject.type == "text" and table_of(subject) != "annotation":
        return [value and from_stored(value) for value in values]
    return list(map(instant, values)) if subject.type == "time" else list(values)


def value_of(kind: str, value: float | None, text: str | None) -> Any:
    """Return a metric or user-defined value from the columns in which the store keeps it."""
    match kind:
        case "text":
            return from_stored(text or "")
        case "json":
            return json.loads(text or "null")
        case "bool":
            return bool(value)
        case "int":
            return int(value or 0)
        case _:
            return NUMBER_BY_KIND.get(kind, value)


# ---- Which base dirs a question is about


class _Scope(NamedTuple):
    """The base dirs asked for."""

    base_dirs: BaseDirs
    """Their ids; None for all base dirs of the store, as is usual: statements then need not look at them."""
    paths: Mapping[int, str]
    """Their stored paths by id."""


def _scope_of(session: Session, base_dir_ids: Sequence[int] | None) -> _Scope:
    """Return the scope of base dirs (None: all), without those that have no jobs or are being removed."""
    rows = session.rows(_BASE_DIRS)
    # One question per base dir: with one for all, PostgreSQL may read the jobs of all. If there is only one base dir,
    # it makes no difference whether it has jobs.
    of_jobs = [
        (key, path, leaving)
        for key, path, leaving in rows
        if len(rows) == 1 or leaving or session.rows(Query(FIRST_JOB), asked=key) != [(None,)]
    ]
    asked = {
        key: path
        for key, path, leaving in of_jobs
        if not leaving and (base_dir_ids is None or key in base_dir_ids)
    }
    return _Scope(None if len(asked) == len(of_jobs) else tuple(asked), asked)


def _paths(session: Session) -> dict[int, str]:
    """Return the stored paths of all base dirs by id."""
    return {key: path for key, path, _ in session.rows(_BASE_DIRS)}


_BASE_DIRS = Query(select(base_dir.c.id, base_dir.c.path, base_dir.c.leaving))


# ---- How the database would answer: each statement with its parameters and the database's plan
# It shows the statements that `choose` chooses for this question, and runs none of them except those that the choice
# needs.


@dataclass(frozen=True, slots=True)
class ExplainedStatement:
    """One statement. If its text does not name the parameters, they are in the order of the text."""

    purpose: str
    """What the statement finds, and when it is run."""
    sql: str
    parameters: tuple[tuple[str, Any], ...]
    plan: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The statements that answer a question, in the order of execution."""

    dialect: str
    statements: tuple[ExplainedStatement, ...]
    names: Mapping[int, str]
    """Names of metrics and user-defined values by the key that SQL has for each."""

    def __str__(self) -> str:
        return "\n\n".join(map(self._text_of, self.statements))

    def _text_of(self, statement: ExplainedStatement) -> str:
        parameters = "\n".join(f"  {name} = {self._shown(value)}" for name, value in statement.parameters)
        text = f"-- {statement.purpose}\n{statement.sql}\n\nParameters:\n{parameters}"
        return f"{text}\n\nPlan ({self.dialect}):\n{statement.plan}"

    def _shown(self, value: object) -> str:
        if isinstance(value, int) and value in self.names:
            return f"{value!r} (the key of {self.names[value]!r})"
        return repr(value)


def explain(
    session: Session,
    condition: SearchCondition,
    want: Want,
    base_dir_ids: Sequence[int] | None,
    *,
    count: bool = True,
) -> Explanation:
    """Return the statements by which `page` answers, with or without its count, and the plan of each."""
    base_dirs = _scope_of(session, base_dir_ids).base_dirs
    chosen = choose(session, condition, base_dirs, _joined(want), count=count)
    given = condition.page._asdict() if condition.page else {}
    explained = tuple(
        _explained(session, purpose, statement, {**condition.values, **given})
        for purpose, statement in _statements(chosen)
    )
    names = {texts.key(each.name): texts.from_stored(each.name) for each in names_asked(condition)}
    return Explanation(session.kind, explained, names)


def database_plan(session: Session, select: Select[Any], **given: object) -> str:
    """Return the database's plan of a statement, one step per line, without running the statement."""
    sqlite, statement = session.kind == "sqlite", statement_of(select, session.connection.dialect)
    verb = "EXPLAIN QUERY PLAN" if sqlite else "EXPLAIN"
    rows = session.rows(f"{verb} {statement.text}", statement.arguments(given))
    return "\n".join(_sqlite_plan(rows) if sqlite else [str(row[0]) for row in rows])


def _statements(chosen: ChosenStatements) -> Iterator[tuple[str, Select[Any]]]:
    """Yield the statements in the order of execution, each with its purpose."""
    if chosen.everything is not None:
        yield "All that match", chosen.everything
    first = chosen.counted is not None
    if chosen.count is not None and first:
        yield "The count, which is asked first: the page depends on it", chosen.count
    parts = len(chosen.ranges)
    for number, part in enumerate(chosen.ranges, 1):
        of_several = f", part {number} of {parts} of the order" if parts > 1 else ""
        yield f"The page{of_several}{', unless it is full before' if number > 1 else ''}", part.page
    if chosen.count is not None and not first:
        yield "The count, unless the page is the last, which shows it", chosen.count


def _explained(
    session: Session, purpose: str, select: Select[Any], given: Mapping[str, Any]
) -> ExplainedStatement:
    statement = statement_of(select, session.connection.dialect)
    values = {**statement.values, **{name: given[name] for name in given if name in statement.values}}
    parameters = tuple((name, values[name]) for name in statement.places or statement.values)
    return ExplainedStatement(purpose, statement.text, parameters, database_plan(session, select, **values))


def _sqlite_plan(rows: Sequence[Any]) -> list[str]:
    """Indent each step below its parent."""
    depth = {0: 0}
    lines = []
    for step, parent, _unused, detail in rows:
        depth[step] = depth[parent] + 1
        lines.append(f"{'  ' * depth[parent]}{detail}")
    return lines
