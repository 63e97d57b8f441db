"""A condition becomes SQL: which jobs match and in which order, how many, and what is wanted of them.

In: the parts of a frozen `SearchCondition`, the ids of base dirs, a `Want`. Out: SQLAlchemy `Select`s, the same
expressions for SQLite and PostgreSQL; `choose` says which of them answer a question fastest. Promises: every value is a
parameter, never part of the SQL text; statements are made without a connection, and cached. They search and sort narrow
rows; wide rows are read only of the jobs that are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    FromClause,
    Integer,
    Select,
    Table,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
    type_coerce,
)
from sqlalchemy.sql.visitors import replacement_traverse

from lineage_store import texts
from lineage_store.fields import BY_NAME
from lineage_store.fields import Table as FieldTable
from lineage_store.query.condition import (
    NAMED,
    AllOf,
    AnyOf,
    Leaf,
    Node,
    Not,
    Operand,
    SearchCondition,
    SortKey,
    Subject,
    SubjectType,
    mentions,
    subjects,
)
from lineage_store.query.condition_dict import DEFAULT_LIMIT
from lineage_store.store.database.sql import Query, Session, one_of, prefix
from lineage_store.store.schema.tables import (
    ANNOTATED,
    annotation,
    base_dir,
    dataset_graph,
    lineage,
    metric,
    metric_summary,
    train_job,
    user_info,
)

# ---- A tree becomes a predicate about one row of `lineage`
# Unknown counts as false. A comparison is unknown when a value is missing; `and`, `or` and WHERE treat that like false,
# and every negation is written `IS NOT true`. So comparisons need no wrapping, and indexes can answer them.


VALUED: dict[str, Table] = {"metric": metric, "metric_summary": metric_summary, "user_defined": user_info}
"""The tables of named values by the subject's type."""

_TABLES: dict[FieldTable, Table] = {"lineage": lineage, "train_job": train_job, "annotation": annotation}

Joined = Mapping[Subject, FromClause]
"""The rows of named values that the statement has inner-joined, by subject."""


def beside_lineage(node: Node) -> bool:
    """Whether the condition compares fields outside of `lineage` and of the tables of named values."""
    return any(table_of(each) != "lineage" for each in subjects(node))


def table_of(subject: Subject) -> FieldTable:
    """Return the table of a field; named values count as lineage."""
    return "lineage" if subject.type in NAMED else BY_NAME[subject.name].table


def holds(node: Node, joined: Joined) -> ColumnElement[bool]:
    """Return the predicate that a job satisfies the condition."""
    match node:
        case Leaf():
            return _leaf(node, joined)
        case Not(part):
            return _negation(holds(part, joined))
        case AllOf(parts):
            return and_(true(), *(holds(part, joined) for part in parts))
        case AnyOf(parts):
            return or_(false(), *(holds(part, joined) for part in parts))


