"""The table of operators: one row each, with the values that it accepts for each type of field, and its SQL.

In: an operand (the SQL columns that may hold a value), and a value that the row's reader has accepted and that
`parameters` has replaced by parameters. Out: a SQL predicate, the same for SQLite and PostgreSQL, which may be unknown
when a value is missing (`predicates` deals with that).
Promises: Python's comparisons: numbers compare with numbers, texts with texts by code point, and nothing else matches;
no accepted value makes a database fail.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, and_, bindparam, false, not_, or_

from lineage_store.query.search import literals, time_literals
from lineage_store.query.search.literals import Choices, Number, Parameter
from lineage_store.store.database.patterns import is_like
from lineage_store.store.database.types import INDEXED_CHARACTERS, prefix

SubjectType = Literal["text", "integer", "float", "time", "metric", "metric_summary", "user_defined"]
"""The types that operators distinguish: the types of fields, and the sorts of named values."""

Value = Choices | Number | str | bool | Parameter | None
"""The result of a reader, also after `parameters`; None stands for NaN, with which nothing compares."""
Reader = Callable[[object], Value]

NOT_GIVEN = object()
"""No driver accepts this value: a forgotten parameter raises an error instead of giving the answer for NULL."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The SQL columns of a value.

    A column is NULL when the value is of another kind. It is None if values of the field never are of that kind.
    """

    missing: ColumnElement[bool]
    number: ColumnElement[Any] | None = None
    text: ColumnElement[Any] | None = None
    document: ColumnElement[Any] | None = None
    kind: ColumnElement[Any] | None = None
    prefix: ColumnElement[Any] | None = None
    """The beginning of the text as an index has it; None without an index."""


def _never(_value: Any) -> bool:
    return False


def _is_number(value: Value) -> bool:
    return value is None or (isinstance(value, Parameter) and value.is_number)


@dataclass(frozen=True, slots=True, eq=False)
class Operator:
    """One row of the table."""

    name: str
    readers: Mapping[SubjectType, Reader]
    """The parser of the value, for each type to which the operator applies."""
    holds: Callable[[Operand, Any], ColumnElement[bool]]
    """Returns the predicate for a value that is not missing."""
    takes_missing: Callable[[Any], bool] = _never
    """Whether a missing value satisfies the comparison (before negation)."""
    negated: bool = False
    """Whether the comparison is the negation of the rest of the row."""
    takes_only_numbers: Callable[[Any], bool] = _never
    """Whether only numbers satisfy the comparison."""


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
    """Compare by the index, and also compare the whole texts if one may be longer than what the index has."""
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
    return is_like(operand.text, _bound(pattern, operand.text))


def _is_null(operand: Operand, flag: bool) -> ColumnElement[bool]:
    return false() if flag else not_(operand.missing)


def _equal(reader: Callable[[object], Number | str]) -> Reader:
    return lambda value: literals.equal_to(reader(value))


_ORDERED: dict[SubjectType, Reader] = {
    "integer": literals.read_integer,
    "float": literals.read_number,
    "metric": literals.read_number,
    "metric_summary": literals.read_number,
    "user_defined": literals.read_scalar,
}
# Stored times are whole seconds, so a bound within a second is rounded: down for > and <=, up for < and >=.
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
_FLAG: dict[SubjectType, Reader] = dict.fromkeys(get_args(SubjectType), literals.read_flag)


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
"""Every operator by its name in conditions."""
