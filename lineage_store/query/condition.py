"""A parsed condition: a tree of comparisons, an order, a page.

Promises: trees are hashable, and hold parameters in place of values (but for long lists, see `parameters`); the values
are in `SearchCondition` beside the tree. So two conditions of the same shape have equal trees and share statements.
Does not know how users write conditions, nor SQL.
"""

from __future__ import annotations

import math
import operator as python
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, get_args

from sqlalchemy import ColumnElement, and_, bindparam, false, not_, or_

from lineage_store import texts
from lineage_store.plain_values import CALENDAR_END, LARGEST_INTEGER, WORD_BY_KIND
from lineage_store.store.database.sql import ESCAPE, INDEXED_CHARACTERS, is_like, prefix

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


class PageBounds(NamedTuple):
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
    page: PageBounds | None = None
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


def names_asked(condition: SearchCondition) -> Iterable[Subject]:
    """Return the metrics and user-defined values that a condition compares or sorts by, each once."""
    asked = [*subjects(condition.where), *(key.subject for key in condition.sort)]
    return dict.fromkeys(subject for subject in asked if subject.type in NAMED)


def mentions(node: Node, name: str) -> bool:
    """Whether the condition compares the field of this name."""
    return any(each.name == name and each.type not in NAMED for each in subjects(node))


# ---- Parse the values with which a condition compares
# A value gets a form that both databases accept: text without NUL, numbers separate from NaN, lists and objects as
# canonical JSON. One that does not fit raises ValueError with what is allowed. Equality is Python's (True == 1 == 1.0,
# text never equals a number).


Number = int | float

MAX_CHOICES = 10_000
MAX_PATTERN_LENGTH = 1_000
MAX_PATTERN_CHARACTERS = 10_000
"""All patterns of a condition together, in SQL: a database compares them with a text one after the other, and nothing
ends it in between."""

