"""The few statements that SQLite and PostgreSQL spell in their own modules.

In: a connection and a table. Out: an INSERT that meets an existing key without an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

T = TypeVar("T")


def upsert(connection: Connection, table: Table, keys: Sequence[str], update: Sequence[str] = ()) -> Any:
    """INSERT; where a row with these `keys` exists, set the columns `update`, or leave it alone if none."""
    statement: Any = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)
    if not update:
        return statement.on_conflict_do_nothing(index_elements=list(keys))
    changed = {name: statement.excluded[name] for name in update}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changed)


def in_parts(items: Iterable[T], size: int = 500) -> Iterator[list[T]]:
    """Cut a list for IN (…) into parts that are few in kind and far from the databases' limits."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
