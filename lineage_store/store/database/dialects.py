"""The few statements that SQLite and PostgreSQL spell in their own modules, and those of many rows.

In: a connection, a table or a statement, rows or values. Out: an INSERT that meets an existing key without an error; a
condition on one of many values; a statement executed for each of many rows; the clock.
Promises: the values arrive as SQLAlchemy's own execution would send them.
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
    literal,
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
"""So many are copied: five times as fast as INSERTs where they are thousands, as fast where they are two."""


def upsert(connection: Connection, table: Table, keys: Sequence[str], changing: Sequence[str] = ()) -> Any:
    """INSERT; where a row with these `keys` exists, set the columns `changing`, or leave it alone if none."""
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
    """Add rows that name the same columns."""
    if len(rows) >= _MANY_ROWS and connection.dialect.name == "postgresql":
        copy_rows(connection, table, rows)
    elif rows:
        execute_rows(connection, _insert(table), rows)


@cache
def _insert(table: Table) -> Insert:
    return insert(table)


def update_by_key(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """UPDATE a row for each, the one whose `column` is `of_column`, to the other values; all name the same columns."""
    if rows:
        execute_rows(connection, _update(table, tuple(rows[0])), rows)


@cache
def _update(table: Table, names: Sequence[str]) -> Update:
    columns: dict[str, Any] = {name: bindparam(name) for name in names if not name.startswith("of_")}
    key = [table.c[name.removeprefix("of_")] == bindparam(name) for name in names if name.startswith("of_")]
    return update(table).where(*key).values(columns)


def execute_rows(connection: Connection, statement: UpdateBase, rows: Sequence[Mapping[str, Any]]) -> int:
    """Execute a statement for each row; give back how many rows of the database it met.

    SQLAlchemy would look at each value of each row; here only instants are converted, for the drivers take all else as
    it is. What was compiled is found again by the statement's identity: pass the same object each time.

    Args:
        rows: at least one; all have the keys of the first.
    """
    compiled = _compiled(statement, of_kind(connection.dialect), tuple(rows[0]))
    return connection.exec_driver_sql(compiled.text, compiled.parameters(rows)).rowcount


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    positions: tuple[str, ...] | None
    """The parameters' names in their order, where the driver counts them instead of naming them."""
    conversions: Mapping[str, Callable[[Any], Any]]

    def parameters(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        if self.conversions:
            rows = [
                {**row, **{name: convert(row[name]) for name, convert in self.conversions.items()}}
                for row in rows
            ]
        if self.positions is None:
            return list(rows)
        values = itemgetter(*self.positions)  # a tuple, for there are two at least
        return [values(row) for row in rows]


@lru_cache(maxsize=256)
def _compiled(statement: UpdateBase, dialect: Dialect, names: Sequence[str]) -> _Compiled:
    compiled: Any = statement.compile(dialect=dialect, column_keys=list(names))
    convert = UtcTime().bind_processor(dialect)
    instants = (name for name, bind in compiled.binds.items() if isinstance(bind.type, UtcTime))
    conversions = dict.fromkeys(instants, convert) if convert and compiled.positional else {}
    return _Compiled(str(compiled), tuple(compiled.positiontup) if compiled.positional else None, conversions)


def among(connection: Connection, column: ColumnElement[T], values: Iterable[T]) -> ColumnElement[bool]:
    """Whether a column has one of some values, as IN (…) would say: one parameter holds them, however many they are."""
    return one_of(connection.dialect.name, column, listed(connection.dialect.name, values))


def one_of(dialect_name: str, column: ColumnElement[T], values: object) -> ColumnElement[bool]:
    """The same for a statement that is kept: `values` is a parameter, to which `listed` gives its value."""
    if dialect_name == "sqlite":
        return column.in_(select(func.json_each(values).table_valued("value").c.value))
    return column == any_(type_coerce(values, ARRAY(column.type)))


def among_rows(
    connection: Connection, columns: Sequence[ColumnElement[Any]], rows: Iterable[Sequence[int | str]]
) -> ColumnElement[bool]:
    """Whether columns together are one of some rows, as (a, b) IN ((1, 2), …) would say, however many they are."""
    if connection.dialect.name == "sqlite":
        each = func.json_each(json.dumps([list(row) for row in rows])).table_valued("value").c.value
        items: Any = select(*(func.json_extract(each, f"$[{n}]") for n in range(len(columns))))
    else:
        lists = list(zip(*rows, strict=True)) or [()] * len(columns)
        each_list = (literal(list(of), ARRAY(column.type)) for of, column in zip(lists, columns, strict=True))
        names = [column.name for column in columns]
        items = select(func.unnest(*each_list).table_valued(*names, name="given").render_derived())
    return tuple_(*columns).in_(items)


def listed(dialect_name: str, values: Iterable[Any]) -> object:
    """Values as one parameter."""
    return json.dumps(list(values)) if dialect_name == "sqlite" else list(values)


def total(dialect_name: str, numbers: ColumnElement[int]) -> ColumnElement[int]:
    """The sum of whole numbers, 0 of none; it goes no further than 64 bits, for a file of holes has any size."""
    if dialect_name == "sqlite":  # whose sum() fails there, and whose CAST stays within 64 bits
        return cast(func.total(numbers), BigInteger)
    return cast(func.least(func.coalesce(func.sum(numbers), 0), LARGEST_INTEGER), BigInteger)


def time_now(dialect_name: str) -> ColumnElement[datetime]:
    """The database's clock, at this moment rather than at the transaction's beginning."""
    if dialect_name == "sqlite":
        return literal_column("strftime('%Y-%m-%dT%H:%M:%fZ', 'now')", UtcTime())
    return literal_column("clock_timestamp()", UtcTime())


def unix_ms(dialect_name: str) -> ColumnElement[int]:
    """The database's clock in whole milliseconds since 1970."""
    if dialect_name == "sqlite":
        return literal_column("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", BigInteger())
    return literal_column("CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)", BigInteger())


def time_in(dialect_name: str, seconds: ColumnElement[float]) -> ColumnElement[datetime]:
    """What the database's clock will show in so many seconds."""
    if dialect_name == "sqlite":
        return func.strftime("%Y-%m-%dT%H:%M:%fZ", "now", seconds.op("||")(" seconds"), type_=UtcTime())
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
