"""A parsed condition: a tree of comparisons, an order, a page.

Promises: trees are hashable, and hold parameters in place of values (but for long lists, see `parameters`); the values
are in `SearchCondition` beside the tree. So two conditions of the same shape have equal trees and share statements.
Does not know how users write conditions, nor SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lineage_store.query.search.literals import Number
from lineage_store.query.search.operators import Operator, SubjectType, Value

NAMED: tuple[SubjectType, ...] = ("metric", "metric_summary", "user_defined")
"""The types of subjects whose names users choose."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A field, metric or user-defined value that a condition compares or sorts by; `name` is stored text."""

    type: SubjectType
    name: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """One comparison. `value` comes from the operator's reader, with parameters in place of numbers and texts."""

    subject: Subject
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class AllOf:
    """All parts must hold; without parts, it is true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part must hold."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part must not hold."""

    part: Node


Node = Leaf | AllOf | AnyOf | Not


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of the sort order."""

    subject: Subject
    descending: bool


class Page(NamedTuple):
    """A page of matching jobs: their LIMIT and OFFSET."""

    take: int
    skip: int


@dataclass(frozen=True, slots=True)
class SearchCondition:
    """A checked condition. `page` None means all matching jobs."""

    where: Node = AllOf(())
    values: Mapping[str, Number | str] = field(default_factory=dict)
    """The values of the parameters in `where`, by name."""
    sort: tuple[SortKey, ...] = ()
    page: Page | None = None
    shows_model: bool = True
    shows_dataset: bool = True


def subjects(node: Node) -> Iterator[Subject]:
    """Yield the subject of every comparison, repeated ones too."""
    match node:
        case Leaf(subject):
            yield subject
        case Not(part):
            yield from subjects(part)
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from subjects(part)


def named_by(condition: SearchCondition) -> Iterable[Subject]:
    """Return the metrics and user-defined values that a condition compares or sorts by, each once."""
    asked = [*subjects(condition.where), *(key.subject for key in condition.sort)]
    return dict.fromkeys(subject for subject in asked if subject.type in NAMED)


def mentions(node: Node, name: str) -> bool:
    """Whether the condition compares the field of this name."""
    return any(each.name == name and each.type not in NAMED for each in subjects(node))
