"""Convert values to what CSV can hold. Pure.

In: values that the Python API returns. Out: values for the csv module, and rows as text. Promises: no text cell can
start a formula in a spreadsheet; numbers stay numbers; NaN and infinities become the words of `extreme_numbers`.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from lineage_store.extreme_numbers import spelled
from lineage_store.json_values import iso
from lineage_store.texts import NOT_IN_SQL, to_stored

_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_CHANGES_IN_CSV = re.compile(rf"\n[{re.escape(''.join(_STARTS_FORMULA))}]|\0")
"""In texts joined by line breaks: finds a text that could start a formula, or a NUL, which CSV cannot hold."""


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