def _negation(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return a predicate that is true when the given one is false or unknown."""
    return predicate.is_not(true())


def _leaf(leaf: Leaf, joined: Joined) -> ColumnElement[bool]:
    subject, table = leaf.subject, VALUED.get(leaf.subject.type)
    has_row: Callable[[ColumnElement[bool]], ColumnElement[bool]]
    if table is None:
        operand = _field_operand(subject)
        has_row = _is_annotated if table_of(subject) == "annotation" else _in_this_row
    else:
        operand = _valued_operand(joined.get(subject, table))
        has_row = _in_this_row if subject in joined else partial(_has_value, table, subject)
    found = has_row(leaf.operator.holds(operand, leaf.value))
    if leaf.operator.takes_missing(leaf.value):
        found = or_(found, not_(has_row(not_(operand.missing))))
    return _negation(found) if leaf.operator.negated else found


def _in_this_row(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the predicate as it is: the statement has joined the row."""
    return predicate


def _has_value(table: Table, subject: Subject, predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the predicate that the job has a metric or user-defined value that satisfies the comparison."""
    matches = is_named(table, subject), predicate
    found: Select[Any] = select(literal_column("1")).select_from(table).where(*matches)
    return exists(found.correlate(lineage, train_job))


def _is_annotated(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the predicate for a label or remark. Few jobs have one, so a subquery finds the matching jobs first."""
    jobs = select(train_job.c.id).select_from(annotation.join(train_job, ANNOTATED)).where(predicate)
    return train_job.c.id.in_(jobs.correlate(None))


def name_key(subject: Subject) -> int:
    """Return the key by which tables of named values find a subject's rows."""
    return (texts.summary_key if subject.type == "metric_summary" else texts.key)(subject.name)


def is_named(row: FromClause, subject: Subject) -> ColumnElement[bool]:
    """Return the predicate that a row is the job's value of that name."""
    # compares only the key, which is in an index; comparing the name would have to read the row
    return and_(row.c.job_id == lineage.c.job_id, row.c.name_key == name_key(subject))


def _field_operand(subject: Subject) -> Operand:
    column = field_column(subject)
    if subject.type == "text":
        indexed = prefix(column) if column.table is lineage else None
        return Operand(column.is_(None), text=column, prefix=indexed)
    if subject.type in ("integer", "time"):
        # The column of labels is narrower than the numbers with which they are compared.
        return Operand(column.is_(None), number=type_coerce(column, BigInteger))
    kind = kind_column(subject)
    return Operand(kind.is_(None), number=column, kind=kind)


def _valued_operand(row: FromClause) -> Operand:
    kind, text = row.c.kind, row.c.text
    return Operand(
        missing=kind == "null",
        number=row.c.value,
        text=case((kind == "text", text)),
        document=case((kind == "json", text)),
        kind=kind,
    )


def field_column(subject: Subject) -> Column[Any]:
    """Return the column of a field."""
    return _TABLES[table_of(subject)].c[BY_NAME[subject.name].column]


def kind_column(subject: Subject) -> ColumnElement[Any]:
    """Return the column that says whether a float field is finite."""
    return lineage.c[f"{BY_NAME[subject.name].kind_column}"]


# ---- The order of jobs: sort keys become sort ranges, which follow one another and are each sorted on their own
# Every matching job belongs to exactly one sort range. The order is total (ties by update time, newest first, then id),
# so pages neither overlap nor leave a gap.
# Missing values are the smallest, then come NaN, numbers, texts, lists and objects. If the first sort key is a metric
# or user-defined value, the jobs where it is a number form a range of their own, which an index on (name, value)
# delivers in order: the best twenty of a million are read, not sorted.


_SAME_JOB = train_job.c.id == lineage.c.job_id
_ABOVE_NUMBERS = ("text", "json")


@dataclass(frozen=True, slots=True)
class Rank:
    """One term of ORDER BY."""

    by: ColumnElement[Any]
    descending: bool = False
    may_be_missing: bool = True
    """If so, NULLS FIRST or LAST makes missing values the smallest; otherwise an index can deliver the order."""

    def of(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the same term for another column that has the same values."""
        directed = column.desc() if self.descending else column.asc()
        if not self.may_be_missing:
            return directed
        return directed.nulls_last() if self.descending else directed.nulls_first()


NEWEST_FIRST = (
    Rank(train_job.c.update_time, descending=True, may_be_missing=False),
    Rank(train_job.c.train_id, may_be_missing=False),
    Rank(train_job.c.base_dir_id, may_be_missing=False),
)


@dataclass(frozen=True, slots=True)
class SortRange:
    """A part of the order: its jobs come after all jobs of the range before and before all jobs of the next one."""

    joined: FromClause
    """`train_job` and `lineage`, joined with the tables that order and membership need."""
    order: Sequence[Rank]
    belongs: ColumnElement[bool] = field(default_factory=true)
    """The condition for the jobs of this range."""
    values: Joined = field(default_factory=dict)
    """Named values that every job of the range has, and that are already joined."""


def whole(keys: Sequence[SortKey]) -> SortRange:
    """Return the order as one range, which the database has to sort, unless there are no keys."""
    if keys:
        return _ordered(lineage, keys)
    return SortRange(lineage.join(train_job, _SAME_JOB), NEWEST_FIRST)


def _ordered(jobs: FromClause, keys: Sequence[SortKey]) -> SortRange:
    """Return one range of jobs sorted by keys, then newest first.

    `train_job` is only needed for ties. As an outer join it stays out of the planner's search for an order of joins,
    which saves PostgreSQL a fifth of the work, and SQLite looks up only jobs that meet the condition.
    """
    joined: FromClause = jobs.outerjoin(train_job, _SAME_JOB)
    if any(table_of(key.subject) == "annotation" for key in keys):
        joined = joined.outerjoin(annotation, ANNOTATED)
    order: list[Rank] = []
    for number, key in enumerate(keys, 1):
        if key.subject.type in VALUED:
            row = _row(key.subject.type, number)
            joined = joined.outerjoin(row, is_named(row, key.subject))
            ranked = _valued_order(row)
        else:
            ranked = _field_order(key.subject)
        order.extend(Rank(column, key.descending) for column in ranked)
    return SortRange(joined, (*order, *NEWEST_FIRST))


def sort_ranges(keys: Sequence[SortKey], where: Node) -> tuple[SortRange, ...]:
    """Return the order as sort ranges, without ranges in which no job can satisfy `where`."""
    if not keys or keys[0].subject.type not in VALUED:
        return (whole(keys),)
    numbers = _numbers(keys)
    if _requires_number(where, keys[0].subject):
        return (replace(numbers, belongs=true()),)
    below, above = _below_numbers(keys), _above_numbers(keys)
    return (above, numbers, below) if keys[0].descending else (below, numbers, above)


def _numbers(keys: Sequence[SortKey]) -> SortRange:
    first, row, rest = _inner_joined(keys)
    value = Rank(row.c.value, first.descending, may_be_missing=False)
    # true for every number: SQLite uses the index for a range, but not for IS NOT NULL
    number = row.c.value >= -math.inf
    order = (value, *rest.order)
    return replace(rest, order=order, belongs=number, values={first.subject: row})


def _above_numbers(keys: Sequence[SortKey]) -> SortRange:
    first, row, rest = _inner_joined(keys)
    order = [Rank(column, first.descending) for column in _valued_order(row)]
    above = and_(row.c.value.is_(None), row.c.kind.in_(_ABOVE_NUMBERS))
    return replace(rest, order=(*order, *rest.order), belongs=above, values={first.subject: row})


def _below_numbers(keys: Sequence[SortKey]) -> SortRange:
    row = _row(keys[0].subject.type, 1)
    below = and_(row.c.value.is_(None), func.coalesce(row.c.kind, "null").not_in(_ABOVE_NUMBERS))
    return replace(whole(keys), belongs=below)


def _inner_joined(keys: Sequence[SortKey]) -> tuple[SortKey, FromClause, SortRange]:
    """Return the first key, its joined row, and the range of the jobs that have this row, sorted by the other keys."""
    first, rest = keys[0], keys[1:]
    row = _row(first.subject.type, 0)
    return first, row, _ordered(lineage.join(row, is_named(row, first.subject)), rest)


@cache
def _row(subject_type: SubjectType, number: int) -> FromClause:
    """Return the alias for the sort key of that number (0: the inner-joined first key); always the same object."""
    return VALUED[subject_type].alias(f"sort_{number}")


def _requires_number(node: Node, subject: Subject) -> bool:
    """Whether a job can satisfy the condition only if the subject is a number."""
    if isinstance(node, AllOf):
        return any(_requires_number(part, subject) for part in node.parts)
    return isinstance(node, Leaf) and node.subject == subject and node.operator.takes_only_numbers(node.value)


def _rank_of_kind(kind: ColumnElement[Any]) -> ColumnElement[int]:
    """Return the rank of a kind: missing, NaN, number, text, list or object. Within a rank, the value decides."""
    return case({"null": 0, "nan": 1, "text": 3, "json": 4}, value=func.coalesce(kind, "null"), else_=2)


def _valued_order(row: FromClause) -> list[ColumnElement[Any]]:
    return [_rank_of_kind(row.c.kind), row.c.value, row.c.text]


def _field_order(subject: Subject) -> list[ColumnElement[Any]]:
    column = field_column(subject)
    return [column] if subject.type != "float" else [_rank_of_kind(kind_column(subject)), column]


# ---- The statements


BaseDirs = tuple[int, ...] | None
"""Ids of the base dirs asked for; None: all base dirs of the store."""

_REMEMBERED = 64
_TAKE, _SKIP = bindparam("take", DEFAULT_LIMIT, Integer), bindparam("skip", 0, Integer)
_NARROW = "INDEXED BY ix_lineage_fields"
"""Otherwise SQLite chooses an index of one field and reads each wide row: 2.2x as long for a count
(count-sqlite-100k), 1.6x for a page in the order of a field."""

_LOOKED_UP = "NOT INDEXED"
"""If few jobs match, SQLite must be told not to walk all jobs in order: a scan takes a tenth of the time."""


_JOB = (lineage.c.job_id, train_job.c.base_dir_id, train_job.c.train_id)
"""The columns that identify a job."""
_ANY_JOB = (train_job.c.id, *_JOB[1:])
"""The same where jobs without lineage are among the rows."""
LEAVING = select(base_dir.c.id).where(base_dir.c.leaving)
"""The base dirs that are being removed."""


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """The statements for the matching jobs of one range of the order."""

    page: Select[Any]
    """The jobs in order, each with what is wanted. Parameters: `skip` is the offset, `take` the limit."""
    count: Select[Any]


@dataclass(frozen=True, slots=True)
class Want:
    """What is asked about jobs, beside what identifies them. What is not asked for is not in the statement."""

    notes: bool = True
    """Label and remark."""
    own: bool = False
    """What the store itself knows of a job: state, outcome, times …, the columns `OWN`."""
    lineage: bool = False
    """The whole lineage, as JSON."""
    dataset: bool = False
    """The dataset graph, as JSON."""
    names: tuple[tuple[str, Subject], ...] = ()
    """Single fields, metrics and user-defined values, each by the name under which it is asked for."""


OWN = (
    *("state", "outcome", "source_present", "host", "log_bytes"),
    *("update_time", "first_file_time", "last_file_time", "last_wall_time"),
)
"""The columns of `train_job` that `Want.own` asks for."""


@lru_cache(_REMEMBERED)
def compile_ranges(
    where: Node,
    sort: tuple[SortKey, ...],
    base_dirs: BaseDirs,
    *,
    few: Leaf | None = None,
    sparse: bool = False,
    want: Want,
) -> tuple[RangeQuery, ...]:
    """Return the statements for the matching jobs in order, range by range.

    Args:
        few: a comparison that few jobs satisfy. These jobs are found first and sorted, all in one range, whose outer
            join keeps SQLite from walking the index of the order instead.
        sparse: so few jobs match that a scan finds them faster than a walk in order.
        want: what the page shows of each job.
    """
    return tuple(
        RangeQuery(
            _page(where, part, base_dirs, few, want, sparse=sparse),
            _matching(func.count(), where=where, part=part, base_dirs=base_dirs, few=few),
        )
        for part in (sort_ranges(sort, where) if few is None else (whole(sort),))
    )


@lru_cache(_REMEMBERED)
def compile_all(
    where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs, *, names: bool = False
) -> Select[Any]:
    """Select the ids of all matching jobs in order; `names`: each with base dir id and train id."""
    part = whole(sort)
    columns = _JOB if names else _JOB[:1]
    return _in_order(_matching(*columns, where=where, part=part, base_dirs=base_dirs), part)


@lru_cache(_REMEMBERED)
def compile_columns(
    where: Node, sort: tuple[SortKey, ...], base_dirs: BaseDirs, want: Want, *, every: bool
) -> Select[Any]:
    """Select the first `most` matching jobs in order, each with what is wanted.

    `every`: also jobs without lineage, which only have user-defined values; ignored when `sort` has keys.
    """
    part, job = whole(sort), _JOB
    if every and not sort:
        part, job = replace(part, joined=train_job.outerjoin(lineage, _SAME_JOB)), _ANY_JOB
    columns, joined = _wanted(want, part.joined, job)
    found = select(*columns).select_from(joined)
    if job is _ANY_JOB:
        found = found.where(_of_any_job(_matches(where, part, base_dirs)))
    else:
        found = found.where(_matches(where, part, base_dirs)).with_hint(lineage, _NARROW, "sqlite")
    return _in_order(found, part).limit(bindparam("most", DEFAULT_LIMIT, Integer))


@lru_cache(_REMEMBERED)
def compile_count(where: Node, base_dirs: BaseDirs, few: Leaf | None = None) -> Select[Any]:
    """Count the matching jobs. SQLite makes one pass over narrow rows and looks up named values by primary key."""
    jobs: FromClause = lineage
    if base_dirs is not None or beside_lineage(where):
        jobs = jobs.join(train_job, train_job.c.id == lineage.c.job_id)
    return _matching(func.count(), where=where, part=SortRange(jobs, ()), base_dirs=base_dirs, few=few)


@lru_cache(_REMEMBERED)
def compile_among(where: Node) -> Select[Any]:
    """Select which of the jobs `job_ids` match."""
    jobs = lineage.join(train_job, train_job.c.id == lineage.c.job_id)
    wanted = lineage.c.job_id.in_(bindparam("job_ids", expanding=True))
    return select(lineage.c.job_id).select_from(jobs).where(wanted, holds(where, {}))


@lru_cache(_REMEMBERED)
def compile_rows(dialect_name: str, want: Want, *, every: bool) -> Select[Any]:
    """Select what is wanted of the jobs with the ids `wanted`, in no order.

    `every`: also of those that have no lineage, or are being removed.
    """
    jobs = train_job.join(lineage, _SAME_JOB, isouter=every)
    columns, joined = _wanted(want, jobs, _ANY_JOB)
    wanted = one_of(dialect_name, train_job.c.id, bindparam("wanted"))
    stays = true() if every else train_job.c.base_dir_id.not_in(LEAVING)
    return select(*columns).select_from(joined).where(wanted, stays)


def select_jobs(want: Want) -> Select[Any]:
    """Select what is wanted of all jobs, except what only jobs with lineage have."""
    columns, joined = _wanted(want, train_job, _ANY_JOB)
    return select(*columns).select_from(joined)


def _page(
    where: Node, part: SortRange, base_dirs: BaseDirs, few: Leaf | None, want: Want, *, sparse: bool
) -> Select[Any]:
    """Select the page's jobs from narrow rows, then read what is wanted of these jobs."""
    ranks = {f"rank_{number}": rank for number, rank in enumerate(part.order, 1)}
    keys = (rank.by.label(name) for name, rank in ranks.items())
    found = _matching(*_JOB, *keys, where=where, part=part, base_dirs=base_dirs, few=few)
    if sparse:
        found = found.with_hint(train_job, _LOOKED_UP, "sqlite")
    page = _in_order(found, part).limit(_TAKE).offset(_SKIP).subquery("page")
    job = (page.c.job_id, page.c.base_dir_id, page.c.train_id)
    jobs = page.join(lineage, lineage.c.job_id == page.c.job_id)
    if want.own or any(table_of(subject) == "train_job" for _, subject in want.names):
        jobs = jobs.join(train_job, train_job.c.id == page.c.job_id)
    columns, joined = _wanted(want, jobs, job, few=True)
    shown = select(*columns).select_from(joined)
    return shown.order_by(*(rank.of(page.c[name]) for name, rank in ranks.items()))


def _wanted(
    want: Want, jobs: FromClause, job: Sequence[ColumnElement[Any]], *, few: bool = False
) -> tuple[list[ColumnElement[Any]], FromClause]:
    """Return the columns of what is wanted, behind those that identify the job, and `jobs` joined with what they need.

    Label and remark of many jobs come from a join: by subqueries, PostgreSQL takes ten times as long for 6,000 jobs. Of
    the few jobs of a page, subqueries look them up, because a join of so many tables takes longer to plan than to run.
    """
    columns = list(job)
    if want.notes and few:
        columns += [_note(column, job) for column in (annotation.c.tag, annotation.c.remark)]
    elif want.notes:
        row = annotation.alias("noted")
        jobs = jobs.outerjoin(row, and_(row.c.base_dir_id == job[1], row.c.train_id == job[2]))
        columns += [row.c.tag, row.c.remark]
    if want.own:
        columns += [train_job.c[name] for name in OWN]
    if want.lineage:
        columns.append(lineage.c.model_lineage)
    if want.dataset:
        graph = select(dataset_graph.c.content).where(dataset_graph.c.id == lineage.c.dataset_graph_id)
        columns.append(graph.scalar_subquery().label("dataset_graph"))
    for number, (_, subject) in enumerate(want.names):
        if subject.type in NAMED:
            row = VALUED[subject.type].alias(f"asked_{number}")
            jobs = jobs.outerjoin(row, and_(row.c.job_id == job[0], row.c.name_key == name_key(subject)))
            columns += [row.c.kind, row.c.value, row.c.text]
        elif table_of(subject) == "annotation":
            columns.append(_note(field_column(subject), job))
        else:
            columns += [field_column(subject), *([kind_column(subject)] if subject.type == "float" else [])]
    return columns, jobs


def _note(column: Column[Any], job: Sequence[ColumnElement[Any]]) -> ColumnElement[Any]:
    """Return a column of the job's annotation."""
    _, base_dir_id, train_id = job
    same_job = annotation.c.base_dir_id == base_dir_id, annotation.c.train_id == train_id
    return select(column).where(*same_job).correlate_except(annotation).scalar_subquery().label(column.name)


def _matching(
    *columns: ColumnElement[Any], where: Node, part: SortRange, base_dirs: BaseDirs, few: Leaf | None = None
) -> Select[Any]:
    matches = _matches(where, part, base_dirs, few)
    return select(*columns).select_from(part.joined).where(matches).with_hint(lineage, _NARROW, "sqlite")


def _matches(
    where: Node, part: SortRange, base_dirs: BaseDirs, few: Leaf | None = None
) -> ColumnElement[bool]:
    return and_(part.belongs, _in_base_dirs(base_dirs), _among(few), holds(where, part.values))


def _of_any_job(predicate: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the predicate with the job's own id, by which jobs without lineage have their named values."""
    return replacement_traverse(
        predicate, {}, lambda element, **_: train_job.c.id if element is lineage.c.job_id else None
    )


def _in_order(found: Select[Any], part: SortRange) -> Select[Any]:
    return found.order_by(*(rank.of(rank.by) for rank in part.order))


def _in_base_dirs(base_dirs: BaseDirs) -> ColumnElement[bool]:
    if base_dirs is None:
        return true()
    return train_job.c.base_dir_id.in_(base_dirs)


def _among(few: Leaf | None) -> ColumnElement[bool]:
    """Return the condition that a job satisfies the comparison `few`, which the index of its field answers."""
    if few is None:
        return true()
    return lineage.c.job_id.in_(jobs_of(few).correlate(None))


def jobs_of(leaf: Leaf) -> Select[Any]:
    """Select the ids of the jobs that satisfy a comparison of one field, by the index of the field."""
    if table_of(leaf.subject) == "lineage":
        return select(lineage.c.job_id).where(holds(leaf, {}))
    # The condition on base dirs is always true; the index on states begins with the base dir.
    return select(train_job.c.id).where(train_job.c.base_dir_id.in_(select(base_dir.c.id)), holds(leaf, {}))


# ---- Which statements answer a question
# PostgreSQL plans well by its histograms. SQLite only knows how many jobs a network has on average, so two questions
# are asked first on SQLite: whether a field's index has more than a few matches, which takes microseconds for any
# number of jobs; and if matches are counted anyway, the count.


_FEW = 500
"""Up to so many matches of a comparison are checked one by one, which takes a few milliseconds. Beginning with them
makes the page of a rare network 600x as fast (page-selective-field-sqlite-100k), and its count 200x."""
_SPARSE = 250
"""Up to so many matches in total, a scan of all jobs finds the newest faster than a walk in order that looks up each
job: in a tenth of the time when a dozen of 100,000 match."""


@dataclass(frozen=True, slots=True)
class ChosenStatements:
    """The statements that answer a question."""

    ranges: tuple[RangeQuery, ...]
    """Statements for the ranges of the order, run until the page is full; empty when no page is asked for."""
    everything: Select[Any] | None
    """The ids of all matches; None when a page is asked for."""
    count: Select[Any] | None
    """Counts the matches; None if not asked for, or if `everything` gives it. Not run after a page that is not full."""
    counted: int | None = None
    """The result of `count`, if the choice needed it."""


def choose(
    session: Session, condition: SearchCondition, base_dirs: BaseDirs, want: Want, *, count: bool
) -> ChosenStatements:
    """Choose the statements that answer a question fastest; any choice would give the same answer."""
    where, sort = condition.where, condition.sort
    if condition.page is None:
        return ChosenStatements((), compile_all(where, sort, base_dirs), None)
    few = _few(session, condition)
    counting, counted = compile_count(where, base_dirs, few) if count else None, None
    walks = session.kind == "sqlite" and not sort and few is None
    found_by_index = mentions(where, "summary_dir") or mentions(where, "updated_at")
    if counting is not None and walks and not found_by_index:
        counted = session.value(Query(counting), **condition.values)
    sparse = counted is not None and counted <= _SPARSE
    ranges = compile_ranges(where, sort, base_dirs, few=few, sparse=sparse, want=want)
    return ChosenStatements(ranges, None, counting, counted)


def _few(session: Session, condition: SearchCondition) -> Leaf | None:
    """Return a comparison that the condition requires and that few jobs satisfy; None on PostgreSQL or without one."""
    if session.kind != "sqlite":
        return None
    for leaf in _indexed(condition.where):
        if not session.rows(Query(_more_than_few(leaf)), **condition.values):
            return leaf
    return None


def _indexed(node: Node) -> Iterator[Leaf]:
    """Yield the comparisons that a job must satisfy and that the index of a text field answers."""
    match node:
        case AllOf(parts):
            for part in parts:
                yield from _indexed(part)
        case Leaf(subject, operator, value) if operator.name in ("eq", "in"):
            indexed = subject.type == "text" and subject.name not in ("summary_dir", "remark")
            if indexed and not operator.takes_missing(value):
                yield node


@lru_cache
def _more_than_few(leaf: Leaf) -> Select[Any]:
    found: Select[Any] = jobs_of(leaf).with_only_columns(literal_column("1"), maintain_column_froms=True)
    return found.limit(1).offset(_FEW)
