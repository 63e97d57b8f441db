"""Whether few jobs can match, known before they are looked for: what a page or a count then starts from.

In: an open connection and a condition. Out: one of its comparisons, or None; or how many match. PostgreSQL has
histograms and chooses by itself; SQLite knows how many jobs a network has on average, not how many this one has. So
its index is asked: whether there are more than a few takes microseconds, whatever the number of jobs. Where all that
match are to be counted in any case, the count tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, literal_column, select

from lineage_store.query.search.compiler import BaseDirs, compile_count
from lineage_store.query.search.predicates import holds
from lineage_store.query.search.statements import run
from lineage_store.query.search.tree import AllOf, Leaf, Node, SearchCondition, mentions
from lineage_store.store.database.pool import Pooled
from lineage_store.store.schema.tables import lineage

_FEW = 500
"""Looking at so many jobs one by one takes a few milliseconds, however many there are in all."""
_SPARSE = 250
"""So few newest are found by a scan of all jobs in less time than by a walk in order, which looks each job up."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What is known of the matching jobs before a page of them is looked for."""

    few: Leaf | None
    """A comparison that leaves few."""
    count: int | None
    """How many match."""

    @property
    def are_few(self) -> bool:
        """Whether so few match that a scan finds them faster."""
        return self.count is not None and self.count <= _SPARSE


def narrow(
    connection: Connection, condition: SearchCondition, base_dirs: BaseDirs, *, count: bool
) -> Narrowed:
    """See whether few jobs can match; `count`: how many is asked for in any case.

    The newest that match are walked to, however far they are; by a metric, the walk begins at what it is compared with.
    """
    few = few_by(connection, condition)
    walks = connection.dialect.name == "sqlite" and not condition.sort and not few
    if not (count and walks and condition.page) or mentions(condition.where, "summary_dir"):
        return Narrowed(few, None)
    ((counted,),) = run(connection, compile_count(condition.where, base_dirs), **condition.values)
    return Narrowed(None, int(counted))


def few_by(connection: Connection | Pooled, condition: SearchCondition) -> Leaf | None:
    """A comparison that the condition requires and that few jobs satisfy, if an index tells so."""
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
            if subject.type == "text" and subject.name != "summary_dir" and not operator.takes_missing(value):
                yield node


@lru_cache
def _more_than_few(leaf: Leaf) -> Select[Any]:
    return select(literal_column("1")).select_from(lineage).where(holds(leaf, {})).limit(1).offset(_FEW)
