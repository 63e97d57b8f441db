"""The samples of a log file, sorted, in a temporary database on disk that is deleted when closed.

In: samples in the order of the file, as canonical text. Out: the last sample of each step, by series and step.
Promises: memory is bounded, except for the names of series; equal values have equal text; NaN becomes null, as in the
store.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

Key = tuple[str, str]
"""(plugin, tag)."""

_ROWS_AT_ONCE = 10_000


def canonical(values: Iterable[Any]) -> str:
    """Return one sample as text. -0.0 becomes 0.0, as SQLite does not keep it, nor does a store copied from SQLite."""
    return json.dumps([_plain(value) for value in values])


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else value + 0.0


class Claims:
    """The samples of one log file. A context manager."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(
            "CREATE TABLE sample (series INTEGER, step INTEGER, content TEXT, PRIMARY KEY (series, step)) WITHOUT ROWID"
        )
        self._database.execute("BEGIN")
        self._numbers: dict[Key, int] = {}
        self._waiting: list[tuple[int, int, str]] = []

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, key: Key, step: int, content: str) -> None:
        """Add a sample; it replaces an earlier one of the same step."""
        number = self._numbers.setdefault(key, len(self._numbers))
        self._waiting.append((number, step, content))
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._write()

    def keys(self) -> set[Key]:
        """Return the series of the file."""
        return set(self._numbers)

    def of(self, key: Key) -> Iterator[tuple[int, str]]:
        """Yield (step, content) of a series by ascending step."""
        self._write()
        query = "SELECT step, content FROM sample WHERE series = ? ORDER BY step"
        yield from self._database.execute(query, [self._numbers.get(key, -1)])

    def _write(self) -> None:
        self._database.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?)", self._waiting)
        self._waiting.clear()
