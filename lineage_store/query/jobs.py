"""The train jobs that the store knows, a frozen row each.

In: an open read transaction, a page or a cursor. Out: TrainJob, newest first. Promises: a page behind a cursor takes
the same time, however many jobs come before it. Does not read lineage (`search` does).
"""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from itertools import starmap
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, and_, bindparam, exists, func, or_, select

from lineage_store import texts
from lineage_store.errors import LineageParamValueError, TrainJobNotFoundError
from lineage_store.plain_values import NUMBER_BY_KIND, from_unix, instant, is_integer, is_text
from lineage_store.query.condition import NAMED, SearchCondition, Subject, named_by
from lineage_store.query.job_sql import (
    VALUED,
    BaseDirs,
    Found,
    Plan,
    choose,
    compile_all,
    compile_columns,
    compile_rows,
    field_column,
    kind_column,
    name_key,
    table_of,
)
from lineage_store.query.mindinsight_shapes import to_answer, to_object
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import UNPAGED, Page
from lineage_store.store.database.session import Query, Session, among, statement_of
from lineage_store.store.database.sql import listed, one_of
from lineage_store.store.opened import asked_again
from lineage_store.store.schema.tables import annotation, base_dir, series, train_job
from lineage_store.texts import from_stored, shown

S = TypeVar("S", bound=Select[Any])


@dataclass(frozen=True, slots=True)
class TrainJob:
    """A train job: a directory of log files."""

    base_dir: str
    train_id: str
    """`./name` below the base dir."""
    state: str
    """reading, live, stalled, finished or missing."""
    outcome: str | None
    """completed, failed or interrupted; None while it is live, or when it is unknown."""
    source_present: bool
    """Whether its log files are still on disk."""
    host: str | None
    updated_at: datetime
    """Greatest modification time of its log files, UTC, to the second."""
    first_started_at: datetime | None
    """Least timestamp in the names of its log files; None if unknown, or beyond the year 9999."""
    last_started_at: datetime | None
    """Greatest timestamp in the names of its log files."""
    last_event_at: datetime | None
    """Greatest wall time of its events."""
    log_bytes: int
    cursor: str
    """The place of this job in the list: pass it as `after` to get the jobs behind it."""

    @property
    def path(self) -> PurePath:
        """The job's directory."""
        return PurePath(self.base_dir, self.train_id)


def train_jobs(
    session: Session,
    base_dir_ids: Sequence[int] | None,
    *,
    state: str | None = None,
    outcome: str | None = None,
    train_ids: Collection[str] | None = None,
    with_samples: bool = False,
    after: str | None = None,
    page: Page = UNPAGED,
) -> list[TrainJob]:
    """Return a page of the jobs of some base dirs (None: of all), most recently updated first, then by id.

    `train_ids`: stored ids of the jobs to choose from; None: all. `after`: only jobs behind the job with this cursor.
    """
    query = _of_base_dirs(_JOBS, base_dir_ids)
    if state is not None:
        query = query.where(train_job.c.state == state)
    if outcome is not None:
        query = query.where(train_job.c.outcome == outcome)
    if train_ids is not None:
        query = query.where(_OF_ANY, among(session, train_job.c.train_id, train_ids))
    if with_samples:
        query = query.where(exists().where(series.c.job_id == train_job.c.id))
    if after is not None:
        query = query.where(_behind(decode(after)))
    ordered = query.order_by(train_job.c.update_time.desc(), train_job.c.train_id, train_job.c.base_dir_id)
    return _jobs_of(session, session.rows(page.of(ordered)))


def _behind(place: Place) -> ColumnElement[bool]:
    """Return the condition for jobs behind a place."""
    time, name, base = train_job.c.update_time, train_job.c.train_id, train_job.c.base_dir_id
    tie = or_(name > place.train_id, and_(name == place.train_id, base > place.base_dir_id))
    return and_(time <= place.update_time, or_(time < place.update_time, tie))


def no_such_job(train_id: str, base_dir: PurePath | str) -> TrainJobNotFoundError:
    """Return the error for a job that the store does not know."""
    return TrainJobNotFoundError(
        f"The store knows no train job {train_id!r} below {base_dir}.",
        hint="Ids look like ./name: `lineage-store jobs` lists them, `why PATH` tells why one is missing.",
    )


def count_jobs(session: Session, base_dir_ids: Sequence[int] | None) -> int:
    """Return the number of jobs in some base dirs (None: in all)."""
    counted = _of_base_dirs(select(func.count()).select_from(train_job), base_dir_ids)
    return session.value(counted)


