"""PostgreSQL's COPY: many rows in or out at once, instead of one statement and answer per row.

In: a connection, a table, names of its columns, and bytes or rows; or a COPY statement. Out: rows of the table (a key
that exists already is an error); or the bytes of the statement's rows. Promises: failures are SQLAlchemy's errors, as
those of any other statement. Does not know what the table means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sqlalchemy import Connection, Table

from lineage_store.store.database.statements import driver_errors


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
