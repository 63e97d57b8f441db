"""PostgreSQL's COPY: the way in for many rows, where INSERT would go to the server and be answered row by row.

In: a connection, a table, names of its columns; then bytes or rows. Out: rows of the table; a key that exists already
is an error. Promises: SQLAlchemy's errors, as every statement has them. Does not know what the table means.
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


def copy_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows that name the same columns."""
    names = tuple(rows[0])
    with copying(connection, table, names) as sink:
        for row in rows:
            sink.write_row([row[name] for name in names])
