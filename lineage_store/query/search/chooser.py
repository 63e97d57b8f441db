"""Which statements answer a question: `page` runs the choice made here, `explain` shows it.

In: an open connection, a condition, the base dirs asked for, whether to count matches. Out: a `Plan`.
PostgreSQL plans well by its histograms. SQLite only knows how many jobs a network has on average, so two questions are
asked first on SQLite: whether a field's index has more than a few matches, which takes microseconds for any number of
jobs; and if matches are counted anyway, the count. Does not know rows, nor what is shown of a job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, literal_column

from lineage_store.query.search.compiler import (
    BaseDirs,
    RangeQuery,
    compile_all,
    compile_count,
    compile_ranges,
    jobs_of,
)
from lineage_store.query.search.tree import AllOf, Leaf, Node, SearchCondition, mentions
from lineage_store.store.database.statements import run

_FEW = 500
"""Up to so many matches of a comparison are looked at one by one, which takes a few milliseconds. Beginning with them
makes the page of a rare network 600x as fast (page-selective-field-sqlite-100k), and its count 200x."""
_SPARSE = 250
"""Up to so many matches in total, a scan of all jobs finds the newest faster than a walk in order that looks up each
job: in a tenth of the time when a dozen of 100,000 match."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The statements that answer a question."""

    ranges: tuple[RangeQuery, ...]
    """Statements for the ranges of the order, run until the page is full; empty when no page is asked for."""
    everything: Select[Any] | None
    """The ids of all matches; None when a page is asked for."""
    count: Select[Any] | None
    """Counts the matches; None if not asked for, or if `everything` gives it. Not run after a page that is not full."""
    counted: int | None = None
    """The result of `count`, if the choice needed it."""


def choose(connection: Connection, condition: SearchCondition, base_dirs: BaseDirs, *, count: bool) -> Plan:
    """Choose the statements that answer a question fastest; any choice would give the same answer."""
    where, sort, shows_dataset = condition.where, condition.sort, condition.shows_dataset
    if condition.page is None:
        return Plan((), compile_all(where, sort, base_dirs), None)
    few = _few(connection, condition)
    counting, counted = compile_count(where, base_dirs, few) if count else None, None
    walks = connection.dialect.name == "sqlite" and not sort and few is None
    found_by_index = mentions(where, "summary_dir") or mentions(where, "updated_at")
    if counting is not None and walks and not found_by_index:
        ((counted,),) = run(connection, counting, **condition.values)
    sparse = counted is not None and counted <= _SPARSE
    ranges = compile_ranges(where, sort, base_dirs, few=few, sparse=sparse, shows_dataset=shows_dataset)
    return Plan(ranges, None, counting, counted)


def _few(connection: Connection, condition: SearchCondition) -> Leaf | None:
    """Return a comparison that the condition requires and that few jobs satisfy; None on PostgreSQL or without one."""
    if connection.dialect.name != "sqlite":
        return None
    for leaf in _indexed(condition.where):
        if not run(connection, _more_than_few(leaf), **condition.values):
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
