"""What SQL of SQLite and PostgreSQL has in common, and what of it differs.

In: the kind of database (the name of its dialect), columns, values. Out: conditions on many values, sums, clocks and
column types that mean the same on both; and the cache of compiled statements that all engines share. Does not know how
a statement is run (`session`), nor tables.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    DateTime,
    Dialect,
    Double,
    Engine,
    Integer,
    LargeBinary,
    Text,
    TypeDecorator,
    any_,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from lineage_store.plain_values import LARGEST_INTEGER


@contextmanager
def driver_errors(dialect: Dialect, statement: str | None = None) -> Iterator[None]:
    """Raise SQLAlchemy's errors instead of the driver's own."""
    failure = dialect.loaded_dbapi.Error
    try:
        yield
    except failure as error:
        raise DBAPIError.instance(statement, None, error, failure, dialect=dialect) from error


# ---- Compiled statements, shared by all engines of a process
# In: an engine that was just created. Out: the same engine, which uses what others compiled and lets them use its
# own. Promises: statements, parameters and answers stay the same; the number of cached statements is bounded. Why:
# SQLAlchemy caches compiled statements per engine. Each ingest needs some fifty, which take half a millisecond each
# to compile, and `filter_summary_lineage` without a store may open an engine per call.


_MOST = 1000


class _SharedCache(dict[Any, Any]):
    """Compiled statements, keyed by name and version of the database instead of by the dialect object of one engine."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_of_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self) >= _MOST:
            self.clear()
        super().__setitem__(_of_kind(key), compiled)


def _of_kind(key: Any) -> Any:
    dialect, *statement = key
    return dialect.name, dialect.server_version_info, *statement


_COMPILED = _SharedCache()


def share_compiled(engine: Engine) -> None:
    """Let the engine use the cache of compiled statements that all engines share."""
    engine.update_execution_options(compiled_cache=_COMPILED)


# ---- SQL that differs between SQLite and PostgreSQL


T = TypeVar("T")


def one_of(dialect_name: str, column: ColumnElement[T], values: object) -> ColumnElement[bool]:
    """Return the condition of `among` for a cached statement; `listed` returns the value of its parameter `values`."""
    if dialect_name == "sqlite":
        return column.in_(select(func.json_each(values).table_valued("value").c.value))
    return column == any_(type_coerce(values, ARRAY(column.type)))


