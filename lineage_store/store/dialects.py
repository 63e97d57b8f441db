"""The few statements that SQLite and PostgreSQL spell in their own modules.

In: a connection and a table. Out: an INSERT that meets an existing key without an error, or one of many plain rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, insert

T = TypeVar("T")


def upsert(connection: Connection, table: Table, keys: Sequence[str], update: Sequence[str] = ()) -> Any:
    """INSERT; where a row with these `keys` exists, set the columns `update`, or leave it alone if none."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite as dialect
    else:
        from sqlalchemy.dialects import postgresql as dialect  # type: ignore[no-redef]  # slow to import
    statement: Any = dialect.insert(table)
    if not update:
        return statement.on_conflict_do_nothing(index_elements=list(keys))
    changed = {name: statement.excluded[name] for name in update}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changed)


def insert_plain(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """INSERT rows of numbers and text, which the driver takes as they are: SQLAlchemy would look at each value."""
    if not rows:
        return
    statement = insert(table).compile(dialect=connection.dialect, column_keys=list(rows[0]))
    names: Sequence[str] | None = statement.positiontup
    values = rows if names is None else [tuple(row[name] for name in names) for row in rows]
    connection.exec_driver_sql(str(statement), values)


def in_parts(items: Iterable[T], size: int = 500) -> Iterator[list[T]]:
    """Cut a list for IN (…) into parts that are few in kind and far from the databases' limits."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
