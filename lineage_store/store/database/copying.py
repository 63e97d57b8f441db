"""PostgreSQL's COPY: the way in and out for many rows, where each would go to the server and be answered by itself.

In: a connection, a table, names of its columns, and bytes or rows; or a statement. Out: rows of the table, where a key
that exists already is an error; or the bytes of the statement's rows. Promises: SQLAlchemy's errors, as every statement
has them. Does not know what the table means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError


@contextmanager
def copying(connection: Connection, table: Table, names: Sequence[str], form: str = "TEXT") -> Iterator[Any]:
    """Where bytes of the format, or rows of values, are written into those columns. Raises DBAPIError."""
    columns = ", ".join(f'"{name}"' for name in names)
    statement = f"COPY {table.name} ({columns}) FROM STDIN (FORMAT {form})"
    failure = connection.dialect.loaded_dbapi.Error
    try:
        cursor: Any = connection.connection.cursor()
        with cursor, cursor.copy(statement) as sink:
            yield sink
    except failure as error:
        raise DBAPIError.instance(statement, None, error, failure, dialect=connection.dialect) from error


@contextmanager
def copied(connection: Connection, statement: str) -> Iterator[Iterator[bytes]]:
    """What a COPY … TO STDOUT gives, message by message. Raises DBAPIError."""
    failure = connection.dialect.loaded_dbapi.Error
    try:
        cursor: Any = connection.connection.cursor()
        with cursor, cursor.copy(statement) as source:
            yield iter(source)
    except failure as error:
        raise DBAPIError.instance(statement, None, error, failure, dialect=connection.dialect) from error


def copy_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows that name the same columns."""
    names = tuple(rows[0])
    with copying(connection, table, names) as sink:
        for row in rows:
            sink.write_row([row[name] for name in names])
