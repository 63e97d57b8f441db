"""Which statements answer a question: the one place that decides, for those who run them and for `explain`.

In: an open connection, a condition, the base dirs asked for, whether matches are to be counted. Out: a `Plan`.
PostgreSQL has histograms and finds its own way; SQLite knows how many jobs a network has on average, not how many this
one has. So it is asked first: whether an index holds more than a few takes microseconds, whatever the number of jobs;
and where all that match are to be counted in any case, the count tells.
Does not know rows, nor what is shown of a job.
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
"""Looking at so many jobs one by one takes a few milliseconds, however many there are in all. To begin with them makes
the page of a rare network 600x as fast (page-selective-field-sqlite-100k), and its count 200x."""
_SPARSE = 250
"""So few newest are found by a scan of all jobs in less time than by a walk in order, which looks each job up: a tenth
where a dozen of 100,000 match."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The statements that answer a question."""

    ranges: tuple[RangeQuery, ...]
    """The page, range by range of its order until it is full; none where every job is listed."""
    everything: Select[Any] | None
    """The ids of all that match, where no page is asked for."""
    count: Select[Any] | None
    """How many match; None where nobody asks or the list of all tells. Not run where a page that is not full tells."""
    counted: int | None = None
    """What `count` told, where it was asked first to choose by."""


def choose(connection: Connection, condition: SearchCondition, base_dirs: BaseDirs, *, count: bool) -> Plan:
    """The statements that answer a question in the least time; the answer is the same by any.

    The newest that match are walked to, however far they are; by a metric, the walk begins at what it is compared with.
    """
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
    """A comparison that the condition requires and that few jobs satisfy, if an index of SQLite tells so."""
    if connection.dialect.name != "sqlite":
        return None
    for leaf in _indexed(condition.where):
        if not run(connection, _more_than_few(leaf), **condition.values):
            return leaf
    return None


def _indexed(node: Node) -> Iterator[Leaf]:
    """The required comparisons that an index of one text field answers."""
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
