"""What a log file says, in order, however large it is: a scratch database on disk, gone when closed.

In: samples in the order in which they were written, as canonical text. Out: the last write of each step, by series and
step. Promises: memory is bounded; equal values have equal text, and a NaN is what the store keeps of it: nothing.
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
    """One sample as text. -0.0 counts as 0.0: SQLite does not keep it, nor does what was copied from there."""
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
        """The next sample; it replaces an earlier one of its step."""
        number = self._numbers.setdefault(key, len(self._numbers))
        self._waiting.append((number, step, content))
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._write()

    def keys(self) -> set[Key]:
        """The series that the file has."""
        return set(self._numbers)

    def of(self, key: Key) -> Iterator[tuple[int, str]]:
        """Step and content of a series, ascending."""
        self._write()
        query = "SELECT step, content FROM sample WHERE series = ? ORDER BY step"
        yield from self._database.execute(query, [self._numbers.get(key, -1)])

    def _write(self) -> None:
        self._database.executemany("INSERT OR REPLACE INTO sample VALUES (?, ?, ?)", self._waiting)
        self._waiting.clear()
