"""Parse the values with which a condition compares.

In: any Python object. Out: the same value in a form that both databases accept: text without NUL, numbers separate from
NaN, lists and objects as canonical JSON. A value that does not fit raises ValueError with what is allowed.
Promises: Python's equality (True == 1 == 1.0, text never equals a number); the caller's objects stay unchanged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from lineage_store import texts
from lineage_store.extreme_numbers import LARGEST_INTEGER, WORD_BY_KIND
from lineage_store.store.database.patterns import ESCAPE

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
