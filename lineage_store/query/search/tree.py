"""A condition as the compiler takes it: a tree of comparisons, an order, a page.

Promises: hashable, and without what may differ from question to question: values are parameters, whose values
`SearchCondition` has beside the tree. So two questions of one shape have equal trees, and share their statements.
Does not know: how users write it, nor SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lineage_store.query.search.literals import Number
from lineage_store.query.search.operators import Operator, SubjectType, Value

NAMED: tuple[SubjectType, ...] = ("metric", "metric_summary", "user_defined")
"""What has names of the user's own."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared or sorted by. `name` is stored text: of a field, a metric or a user-defined value."""

    type: SubjectType
    name: str


@dataclass(frozen=True, slots=True)
class Leaf:
    """One comparison. `value` is what the operator's reader made of the caller's, its parts lifted to parameters."""

    subject: Subject
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; without parts, true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Node


Node = Leaf | AllOf | AnyOf | Not


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column of the order."""

    subject: Subject
    descending: bool


@dataclass(frozen=True, slots=True)
class Page:
    """`number` counts pages from 0, each of `limit` jobs."""

    limit: int
    number: int


@dataclass(frozen=True, slots=True)
class SearchCondition:
    """A condition without mistakes. `page` None: everything."""

    where: Node = AllOf(())
    values: Mapping[str, Number | str] = field(default_factory=dict)
    """Of the parameters in `where`, by name."""
    sort: tuple[SortKey, ...] = ()
    page: Page | None = None
    shows_model: bool = True
    shows_dataset: bool = True

    @property
    def cut(self) -> tuple[int, int]:
        """How many jobs the page takes of those that match, and how many come before it."""
        assert self.page is not None
        return self.page.limit, self.page.limit * self.page.number


def subjects(node: Node) -> Iterator[Subject]:
    """What the condition compares, as often as it does."""
    match node:
        case Leaf(subject):
            yield subject
        case Not(part):
            yield from subjects(part)
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from subjects(part)


def mentions(node: Node, name: str) -> bool:
    """Whether the condition compares the field of that name."""
    return any(each.name == name and each.type not in NAMED for each in subjects(node))