def _of_base_dirs(query: S, base_dir_ids: Sequence[int] | None) -> S:
    """Restrict a query to jobs of these base dirs (None: of all), without base dirs that are being removed."""
    query = query.where(train_job.c.base_dir_id.not_in(_LEAVING))
    return query if base_dir_ids is None else query.where(train_job.c.base_dir_id.in_(base_dir_ids))


def named_jobs(session: Session, train_ids: Iterable[str]) -> list[TrainJob]:
    """Return the jobs of all base dirs that have one of these ids (stored), in no order."""
    dialect = session.kind
    return _jobs_of(session, session.rows(Query(_named(dialect)), wanted=listed(dialect, train_ids)))


_OF_ANY = train_job.c.base_dir_id.in_(select(base_dir.c.id))
"""Always true. The index on train ids begins with the base dir, so a query needs it to use the index."""
_LEAVING = select(base_dir.c.id).where(base_dir.c.leaving)
_SHOWN = ("train_id", "state", "outcome", "source_present", "host", "log_bytes", "base_dir_id")
_TIMES = ("update_time", "first_file_time", "last_file_time", "last_wall_time")
_JOBS: Select[Any] = select(*(train_job.c[name] for name in (*_SHOWN, *_TIMES)))


@cache
def _named(dialect_name: str) -> Select[Any]:
    wanted = one_of(dialect_name, train_job.c.train_id, bindparam("wanted"))
    return _of_base_dirs(_JOBS, None).where(_OF_ANY, wanted)


def _jobs_of(session: Session, rows: Iterable[Sequence[Any]]) -> list[TrainJob]:
    # Base dirs are few, and read apart: in a join, SQLite would begin with them and sort all their jobs.
    paths = {key: path for key, path, _ in session.rows(Query(BASE_DIRS))}
    return [_train_job(paths, row) for row in rows]


def _train_job(paths: Mapping[int, str], row: Sequence[Any]) -> TrainJob:
    train_id, state, outcome, source_present, host, log_bytes, base_dir_id, update_time, *times = row
    updated_at = instant(update_time) or datetime.max.replace(tzinfo=UTC)
    first_started_at, last_started_at, last_event_at = map(instant, times)
    return TrainJob(
        from_stored(paths[base_dir_id]),
        from_stored(train_id),
        state,
        outcome,
        bool(source_present),
        host,
        updated_at,
        first_started_at,
        last_started_at,
        last_event_at,
        log_bytes,
        encode(Place(update_time, train_id, base_dir_id)),
    )


# ---- The lineage of the jobs that match a condition
# In: an open read transaction and a checked condition. Out: plain dicts in MindInsight's shapes. Promises: page and
# count come from one snapshot. Does not know how lineage gets into the store, nor whether it is up to date; `chooser`
# chooses the statements, `listing` iterates over all matches.


_ROWS_AT_ONCE = 500


def filter_lineage(
    session: Session,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    *,
    count: bool = True,
) -> dict[str, Any]:
    """Return the page that the condition asks for, and the number of matching jobs.

    Args:
        base_dir_ids: None means all base dirs. When the answer covers several, each object names its base dir.
        count: False leaves the number None unless it follows from the page itself.
    """
    scope = scope_of(session, base_dir_ids)
    plan = choose(session, condition, scope.base_dirs, count=count)
    rows = _rows(session, condition, plan)
    found = _count_by_page(condition, len(rows)) if plan.counted is None else plan.counted
    if found is None and plan.count is not None:
        found = _number(session, plan.count, condition)
    return to_answer(rows, found, condition, scope.labels)


def rows_of_jobs(session: Session, job_ids: Sequence[int], condition: SearchCondition) -> list[Found]:
    """Return what is shown of jobs, in the order of `job_ids`, without jobs that no longer exist."""
    statement, found = compile_rows(condition.shows_dataset), list[Found]()
    for start in range(0, len(job_ids), _ROWS_AT_ONCE):
        wanted = list(job_ids[start : start + _ROWS_AT_ONCE])
        rows = session.rows(statement, {"job_ids": wanted})
        by_id = {row.job_id: Found(*row) for row in rows}
        found += [by_id[job_id] for job_id in wanted if job_id in by_id]
    return found


