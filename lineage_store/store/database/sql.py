"""Statements that are compiled once and then run by the driver itself, without SQLAlchemy's execution.

In: an open connection and a `Select`; pass the same object each time, because compiled statements are cached by it.
Out: the driver's rows: integers, floats and text need no further conversion. Promises: the statement is the one that
SQLAlchemy would run, on the same connection, in the same transaction, with the same errors; SQLAlchemy's events are not
sent. Why: with SQLAlchemy's execution a page takes 1.4 to 1.7x as long (page-*-sqlite-100k), because binding a
statement and describing its rows takes longer than finding them.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Double,
    Engine,
    Insert,
    Integer,
    LargeBinary,
    Select,
    Table,
    Text,
    TypeDecorator,
    Update,
    UpdateBase,
    any_,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
    tuple_,
    type_coerce,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from lineage_store.plain_values import LARGEST_INTEGER

_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Statement:
    """The text and the parameters of a compiled statement, as a driver takes them."""

    text: str
    values: Mapping[str, Any]
    """The values of the parameters, by name."""
    places: Sequence[str] | None
    """The names of the parameters in order, if the text has only `?` for them; else None."""

    def arguments(self, given: Mapping[str, Any]) -> Mapping[str, Any] | tuple[Any, ...]:
        """Return the values as the driver takes them, with those in `given` in place of the statement's own."""
        values = {**self.values, **given}
        return values if self.places is None else tuple([values[name] for name in self.places])


def run(connection: Connection, select: Select[Any], **given: object) -> list[tuple[Any, ...]]:
    """Return the rows of a SELECT; `given` are values of parameters by name. Raises SQLAlchemy's DBAPIError."""
    statement, failure = statement_of(select, connection.dialect), connection.dialect.loaded_dbapi.Error
    cursor: Any = connection.connection.cursor()
    try:
        cursor.execute(statement.text, statement.arguments(given))
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    except failure as error:
        if connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor):
            connection.invalidate(error)  # else the end of the transaction would fail too, and hide the cause
        raise DBAPIError.instance(statement.text, None, error, failure, dialect=connection.dialect) from error
    cursor.close()
    return rows


@contextmanager
def driver_errors(dialect: Dialect, statement: str | None = None) -> Iterator[None]:
    """Raise SQLAlchemy's errors instead of the driver's own."""
    failure = dialect.loaded_dbapi.Error
    try:
        yield
    except failure as error:
        raise DBAPIError.instance(statement, None, error, failure, dialect=dialect) from error


def execute_as_written(connection: Connection, statement: str) -> None:
    """Execute a statement without parameters, whose names may contain a %."""
    connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def statement_of(select: Select[Any], dialect: Dialect) -> Statement:
    """Return a SELECT compiled for the kind of database; each list of values gets a parameter per value."""
    return _statement_of(select, of_kind(dialect))


def of_kind(dialect: Dialect) -> Dialect:
    """Return one dialect for all engines of the same kind: they share compiled statements, and no cache keeps them."""
    return _OF_KIND.setdefault(dialect.name, dialect)


_OF_KIND: dict[str, Dialect] = {}


@lru_cache(_REMEMBERED)
def _statement_of(select: Select[Any], dialect: Dialect) -> Statement:
    compiled = select.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(compiled, SQLCompiler)
    return Statement(str(compiled), compiled.params, compiled.positiontup)


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


# ---- SQL that differs between SQLite and PostgreSQL, and statements for many rows
# In: a connection or the name of a dialect; a table or a statement; rows or values. Out: upserts, conditions on many
# values, sums and clocks in the dialect's SQL; or the rows are written. Promises: the database receives the values
# that SQLAlchemy's own execution would send.


T = TypeVar("T")

_MANY_ROWS = 100
"""From this many rows on, PostgreSQL gets a COPY: as fast as INSERTs for two rows, five times as fast for thousands."""


def upsert(connection: Connection, table: Table, keys: Sequence[str], changing: Sequence[str] = ()) -> Any:
    """Return an INSERT that sets the columns `changing` of an existing row with the same `keys`; none: it stays."""
    return _upsert(connection.dialect.name, table, tuple(keys), tuple(changing))


@cache
def _upsert(dialect_name: str, table: Table, keys: Sequence[str], changing: Sequence[str]) -> Any:
    if dialect_name == "sqlite":
        from sqlalchemy.dialects import sqlite as dialect
    else:
        from sqlalchemy.dialects import postgresql as dialect  # type: ignore[no-redef]  # slow to import
    statement: Any = dialect.insert(table)
    if not changing:
        return statement.on_conflict_do_nothing(index_elements=list(keys))
    changed = {name: statement.excluded[name] for name in changing}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changed)


