"""The order of jobs: sort keys become sort ranges, which follow one another and are each sorted on their own.

In: the sort keys of a condition, and its tree. Out: `SortRange`s, each with its joins, membership condition and order.
Promises: every matching job belongs to exactly one sort range. The order is total (ties by update time, newest first,
then id), so pages neither overlap nor leave a gap.

Missing values are the smallest, then come NaN, numbers, texts, lists and objects. If the first sort key is a metric or
user-defined value, the jobs where it is a number form a range of their own, which an index on (name, value) delivers in
order: the best twenty of a million are read, not sorted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, case, func, true

from lineage_store.query.search.operators import SubjectType
from lineage_store.query.search.predicates import (
    VALUED,
    Joined,
    field_column,
    is_named,
    kind_column,
    table_of,
)
from lineage_store.query.search.tree import AllOf, Leaf, Node, SortKey, Subject
from lineage_store.store.schema.tables import ANNOTATED, annotation, lineage, train_job

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