def _rows(session: Session, condition: SearchCondition, plan: Plan) -> list[Found]:
    """Return what is shown of the page's jobs, in order; without a page, of all matching jobs."""
    if plan.everything is not None:
        ids = session.column(plan.everything, condition.values)
        return rows_of_jobs(session, ids, condition)
    assert condition.page is not None
    take, skip = condition.page
    found: list[Found] = []
    if plan.counted is not None and skip >= plan.counted:
        return found
    for part in plan.ranges:
        rows = session.rows(Query(part.page), **condition.values, take=take - len(found), skip=skip)
        found += starmap(Found, rows)
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
    ((counted,),) = session.rows(Query(statement), **condition.values)
    return int(counted)


# ---- All matching jobs, in order, as an iterator that the caller may consume as slowly as needed
# In: a function that begins a read transaction, a checked condition. Out: an iterator of dicts in MindInsight's
# shape. Promises: no transaction is open while the caller works; otherwise PostgreSQL would end it, and SQLite's
# write-ahead log would grow. Which jobs match, and their order, is fixed at the beginning. The data of a job is from
# the moment when its part is read; a job that was removed by then is left out. Memory: sixteen bytes per job, and the
# data of one part.


_Reading = Callable[[], AbstractContextManager[Session]]
_LISTED_AT_ONCE, JOBS_AT_ONCE = 10_000, 500


class _Listed(NamedTuple):
    """Jobs in order."""

    job_ids: array[int]
    names: array[int]
    """Hashes of base dir and train id, because SQLite may give the id of a removed job to a new one."""


def iter_lineage(
    reading: _Reading,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    *,
    jobs_at_once: int = JOBS_AT_ONCE,
) -> Iterator[dict[str, Any]]:
    """Yield every matching job, ignoring the condition's page; `jobs_at_once` jobs are read in one transaction."""
    scope, listed = _listed(reading, condition, base_dir_ids)
    for start in range(0, len(listed.job_ids), jobs_at_once):
        part = _Listed(*(column[start : start + jobs_at_once] for column in listed))
        rows = _listed_rows(reading, part.job_ids, condition)
        names = dict(zip(*part, strict=True))
        for row in rows:
            if names[row.job_id] == hash((row.base_dir_id, row.train_id)):
                yield to_object(row, json.loads(row.model_lineage), condition, scope.labels)


@asked_again
def _listed(
    reading: _Reading, condition: SearchCondition, base_dir_ids: Sequence[int] | None
) -> tuple[Scope, _Listed]:
    listed = _Listed(array("q"), array("q"))
    with reading() as session:
        scope = scope_of(session, base_dir_ids)
        statement = compile_all(condition.where, condition.sort, scope.base_dirs, names=True)
        for rows in session.stream(statement, _LISTED_AT_ONCE, condition.values):
            listed.job_ids.extend(row[0] for row in rows)
            listed.names.extend(hash((row[1], row[2])) for row in rows)
    return scope, listed


@asked_again
def _listed_rows(reading: _Reading, job_ids: Sequence[int], condition: SearchCondition) -> Sequence[Found]:
    with reading() as session:
        return rows_of_jobs(session, job_ids, condition)


# ---- Matching jobs as columns, for tables and plots of very many jobs
# In: an open read transaction, a checked condition, subjects. Out: a list of values for each column, all in the order
# of the jobs. Promises: one snapshot; the JSON of jobs is not read, which would take ten times as long; named values
# are looked up only for matching jobs. NaN and infinities are floats, not words.


_COLUMNS_SHOWN = ("base_dir_id", "train_id", "state", "outcome", "host")
_ABOUT = tuple(train_job.c[name] for name in (*_COLUMNS_SHOWN, *_TIMES))
_EVERY_JOB = 2**31 - 1
"""More than there can be: ids have 31 bits."""
_ANNOTATED = Query(select(*(annotation.c[name] for name in ("base_dir_id", "train_id", "tag", "remark"))))


