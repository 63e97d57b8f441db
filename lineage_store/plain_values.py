"""Values at the edges: as JSON and CSV can hold them, numbers that are not finite, times beyond the calendar. Pure.

In: values that the Python API returns; numbers and unix times from log files; what comes back to the store in tokens,
cursors and manifests, which anyone may have changed. Out: values that every JSON parser accepts: NaN and infinities as
the words `NaN`, `Infinity` and `-Infinity`, points in time as ISO 8601 in UTC, bytes as hexadecimal digits; values for
the csv module, and rows as text; datetimes in UTC; whether a column can hold a value. Promises: no text cell of CSV can
start a formula in a spreadsheet, and numbers stay numbers; everybody who stores, compares or shows such a number or
time uses these kinds, words and bounds.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeGuard

from lineage_store.texts import NOT_IN_SQL, is_storable, to_stored

LARGEST_INTEGER = 2**63 - 1
"""The greatest integer of SQL, of numpy and of a log file."""
LEAST_INTEGER = -LARGEST_INTEGER - 1

WORD_BY_KIND = {"nan": "NaN", "+inf": "Infinity", "-inf": "-Infinity"}
"""The word of each kind of number that is not finite."""
NUMBER_BY_KIND = {"nan": math.nan, "+inf": math.inf, "-inf": -math.inf}

CALENDAR_BEGIN = -62_135_596_800
"""The first second of the year 1, the first that Python can write as a date; unix time in seconds."""
CALENDAR_END = 253_402_300_799
"""The last second of the year 9999, the last that Python and SQL can write as a date; unix time in seconds."""

PLAUSIBLE_SINCE = 946_684_800
"""The first second of the year 2000; unix time in seconds. What is recorded to be older was written by a host without
a clock, or made up."""

_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_CHANGES_IN_CSV = re.compile(rf"\n[{re.escape(''.join(_STARTS_FORMULA))}]|\0")
"""In texts joined by line breaks: finds a text that could start a formula, or a NUL, which CSV cannot hold."""


def for_json(value: object) -> Any:
    """Convert a value to one that `json.dumps` turns into valid JSON."""
    match value:
        case float() | Decimal():
            return spelled(value) or (
                int(value) if value == int(value) and isinstance(value, Decimal) else float(value)
            )
        case datetime():
            return iso(value)
        case bytes() | memoryview():
            return bytes(value).hex()
        case Mapping():
            return {str(name): for_json(item) for name, item in value.items()}
        case list() | tuple():
            return [for_json(item) for item in value]
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)


def iso(value: datetime) -> str:
    """Format a point in time in UTC, as `2026-01-31T12:00:00Z`."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def for_csv(value: object) -> object:
    """Convert a value for the csv module. Text that could start a formula gets an apostrophe in front."""
    match value:
        case None:
            return ""
        case bool() | int():
            return int(value)
        case float() | Decimal():
            return spelled(value) or value
        case datetime():
            return iso(value)
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            # One by one, so that escapes already in the text, as views return them, stay unchanged.
            text = NOT_IN_SQL.sub(lambda found: to_stored(found.group()), str(value))
            return f"'{text}" if text.startswith(_STARTS_FORMULA) else text


def rows_for_csv(rows: Sequence[Sequence[object]]) -> Iterable[Sequence[object]]:
    """Apply `for_csv` to all values of `rows`; a column that needs no change is passed on without a call per value."""
    columns = list(zip(*rows, strict=True))
    return zip(
        *(column if _stays_in_csv(column) else map(for_csv, column) for column in columns), strict=True
    )


def _stays_in_csv(column: Iterable[object]) -> bool:
    """Return whether the csv module writes these values in the same way as their `for_csv` results."""
    kinds = set(map(type, column)) - {type(None)}
    if kinds == {float}:
        numbers: Any = filter(None, column)
        return math.isfinite(sum(numbers))
    if kinds == {str}:
        texts: Any = filter(None, set(column))  # few, as a rule
        joined = "\n".join(["", *texts])
        return joined.isascii() and not _CHANGES_IN_CSV.search(joined)
    return kinds <= {int}


def csv_text(rows: Sequence[Sequence[object]]) -> str:
    """Return rows as CSV text.

    If a text has a carriage return, all texts are quoted: the csv module leaves it bare, and readers start a row there.
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    if "\r" in text.getvalue():
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerows(rows)
    return text.getvalue()


def float_kind(value: float | Decimal) -> str:
    """Return `finite`, `nan`, `+inf` or `-inf`, as SQL has it in a column beside the number."""
    if math.isnan(value):
        return "nan"
    return "finite" if math.isfinite(value) else "+inf" if value > 0 else "-inf"


def spelled(value: float | Decimal) -> str | None:
    """Return the word for NaN or an infinity, which no JSON number can express; None for a finite value."""
    return None if math.isfinite(value) else WORD_BY_KIND[float_kind(value)]


def from_unix(seconds: int) -> datetime:
    """Convert unix time; times before 1970 or after CALENDAR_END become the nearest of the two."""
    return datetime.fromtimestamp(min(max(seconds, 0), CALENDAR_END), UTC)


def instant(seconds: float | None) -> datetime | None:
    """Convert unix time; return None for None and for times that `datetime` cannot hold."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def is_integer(value: object, *, bits: int = 64) -> TypeGuard[int]:
    """Whether a value is an integer, and no bool, that fits into a column of so many bits."""
    return type(value) is int and fits(value, bits)


def fits(value: int, bits: int) -> bool:
    """Whether a signed integer of `bits` bits can hold `value`."""
    return -(1 << bits - 1) <= value < 1 << bits - 1


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a text that a column can hold."""
    return isinstance(value, str) and is_storable(value)