def insert_plain(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, all of which have the keys of the first. Raises SQLAlchemy's IntegrityError for an existing key."""
    if len(rows) >= _MANY_ROWS and connection.dialect.name == "postgresql":
        copy_rows(connection, table, rows)
    elif rows:
        execute_rows(connection, _insert(table), rows)


@cache
def _insert(table: Table) -> Insert:
    return insert(table)


def update_by_key(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Update one row of the table per given row.

    Args:
        rows: each with a value `of_<column>` for each column of the key, by which the row is found, and the new values
            of other columns by their names; all have the keys of the first.
    """
    if rows:
        execute_rows(connection, _update(table, tuple(rows[0])), rows)


@cache
def _update(table: Table, names: Sequence[str]) -> Update:
    columns: dict[str, Any] = {name: bindparam(name) for name in names if not name.startswith("of_")}
    key = [table.c[name.removeprefix("of_")] == bindparam(name) for name in names if name.startswith("of_")]
    return update(table).where(*key).values(columns)


def execute_rows(connection: Connection, statement: UpdateBase, rows: Sequence[Mapping[str, Any]]) -> int:
    """Execute a statement once per row; return how many rows of the table were affected in all.

    SQLAlchemy would process each value of each row. Here only points in time are converted, because the drivers take
    all other values unchanged. The compiled statement is cached by identity: pass the same object each time.

    Args:
        rows: at least one; all have the keys of the first.
    """
    compiled = _compiled(statement, of_kind(connection.dialect), tuple(rows[0]))
    return connection.exec_driver_sql(compiled.text, compiled.parameters(rows)).rowcount


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    positions: tuple[str, ...] | None
    """The names of the parameters in order, if the driver takes them by position; else None."""
    conversions: Mapping[str, Callable[[Any], Any]]

    def parameters(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        if self.conversions:
            rows = [
                {**row, **{name: convert(row[name]) for name, convert in self.conversions.items()}}
                for row in rows
            ]
        if self.positions is None:
            return list(rows)
        values = itemgetter(*self.positions)  # returns a tuple, because there are at least two
        return [values(row) for row in rows]


@lru_cache(maxsize=256)
def _compiled(statement: UpdateBase, dialect: Dialect, names: Sequence[str]) -> _Compiled:
    compiled: Any = statement.compile(dialect=dialect, column_keys=list(names))
    convert = UtcTime().bind_processor(dialect)
    instants = (name for name, bind in compiled.binds.items() if isinstance(bind.type, UtcTime))
    conversions = dict.fromkeys(instants, convert) if convert and compiled.positional else {}
    return _Compiled(str(compiled), tuple(compiled.positiontup) if compiled.positional else None, conversions)


def among(connection: Connection, column: ColumnElement[T], values: Iterable[T]) -> ColumnElement[bool]:
    """Return the condition that a column has one of some values: like IN (…), with one parameter for all values."""
    return one_of(connection.dialect.name, column, listed(connection.dialect.name, values))


def one_of(dialect_name: str, column: ColumnElement[T], values: object) -> ColumnElement[bool]:
    """Return the condition of `among` for a cached statement; `listed` returns the value of its parameter `values`."""
    if dialect_name == "sqlite":
        return column.in_(select(func.json_each(values).table_valued("value").c.value))
    return column == any_(type_coerce(values, ARRAY(column.type)))


def among_rows(
    connection: Connection, columns: Sequence[ColumnElement[Any]], rows: Iterable[Sequence[int | str]]
) -> ColumnElement[bool]:
    """Return the condition that columns together equal one of some rows: like (a, b) IN ((1, 2), …), for any number."""
    dialect_name = connection.dialect.name
    values = listed_rows(dialect_name, len(columns), rows)
    parameters: list[BindParameter[Any]] = [bindparam(None, value, unique=True) for value in values.values()]
    return _rows_in(dialect_name, columns, parameters)


def one_of_rows(dialect_name: str, columns: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    """Return the condition of `among_rows` for a cached statement; `listed_rows` returns its parameters."""
    return _rows_in(dialect_name, columns, list(map(bindparam, _row_names(dialect_name, len(columns)))))


def _rows_in(
    dialect_name: str, columns: Sequence[ColumnElement[Any]], parameters: Sequence[BindParameter[Any]]
) -> ColumnElement[bool]:
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


# ---- PostgreSQL's COPY: many rows in or out at once, instead of one statement and answer per row
# In: a connection, a table, names of its columns, and bytes or rows; or a COPY statement. Out: rows of the table (a
# key that exists already is an error); or the bytes of the statement's rows. Promises: failures are SQLAlchemy's
# errors, as those of any other statement. Does not know what the table means.


def copying(
    connection: Connection, table: Table, names: Sequence[str], form: str = "TEXT"
) -> AbstractContextManager[Any]:
    """Open a COPY into the columns `names`: write bytes of the format, or rows of values. Raises DBAPIError."""
    columns = ", ".join(f'"{name}"' for name in names)
    return _copy(connection, f"COPY {table.name} ({columns}) FROM STDIN (FORMAT {form})")


@contextmanager
def copied(connection: Connection, statement: str) -> Iterator[Iterator[bytes]]:
    """Run a COPY … TO STDOUT; yield its bytes, message by message. Raises DBAPIError."""
    with _copy(connection, statement) as source:
        yield iter(source)


def copy_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows, at least one, that all name the same columns. Raises DBAPIError."""
    names = tuple(rows[0])
    with copying(connection, table, names) as sink:
        for row in rows:
            sink.write_row([row[name] for name in names])


@contextmanager
def _copy(connection: Connection, statement: str) -> Iterator[Any]:
    with driver_errors(connection.dialect, statement):
        cursor: Any = connection.connection.cursor()
        with cursor, cursor.copy(statement) as copy:
            yield copy


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