@dataclass(frozen=True, slots=True)
class JobColumns:
    """Columns of the matching jobs, each with an item per job: their own data, and the values asked for."""

    base_dir: list[str]
    train_id: list[str]
    state: list[str]
    outcome: list[str | None]
    host: list[str | None]
    updated_at: list[datetime]
    first_started_at: list[datetime | None]
    last_started_at: list[datetime | None]
    last_event_at: list[datetime | None]
    label: list[int | None]
    remark: list[str | None]
    values: Mapping[str, list[Any]]
    """Lists of values by name, in the order asked for; None is unknown."""

    def by_job(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the values by (base dir, train id), then by name."""
        jobs = zip(self.base_dir, self.train_id, strict=True)
        return {job: {name: each[row] for name, each in self.values.items()} for row, job in enumerate(jobs)}


def job_columns(
    session: Session,
    condition: SearchCondition,
    base_dir_ids: Sequence[int] | None,
    asked: Mapping[str, Subject],
    most: int | None,
    *,
    every: bool = False,
) -> JobColumns:
    """Return the first `most` matching jobs (None: all), with a column of values for each subject in `asked`.

    The condition's page is ignored. `every`: also jobs without lineage, unless the condition has an order.
    """
    scope = scope_of(session, base_dir_ids)
    fields = [each for each in asked.values() if each.type not in NAMED and table_of(each) != "annotation"]
    columns = (*_ABOUT, *(column for field in fields for column in _columns_of(field)))
    statement = compile_columns(condition.where, condition.sort, scope.base_dirs, columns, every=every)
    limit = _EVERY_JOB if most is None else min(most, _EVERY_JOB)
    rows = session.rows(Query(statement), **condition.values, most=limit)
    found = list(zip(*rows, strict=True)) or [()] * (1 + len(columns))
    ids, base_dirs, train_ids, states, outcomes, hosts, updated, first, last, event, *values = found
    next_values = iter(values)
    of_fields = {subject: _decoded(subject, next_values) for subject in fields}
    named = {
        subject: _named_column(session, subject, ids) for subject in asked.values() if subject.type in NAMED
    }
    said = {(base, name): (tag, remark) for base, name, tag, remark in session.rows(_ANNOTATED)}
    annotations = [said.get(job, (None, None)) for job in zip(base_dirs, train_ids, strict=True)]
    labels, remarks = ([each[place] for each in annotations] for place in (0, 1))
    known = {Subject("integer", "tag"): labels, Subject("text", "remark"): remarks, **of_fields, **named}
    paths = {number: from_stored(path) for number, path in scope.paths.items()}
    return JobColumns(
        [paths[number] for number in base_dirs],
        list(map(from_stored, train_ids)),
        list(states),
        list(outcomes),
        [host and from_stored(host) for host in hosts],
        list(map(from_unix, updated)),
        list(map(instant, first)),
        list(map(instant, last)),
        list(map(instant, event)),
        labels,
        remarks,
        {name: known[subject] for name, subject in asked.items()},
    )


def _columns_of(field: Subject) -> list[ColumnElement[Any]]:
    column = field_column(field)
    return [column, kind_column(field)] if field.type == "float" else [column]


def _decoded(subject: Subject, columns: Any) -> list[Any]:
    """Take the next column from `columns` (for a float field two: value and kind) and decode its values."""
    values = next(columns)
    if subject.type == "float":
        kinds = next(columns)
        return [NUMBER_BY_KIND.get(kind, value) for value, kind in zip(values, kinds, strict=True)]
    if subject.type == "text":
        return [value and from_stored(value) for value in values]
    if subject.type == "time":
        return list(map(instant, values))
    return list(values)


def _named_column(session: Session, subject: Subject, ids: Sequence[int]) -> list[Any]:
    """Return a metric or user-defined value of each of the jobs."""
    dialect = session.kind
    wanted = {"wanted": listed(dialect, ids), "name_key": name_key(subject)}
    rows = session.rows(Query(_values_of_jobs(dialect, subject.type)), **wanted)
    found = {job: decoded(kind, value, text) for job, kind, value, text in rows}
    return [found.get(job) for job in ids]


@lru_cache
def _values_of_jobs(dialect_name: str, kind: str) -> Select[Any]:
    table = VALUED[kind]
    of_jobs = one_of(dialect_name, table.c.job_id, bindparam("wanted"))
    values = select(table.c.job_id, table.c.kind, table.c.value, table.c.text)
    return values.where(of_jobs, table.c.name_key == bindparam("name_key"))


def decoded(kind: str, value: float | None, text: str | None) -> Any:
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
# In: an open connection and the ids of the base dirs asked for. Out: a `Scope`. If all base dirs of the store are
# asked for, as is usual, the scope restricts nothing: statements then need not look at the base dirs of jobs.


BASE_DIRS = select(base_dir.c.id, base_dir.c.path, base_dir.c.leaving)


@dataclass(frozen=True, slots=True)
class Scope:
    """The base dirs asked for."""

    base_dirs: BaseDirs
    """Their ids; None for all base dirs of the store."""
    paths: dict[int, str]
    """Their stored paths by id."""

    @property
    def labels(self) -> dict[int, str]:
        """The paths by id if there are several, so that a job's id alone is ambiguous; otherwise empty."""
        return self.paths if len(self.paths) > 1 else {}


def scope_of(session: Session, base_dir_ids: Sequence[int] | None) -> Scope:
    """Return the scope of base dirs (None: all), without those that have no jobs or are being removed."""
    rows = session.rows(Query(BASE_DIRS))
    # One question per base dir: with one for all, PostgreSQL may read the jobs of all, and Citus refuses a correlated
    # subquery. If there is only one base dir, it makes no difference whether it has jobs.
    of_jobs = [
        (key, path, leaving)
        for key, path, leaving in rows
        if len(rows) == 1 or leaving or registry.has_jobs(session, key)
    ]
    asked = {
        key: path
        for key, path, leaving in of_jobs
        if not leaving and (base_dir_ids is None or key in base_dir_ids)
    }
    return Scope(None if len(asked) == len(of_jobs) else tuple(asked), asked)


# ---- The cursor of a list of jobs: the place of one job in it, encoded as a token
# In: a place, or a token. Out: a token, which is text that fits into a URL, or its place. Promises: every place that
# is returned can be compared in SQL; text that is no token raises LineageParamValueError. Pure.


_KEY_BITS = 32
"""The size of the key of a base dir."""


class Place(NamedTuple):
    """The place of a job among jobs that are ordered by update time, the newest first, then by id."""

    update_time: int
    train_id: str
    """As the store has it."""
    base_dir_id: int


def encode(place: Place) -> str:
    """Return the token of a place."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode()


def decode(token: str) -> Place:
    """Return the place of a token. Raises LineageParamValueError when it is no token."""
    try:
        place = Place(*json.loads(base64.urlsafe_b64decode(token)))
        is_key = is_integer(place.base_dir_id, bits=_KEY_BITS)
        if not (is_integer(place.update_time) and is_text(place.train_id) and is_key):
            raise TypeError
    except (ValueError, TypeError, RecursionError) as error:
        raise LineageParamValueError(
            f"after = {shown(token)} is no cursor of a list of jobs.",
            hint="Give the cursor of the last job of the page before as it was.",
        ) from error
    return place


# ---- How the database would answer: each statement with its parameters and the database's plan
# In: a condition and an open connection. Out: an `Explanation`, readable as text. Promises: it shows the statements
# that `chooser` chooses for this question, and runs none of them except those that the chooser needs for its choice.


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
    base_dir_ids: Sequence[int] | None,
    *,
    count: bool = True,
) -> Explanation:
    """Return the statements that answer the question, with or without its count, and the plan of each."""
    base_dirs = scope_of(session, base_dir_ids).base_dirs
    chosen = choose(session, condition, base_dirs, count=count)
    given = condition.page._asdict() if condition.page else {}
    explained = tuple(
        _explained(session, purpose, statement, {**condition.values, **given})
        for purpose, statement in _statements(chosen)
    )
    names = {texts.key(each.name): texts.from_stored(each.name) for each in named_by(condition)}
    return Explanation(session.kind, explained, names)


def plan_of(session: Session, select: Select[Any], **given: object) -> str:
    """Return the database's plan of a statement, one step per line, without running the statement."""
    sqlite, statement = session.kind == "sqlite", statement_of(select, session.connection.dialect)
    verb = "EXPLAIN QUERY PLAN" if sqlite else "EXPLAIN"
    rows = session.rows(f"{verb} {statement.text}", statement.arguments(given))
    return "\n".join(_sqlite_plan(rows) if sqlite else [str(row[0]) for row in rows])


def _statements(chosen: Plan) -> Iterator[tuple[str, Select[Any]]]:
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
        yield "The count, unless the page is the last and tells it", chosen.count


def _explained(
    session: Session, purpose: str, select: Select[Any], given: Mapping[str, Any]
) -> ExplainedStatement:
    statement = statement_of(select, session.connection.dialect)
    values = {**statement.values, **{name: given[name] for name in given if name in statement.values}}
    parameters = tuple((name, values[name]) for name in statement.places or statement.values)
    return ExplainedStatement(purpose, statement.text, parameters, plan_of(session, select, **values))


def _sqlite_plan(rows: Sequence[Any]) -> list[str]:
    """Indent each step below its parent."""
    depth = {0: 0}
    lines = []
    for step, parent, _unused, detail in rows:
        depth[step] = depth[parent] + 1
        lines.append(f"{'  ' * depth[parent]}{detail}")
    return lines
