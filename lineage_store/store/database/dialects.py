"""SQL that differs between SQLite and PostgreSQL, and statements for many rows.

In: a connection or the name of a dialect; a table or a statement; rows or values. Out: upserts, conditions on many
values, sums and clocks in the dialect's SQL; or the rows are written.
Promises: the database receives the values that SQLAlchemy's own execution would send.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Dialect,
    Insert,
    Table,
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

from lineage_store.extreme_numbers import LARGEST_INTEGER
from lineage_store.store.database.copying import copy_rows
from lineage_store.store.database.statements import of_kind
from lineage_store.store.database.types import UtcTime

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
