"""The operators: one row each, saying what values it takes for which field, and when it holds in SQL.

In: an operand (the SQL columns in which a value may stand) and a value that the row's reader has accepted, with
parameters in its place (`parameters`).
Out: a SQL predicate, the same for SQLite and PostgreSQL. It may be unknown where a value is missing; the
compiler makes it definite.
Promises: Python's comparisons. Numbers compare with numbers, text with text by code point, and nothing else
matches; no accepted value can make a database fail.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, and_, bindparam, false, func, not_, or_

from lineage_store.query.search import literals, time_literals
from lineage_store.query.search.literals import Choices, Number, Parameter
from lineage_store.store.database.types import INDEXED_CHARACTERS, prefix

SubjectType = Literal["text", "integer", "float", "time", "metric", "metric_summary", "user_defined"]
"""What a field, metric or user-defined value is to operators."""

Value = Choices | Number | str | bool | Parameter | None
"""What a reader makes of the caller's value; None: NaN, with which nothing compares."""
Reader = Callable[[object], Value]

NOT_GIVEN = object()
"""No driver takes this: who forgets a parameter's value gets an error, and not the answer for NULL."""


@dataclass(frozen=True, slots=True)
class Operand:
    """Where a value stands in SQL.

    A column is NULL where the value is of another kind, and None where it never is of that kind.
    """

    missing: ColumnElement[bool]
    number: ColumnElement[Any] | None = None
    text: ColumnElement[Any] | None = None
    document: ColumnElement[Any] | None = None
    kind: ColumnElement[Any] | None = None
    prefix: ColumnElement[Any] | None = None
    """What an index has of the text, where there is one."""


def _never(_value: Any) -> bool:
    return False


def _is_number(value: Value) -> bool:
    return value is None or (isinstance(value, Parameter) and value.is_number)


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One row of the table."""

    name: str
    readers: Mapping[SubjectType, Reader]
    """How to read a value, for each type of field that the operator fits."""
    holds: Callable[[Operand, Any], ColumnElement[bool]]
    """When a value that is not missing satisfies it."""
    takes_missing: Callable[[Any], bool] = _never
    """Whether a missing value satisfies it (before negation)."""
    negated: bool = False
    """Whether it holds where the rest of the row does not."""
    takes_only_numbers: Callable[[Any], bool] = _never
    """Whether nothing but a number satisfies it."""


def _one_of(operand: Operand, choices: Choices) -> ColumnElement[bool]:
    places = (
        (operand.number, choices.numbers),
        (operand.text, choices.texts),
        (operand.document, choices.documents),
        (operand.kind, choices.kinds),
    )
    found = [
        _one_text(operand.prefix, column, wanted)
        if column is operand.text and operand.prefix is not None
        else _is_in(column, wanted)
        for column, wanted in places
        if column is not None and wanted
    ]
    return or_(*found) if found else false()


def _is_in(column: ColumnElement[Any], wanted: Sequence[Any]) -> ColumnElement[bool]:
    return column.in_([_bound(value, column) for value in wanted])


def _one_text(
    indexed: ColumnElement[Any], column: ColumnElement[Any], wanted: Sequence[Any]
) -> ColumnElement[bool]:
    """By the index; of a text that is longer than what it has, the whole is compared too."""
    if not any(map(_is_long, wanted)):
        return _is_in(indexed, wanted)
    beginnings = [prefix(_bound(value, column)) for value in wanted]
    return and_(indexed.in_(beginnings), _is_in(column, wanted))


def _is_long(text: str | Parameter) -> bool:
    return text.is_long if isinstance(text, Parameter) else len(text) >= INDEXED_CHARACTERS


def _bound(value: object, column: ColumnElement[Any]) -> Any:
    return bindparam(value.name, NOT_GIVEN, column.type) if isinstance(value, Parameter) else value


def _compares(
    holds: Callable[[Any, Any], ColumnElement[bool]],
) -> Callable[[Operand, Parameter | None], ColumnElement[bool]]:
    def compare(operand: Operand, bound: Parameter | None) -> ColumnElement[bool]:
        if bound is None:
            return false()
        column = operand.number if bound.is_number else operand.text
        return false() if column is None else holds(column, _bound(bound, column))

    return compare


def _is_like(operand: Operand, pattern: Parameter) -> ColumnElement[bool]:
    if operand.text is None:
        return false()
    # `lower` folds ASCII alone: SQLite knows no other letters, PostgreSQL none under the collation "C"
    return func.lower(operand.text).like(_bound(pattern, operand.text), escape=literals.PATTERN_ESCAPE)


def _is_null(operand: Operand, flag: bool) -> ColumnElement[bool]:
    return false() if flag else not_(operand.missing)


def _equal(reader: Callable[[object], Number | str]) -> Reader:
    return lambda value: literals.equal_to(reader(value))


_ALL_TYPES: tuple[SubjectType, ...] = (
    *("text", "integer", "float", "time"),
    *("metric", "metric_summary", "user_defined"),
)

_ORDERED: dict[SubjectType, Reader] = {
    "integer": literals.read_integer,
    "float": literals.read_number,
    "metric": literals.read_number,
    "metric_summary": literals.read_number,
    "user_defined": literals.read_scalar,
}
# Of whole seconds, those after a moment within one are those after its beginning.
_FLOOR: dict[SubjectType, Reader] = {**_ORDERED, "time": time_literals.read_floor}
_CEILING: dict[SubjectType, Reader] = {**_ORDERED, "time": time_literals.read_ceiling}
_EQUAL: dict[SubjectType, Reader] = {
    "text": literals.read_text,
    "integer": _equal(literals.read_integer),
    "float": _equal(literals.read_number),
    "time": lambda value: time_literals.read_times([value]),
    "metric": _equal(literals.read_number),
    "metric_summary": _equal(literals.read_number),
    "user_defined": _equal(literals.read_scalar),
}
_ANY_OF: dict[SubjectType, Reader] = {
    "text": literals.read_texts,
    "integer": literals.read_integers,
    "float": literals.read_floats,
    "time": time_literals.read_times,
    "metric": literals.read_values,
    "metric_summary": literals.read_values,
    "user_defined": literals.read_values,
}
_LIKE: dict[SubjectType, Reader] = dict.fromkeys(
    ("text", "metric", "metric_summary", "user_defined"), literals.read_pattern
)
_FLAG: dict[SubjectType, Reader] = dict.fromkeys(_ALL_TYPES, literals.read_flag)


def _holds_missing(choices: Choices) -> bool:
    return choices.missing


OPERATORS: dict[str, Operator] = {
    row.name: row
    for row in (
        Operator("eq", _EQUAL, _one_of),
        Operator("ne", _EQUAL, _one_of, negated=True),
        Operator("lt", _CEILING, _compares(python.lt), takes_only_numbers=_is_number),
        Operator("gt", _FLOOR, _compares(python.gt), takes_only_numbers=_is_number),
        Operator("le", _FLOOR, _compares(python.le), takes_only_numbers=_is_number),
        Operator("ge", _CEILING, _compares(python.ge), takes_only_numbers=_is_number),
        Operator("in", _ANY_OF, _one_of, _holds_missing),
        Operator("not_in", _ANY_OF, _one_of, _holds_missing, negated=True),
        Operator("like", _LIKE, _is_like),
        Operator("is_null", _FLAG, _is_null, bool),
    )
}
"""Every operator by the name under which a condition asks for it."""
