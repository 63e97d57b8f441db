"""LIKE that can be interrupted, whatever the pattern and however long the text.

In: a text column, and a pattern in lower case with `%`, `_` and the escape ESCAPE. Out: a SQL predicate that ignores
the case of A to Z on both databases. Promises: PostgreSQL interrupts its LIKE itself. SQLite does not, and compares
each character of the pattern at each place of the text, so there its LIKE only gets texts of up to LONGEST_FOR_LIKE
characters; longer ones are searched here, in pieces between which the statement may end.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sqlalchemy import Boolean
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

ESCAPE = "#"
"""The escape character in SQL. Callers write a backslash, but databases differ in how it is quoted."""
LONGEST_FOR_LIKE = 2_000
"""With a pattern of 1,000 characters such a text takes SQLite some 10 ms at worst."""
PIECE = 20_000
"""Characters of a long text that are searched at a time, in 20 ms at worst."""
_NAME = "is_like_in_pieces"
_TOKEN = re.compile(rf"{ESCAPE}(?P<escaped>.)|(?P<any>%)|(?P<one>_)|(?P<literal>[^{ESCAPE}%_]+)", re.DOTALL)

Check = Callable[[], None]
"""Raises an exception when the search must end."""


class is_like(FunctionElement[bool]):  # noqa: N801 - a function of SQL
    """Whether a text matches a pattern in lower case."""

    inherit_cache = True
    type = Boolean()


@compiles(is_like)
def _by_the_database(element: is_like, compiler: Any, **options: Any) -> str:
    text, pattern = (compiler.process(each, **options) for each in element.clauses)
    # `lower` folds only ASCII: always in SQLite, and under the collation "C" in PostgreSQL
    return f"lower({text}) LIKE {pattern} ESCAPE '{ESCAPE}'"


@compiles(is_like, "sqlite")
def _in_pieces(element: is_like, compiler: Any, **options: Any) -> str:
    text, pattern = (compiler.process(each, **options) for each in element.clauses)
    long = f"length({text}) > {LONGEST_FOR_LIKE} THEN {_NAME}(lower({text}), {pattern})"
    return f"CASE WHEN {long} ELSE {_by_the_database(element, compiler, **options)} END"


def install(connection: sqlite3.Connection, search: Callable[[str, str], bool]) -> None:
    """Let a connection search long texts with `search`, which is like `matches`."""

    def answer(text: str | None, pattern: str | None) -> bool | None:
        return None if text is None or pattern is None else search(text, pattern)

    connection.create_function(_NAME, 2, answer, deterministic=True)


def matches(text: str, pattern: str, check: Check = lambda: None) -> bool:
    """Whether all of a text matches. Raises what `check` raises, which is called before each piece."""
    first, *others = _parts(pattern)
    if not others:
        return len(text) == first.length and first.begins(text, 0)
    *middle, last = others
    if len(text) < first.length + last.length or not first.begins(text, 0):
        return False
    place, end = first.length, len(text) - last.length
    for part in middle:
        found = part.find(text, place, end, check)
        if found is None:
            return False
        place = found + part.length
    return place <= end and last.begins(text, end)


class _Part:
    """What is between two `%`: it matches texts of one length."""

    def __init__(self, expression: str, length: int) -> None:
        self._expression, self.length = re.compile(expression, re.DOTALL), length

    def begins(self, text: str, place: int) -> bool:
        return self._expression.match(text, place) is not None

    def find(self, text: str, place: int, end: int, check: Check) -> int | None:
        """Return the first place where it matches before `end`."""
        while place <= end:
            check()
            found = self._expression.search(text, place, min(end, place + PIECE + self.length))
            if found:
                return found.start()
            place += PIECE + 1
        return None


@lru_cache(maxsize=64)
def _parts(pattern: str) -> tuple[_Part, ...]:
    parts, expression, length = [], "", 0
    for token in _TOKEN.finditer(pattern):
        if token["any"]:
            parts.append(_Part(expression, length))
            expression, length = "", 0
        else:
            literal = token["escaped"] or token["literal"] or ""
            expression += "." if token["one"] else re.escape(literal)
            length += 1 if token["one"] else len(literal)
    return (*parts, _Part(expression, length))