def one_of_rows(dialect_name: str, columns: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    """Return the condition of `among_rows` for a cached statement; `listed_rows` returns its parameters."""
    return rows_in(dialect_name, columns, list(map(bindparam, _row_names(dialect_name, len(columns)))))


def rows_in(
    dialect_name: str, columns: Sequence[ColumnElement[Any]], parameters: Sequence[BindParameter[Any]]
) -> ColumnElement[bool]:
    """Return the condition that columns together equal one of the rows in `parameters`, as `listed_rows` gives them."""
    if dialect_name == "sqlite":
        each = func.json_each(parameters[0]).table_valued("value").c.value
        items: Any = select(*(func.json_extract(each, f"$[{n}]") for n in range(len(columns))))
    else:
        typed = [type_coerce(of, ARRAY(column.type)) for of, column in zip(parameters, columns, strict=True)]
        names = [column.name for column in columns]
        items = select(func.unnest(*typed).table_valued(*names, name="given").render_derived())
    return tuple_(*columns).in_(items)


def listed_rows(dialect_name: str, width: int, rows: Iterable[Sequence[int | str]]) -> dict[str, object]:
    """Return rows of `width` values as parameters: one of JSON for SQLite, a list per column for PostgreSQL."""
    if dialect_name == "sqlite":
        return {"rows": json.dumps([list(row) for row in rows])}
    columns = list(zip(*rows, strict=True)) or [()] * width
    return dict(zip(_row_names(dialect_name, width), map(list, columns), strict=True))


def _row_names(dialect_name: str, width: int) -> list[str]:
    return ["rows"] if dialect_name == "sqlite" else [f"rows_{n}" for n in range(width)]


def listed(dialect_name: str, values: Iterable[Any]) -> object:
    """Return values as the value of one parameter: JSON for SQLite, a list for PostgreSQL."""
    return json.dumps(list(values)) if dialect_name == "sqlite" else list(values)


def total(dialect_name: str, numbers: ColumnElement[int]) -> ColumnElement[int]:
    """Return the sum of integers, 0 without rows, at most LARGEST_INTEGER: a sparse file may claim any size."""
    if dialect_name == "sqlite":  # sum() would fail on overflow; CAST stays within 64 bits
        return cast(func.total(numbers), BigInteger)
    return cast(func.least(func.coalesce(func.sum(numbers), 0), LARGEST_INTEGER), BigInteger)


def time_now(dialect_name: str) -> ColumnElement[datetime]:
    """Return the current time of the database's clock, not that of the beginning of the transaction."""
    if dialect_name == "sqlite":
        return literal_column("strftime('%Y-%m-%dT%H:%M:%fZ', 'now')", UtcTime())
    return literal_column("clock_timestamp()", UtcTime())


def instant_of(dialect_name: str, seconds: ColumnElement[Any]) -> ColumnElement[datetime]:
    """Return unix time in seconds, from 1970 to the year 9999, as a point in time, spelt as bound ones are."""
    if dialect_name == "sqlite":
        return func.strftime("%Y-%m-%dT%H:%M:%f000Z", seconds, "unixepoch", type_=UtcTime())
    return func.to_timestamp(seconds, type_=UtcTime())


def unix_ms(dialect_name: str) -> ColumnElement[int]:
    """Return the current time of the database's clock in whole milliseconds since 1970."""
    if dialect_name == "sqlite":
        return literal_column("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", BigInteger())
    return literal_column("CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)", BigInteger())


def time_in(dialect_name: str, seconds: ColumnElement[float]) -> ColumnElement[datetime]:
    """Return the time of the database's clock plus a number of seconds."""
    if dialect_name == "sqlite":
        return func.strftime("%Y-%m-%dT%H:%M:%fZ", "now", seconds.op("||")(" seconds"), type_=UtcTime())
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


# ---- Column types that mean the same on SQLite and PostgreSQL, and the part of a text that an index contains
# `UtcTime`: aware UTC datetimes; `timestamptz` on PostgreSQL, ISO 8601 text with a final Z on SQLite (which its date
# functions read). `Name`: text that compares by code point on both, as Python does. `prefix(text)`: on PostgreSQL,
# whose B-trees refuse texts above some 2,700 bytes, the first INDEXED_CHARACTERS characters; on SQLite the whole
# text. A text shorter than INDEXED_CHARACTERS is its own prefix, so comparing prefixes is enough for it.


Name = Text().with_variant(Text(collation="C"), "postgresql")
Key = Integer()
"""A surrogate key: four bytes on PostgreSQL; on SQLite an alias of the rowid."""
Bytes = LargeBinary()
Float64: Double[float] = Double()
INDEXED_CHARACTERS = 500
"""Characters of a text in PostgreSQL's indexes, of at most four bytes each."""


class UtcTime(TypeDecorator[datetime]):
    """An instant, in UTC, to the microsecond."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> object:
        if value is None or dialect.name != "sqlite":
            return value
        return _iso_text(value)

    def process_result_value(self, value: object, dialect: Dialect) -> datetime | None:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        return value.astimezone(UTC) if isinstance(value, datetime) else None


@lru_cache(maxsize=256)
def _iso_text(instant: datetime) -> str:
    """Cached, because most rows of a write transaction have the same instant."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class prefix(FunctionElement[str]):  # noqa: N801 - a function of SQL
    """The part of a text that an index contains."""

    inherit_cache = True
    type = Name


@compiles(prefix)
def _whole_text(element: prefix, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(prefix, "postgresql")
def _first_characters(element: prefix, compiler: Any, **options: Any) -> str:
    return f"left({compiler.process(element.clauses, **options)}, {INDEXED_CHARACTERS})"


# ---- LIKE that can be interrupted, whatever the pattern and however long the text
# In: a text column, and a pattern in lower case with `%`, `_` and the escape ESCAPE. Out: a SQL predicate that
# ignores the case of A to Z on both databases. Promises: PostgreSQL interrupts its LIKE itself. SQLite does not, and
# compares each character of the pattern at each place of the text, so there its LIKE only gets texts of up to
# LONGEST_FOR_LIKE characters; longer ones are searched here, in pieces between which the statement may end.


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