_KIND_BY_WORD = {word: kind for kind, word in WORD_BY_KIND.items()}
_PATTERN_TOKEN = re.compile(
    r"\\(?P<escaped>.)|(?P<wildcard>[%_])|(?P<lone>\\)|(?P<literal>[^\\%_]+)", re.DOTALL
)
_TO_ASCII_LOWER = {ord(upper): ord(upper.lower()) for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """Stands for a value that is passed to the statement each time it runs."""

    name: str
    is_number: bool
    """Whether the value is a number; otherwise it is a text."""
    is_long: bool = False
    """Whether the value is a text that may be longer than what an index has of it."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Values of which one must be equal, grouped by the SQL column in which they are found."""

    numbers: tuple[Number | Parameter, ...] = ()
    """Finite or infinite numbers; a bool counts as the number that it equals."""
    texts: tuple[str | Parameter, ...] = ()
    documents: tuple[str | Parameter, ...] = ()
    """Lists, objects, and integers beyond any float, as canonical JSON."""
    kinds: tuple[str, ...] = ()
    """The kinds of values that are not finite: nan, +inf, -inf."""
    missing: bool = False
    """Whether a missing value is one of the choices."""

    @property
    def count(self) -> int:
        """The number of values that become parameters or literals."""
        return len(self.numbers) + len(self.texts) + len(self.documents)


def read_text(value: object) -> Choices:
    if isinstance(value, str):
        return _choices([value])
    raise ValueError("a str")


def read_integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_INTEGER:
        return value
    raise ValueError(f"an int from 0 to {LARGEST_INTEGER} (not a bool)")


def read_number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and fits_double(value):
        return float(value)
    raise ValueError("an int or a float (not a bool) that fits into 64 bits")


def read_scalar(value: object) -> float | str:
    """Parse a user-defined value: a text or a number; a bool counts as a number."""
    if isinstance(value, str):
        return texts.to_stored(value)
    if isinstance(value, int | float) and fits_double(value):
        return float(value)
    raise ValueError("a str, int, float or bool, numbers within 64 bits")


def equal_to(value: Number | str) -> Choices:
    """Return the choices of `eq`; NaN equals nothing."""
    if isinstance(value, str):
        return Choices(texts=(value,))
    return Choices() if math.isnan(value) else Choices(numbers=(value,))


def read_choices(value: object) -> Choices:
    """Parse the list of `in`: values of any types, with None for a missing one."""
    if isinstance(value, list | tuple) and len(value) <= MAX_CHOICES:
        return _choices(value)
    raise ValueError(f"a list or tuple of at most {MAX_CHOICES} values")


def read_texts(value: object) -> Choices:
    """Parse the list for a text field, which only equals texts."""
    choices = read_choices(value)
    return Choices(texts=choices.texts, missing=choices.missing)


def read_integers(value: object) -> Choices:
    """Parse the list for an integer field, and keep the numbers that it can equal."""
    choices = read_choices(value)
    within = [number for number in _numbers(choices) if abs(number) <= LARGEST_INTEGER]
    integers = tuple(int(number) for number in within if number == int(number))
    return Choices(integers, missing=choices.missing)


def read_floats(value: object) -> Choices:
    """Parse the list for a float field; MindInsight's words such as `NaN` stand for values that are not finite."""
    choices = read_choices(value)
    words = {_KIND_BY_WORD[text] for text in choices.texts if text in _KIND_BY_WORD}
    kinds = tuple(sorted({*words, *choices.kinds}))
    return Choices(_floats(choices), kinds=kinds, missing=choices.missing)


def read_values(value: object) -> Choices:
    """Parse the list for a metric or user-defined value, which may have any type."""
    choices = read_choices(value)
    return replace(choices, numbers=_floats(choices))


def _numbers(choices: Choices) -> list[Number]:
    return [number for number in choices.numbers if isinstance(number, int | float)]


def _floats(choices: Choices) -> tuple[float, ...]:
    return tuple(map(float, _numbers(choices)))


def read_pattern(value: object) -> str:
    """Parse a LIKE pattern for SQL: fold ASCII letters to lower case, and escape literal parts like stored text."""
    if not isinstance(value, str) or len(value) > MAX_PATTERN_LENGTH:
        raise ValueError(f"a str of at most {MAX_PATTERN_LENGTH} characters with the wildcards % and _")
    folded, literal = "", ""
    for token in _PATTERN_TOKEN.finditer(value):
        if token["lone"]:
            raise ValueError(r"a pattern that does not end in a lone backslash (write \\ for a backslash)")
        if token["wildcard"]:
            folded += _escape_literal(literal) + token["wildcard"]
            literal = ""
        else:
            literal += token["escaped"] or token["literal"]
    return (folded + _escape_literal(literal)).translate(_TO_ASCII_LOWER)


def read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("True or False")


def containing(part: str) -> str:
    """Return the pattern of texts that have `part` in them, in any case of A to Z. Raises ValueError."""
    if len(part) > MAX_PATTERN_LENGTH:
        raise ValueError(f"a text of at most {MAX_PATTERN_LENGTH} characters")
    return f"%{_escape_literal(part).translate(_TO_ASCII_LOWER)}%"


def _escape_literal(literal: str) -> str:
    return re.sub(rf"[{ESCAPE}%_]", rf"{ESCAPE}\g<0>", texts.to_stored(literal))


def fits_double(value: Number) -> bool:
    """Whether a number is within the range of a 64-bit float; infinities are."""
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _choices(values: Iterable[object]) -> Choices:
    numbers: dict[Number, None] = {}
    strings: dict[str, None] = {}
    documents: dict[str, None] = {}
    nan = missing = False
    for value in values:
        if value is None:
            missing = True
        elif isinstance(value, str):
            strings[texts.to_stored(value)] = None
        elif isinstance(value, float) and math.isnan(value):
            nan = True
        elif isinstance(value, int | float) and fits_double(value):
            numbers[value] = None
        else:
            documents[_document(value)] = None
    return Choices(tuple(numbers), tuple(strings), tuple(documents), ("nan",) if nan else (), missing)


def _document(value: object) -> str:
    if isinstance(value, int | list | tuple | dict):
        with suppress(TypeError, ValueError, RecursionError):
            return texts.canonical_json(value)
    raise ValueError("a list of None, bool, int, float, str, and lists and dicts of these")


# ---- Parse the times with which a condition compares
# A datetime; unix seconds; ISO text such as `2026-11-01`, which means midnight, or `2026-11-01T08:00+02:00`; a duration
# before now: `last 7 days`, `36 hours ago`. A time without a zone is UTC.


_BEFORE_NOW = re.compile(
    r"(?:the\s+)?last\s+(?P<last>\d+\s+)?(?P<unit>[a-z]+?)s?|(?P<ago>\d+)\s+(?P<units>[a-z]+?)s?\s+ago"
)
_UNITS = ("second", "minute", "hour", "day", "week")
_ALLOWED = "a datetime, unix seconds, or text such as '2026-11-01', '2026-11-01T08:00:00Z', 'last 7 days'"


def read_floor(value: object) -> int:
    """Parse a time and round it down to a whole second."""
    return math.floor(_seconds(value))


def read_ceiling(value: object) -> int:
    """Parse a time and round it up to a whole second."""
    return math.ceil(_seconds(value))


def read_times(value: object) -> Choices:
    """Parse a list of times, with None for a missing one. A time that is no whole second equals nothing."""
    if not isinstance(value, list | tuple) or len(value) > MAX_CHOICES:
        raise ValueError(f"a list or tuple of at most {MAX_CHOICES} points in time")
    if any(map(is_before_now, value)):
        raise ValueError("a point in time: only lt, le, gt and ge compare with how long ago something was")
    seconds = [_seconds(item) for item in value if item is not None]
    return Choices(tuple({int(each): None for each in seconds if each == int(each)}), missing=None in value)


def is_before_now(value: object) -> bool:
    """Whether a value is a duration before now, whose meaning changes as time passes."""
    return isinstance(value, str) and _BEFORE_NOW.fullmatch(value.strip().lower()) is not None


def _seconds(value: object) -> float:
    seconds = math.nan
    if isinstance(value, str):
        value = _read_text(value.strip())
    if isinstance(value, datetime):
        seconds = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    if not -CALENDAR_END <= seconds <= CALENDAR_END:
        raise ValueError(_ALLOWED)
    return seconds


def _read_text(text: str) -> datetime | None:
    if before := _BEFORE_NOW.fullmatch(text.lower()):
        unit, number = before["unit"] or before["units"], int(before["last"] or before["ago"] or 1)
        if unit not in _UNITS or number > CALENDAR_END:
            return None
        try:
            return datetime.now(UTC) - timedelta(**{f"{unit}s": number})
        except OverflowError:  # before the year 1
            return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


# ---- The table of operators: one row each, with the values that it accepts for each type of field, and its SQL
# The predicate may be unknown when a value is missing (`job_sql` deals with that). Comparisons are Python's: numbers
# compare with numbers, texts with texts by code point, and nothing else matches; no accepted value makes a database
# fail.


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
    return lambda value: equal_to(reader(value))


_ORDERED: dict[SubjectType, Reader] = {
    "integer": read_integer,
    "float": read_number,
    "metric": read_number,
    "metric_summary": read_number,
    "user_defined": read_scalar,
}
# Stored times are whole seconds, so a bound within a second is rounded: down for > and <=, up for < and >=.
_FLOOR: dict[SubjectType, Reader] = {**_ORDERED, "time": read_floor}
_CEILING: dict[SubjectType, Reader] = {**_ORDERED, "time": read_ceiling}
_EQUAL: dict[SubjectType, Reader] = {
    "text": read_text,
    "integer": _equal(read_integer),
    "float": _equal(read_number),
    "time": lambda value: read_times([value]),
    "metric": _equal(read_number),
    "metric_summary": _equal(read_number),
    "user_defined": _equal(read_scalar),
}
_ANY_OF: dict[SubjectType, Reader] = {
    "text": read_texts,
    "integer": read_integers,
    "float": read_floats,
    "time": read_times,
    "metric": read_values,
    "metric_summary": read_values,
    "user_defined": read_values,
}
_LIKE: dict[SubjectType, Reader] = dict.fromkeys(
    ("text", "metric", "metric_summary", "user_defined"), read_pattern
)
_FLAG: dict[SubjectType, Reader] = dict.fromkeys(get_args(SubjectType), read_flag)


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


# ---- Values of a condition become parameters, so that conditions of the same shape share their statements
# Names of parameters contain no text of the caller. Not replaced, and so part of the shape: flags, NaN, kinds that are
# not finite, whether a value is missing or long, and lists of more than `_MOST` values.


_MOST = 64


class Parameters:
    """The parameters of one condition."""

    def __init__(self) -> None:
        self.values: dict[str, Number | str] = {}

    def lift(self, value: Value, subject: Subject) -> Value:
        """Return the value with parameters in place of numbers and texts, and keep these in `values`."""
        match value:
            case bool() | None | Parameter():
                return value
            case Choices():
                return self._choices(value, subject)
            case float() if math.isnan(value):
                return None
        return self._parameter(value, subject)

    def _choices(self, choices: Choices, subject: Subject) -> Choices:
        if choices.count > _MOST:
            return choices
        numbers, strings, documents = (
            tuple(self._parameter(value, subject) for value in values)
            for values in (choices.numbers, choices.texts, choices.documents)
        )
        return Choices(numbers, strings, documents, choices.kinds, choices.missing)

    def _parameter(self, value: Number | str | Parameter, subject: Subject) -> Parameter:
        if isinstance(value, Parameter):
            return value
        # names of metrics and user-defined values come from the caller
        name = f"v{len(self.values) + 1}_{subject.type if subject.type in NAMED else subject.name}"
        self.values[name] = value
        is_long = isinstance(value, str) and len(value) >= INDEXED_CHARACTERS
        return Parameter(name, not isinstance(value, str), is_long)
