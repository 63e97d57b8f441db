"""A program that runs one SQL statement on a SQLite file, and can only read: `read_only_sql` kills it when it is late.

Nothing interrupts SQLite within a function: one `replace` or `LIKE` of somebody's own SQL may take an hour.

In: from stdin, a message with the database and the statement; the end of stdin ends the program. Out: on stdout,
messages: READY, then ROWS with the columns and the first row, more of them with further rows, and END or ERROR.
A message is its length and its content in `marshal`'s form, which the same Python reads. Promises: an authorizer with a
list of allowed actions refuses everything but reading; no value is longer than LONGEST_VALUE; a message has about
MESSAGE_BYTES, or one row. Imports only the standard library, so that it starts within a moment.
"""

from __future__ import annotations

import marshal
import os
import signal
import sqlite3
import sys
import threading
from typing import IO, Any

LENGTH = 8
"""Bytes of a message's length."""
LONGEST_VALUE = 128 << 20
"""Bytes of a value, and of a row: functions such as `replace` could make one of a gigabyte."""
READY, ROWS, END, ERROR = "ready", "rows", "end", "error"
MESSAGE_BYTES = 1 << 20
_MOST_ROWS = 1000
_CACHE_KIB = 64 * 1024
_ALLOWED_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_ALLOWED_PRAGMAS = (
    *("table_info", "table_xinfo", "table_list", "index_list", "index_info"),
    *("foreign_key_list", "database_list"),
)


def send(stream: IO[bytes], message: Any) -> int:
    """Write a message; return its length."""
    content = marshal.dumps(message)
    stream.write(len(content).to_bytes(LENGTH, "big") + content)
    stream.flush()
    return len(content)


def receive(stream: IO[bytes]) -> Any:
    """Read a message, and not a byte more. Raises EOFError when there is none."""
    length = int.from_bytes(_read(stream, LENGTH), "big")
    return marshal.loads(_read(stream, length))  # noqa: S302 - of the process that this one started, or started this one


def _read(stream: IO[bytes], length: int) -> bytes:
    content = bytearray()
    while len(content) < length:
        more = stream.read(length - len(content))
        if not more:
            raise EOFError
        content += more
    return bytes(content)


def main() -> None:
    """Read the task and do it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    database, statement = receive(sys.stdin.buffer)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    out = sys.stdout.buffer
    try:
        connection = sqlite3.connect(database, uri=database.startswith("file:"))
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA query_only = ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        connection.set_authorizer(_authorize)
        send(out, (READY,))
        cursor = connection.execute(statement)  # returns when the first row is there
        columns = tuple(column[0] for column in cursor.description or ())
        rows, many = cursor.fetchmany(1), 1  # the first row at once, or that there is none
        while rows or many == 1:
            size = send(out, (ROWS, columns, rows))
            many = min(2 * many, _MOST_ROWS) if size < MESSAGE_BYTES else max(2, many // 4)
            rows = cursor.fetchmany(many)
        send(out, (END,))
    except (sqlite3.Error, OverflowError) as error:
        send(out, (ERROR, type(error).__name__, str(error), getattr(error, "sqlite_errorcode", 0)))


def _end_with_stdin() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _by: str | None
) -> int:
    if action == sqlite3.SQLITE_FUNCTION and second == "load_extension":
        return sqlite3.SQLITE_DENY
    reads_schema = action == sqlite3.SQLITE_PRAGMA and first in _ALLOWED_PRAGMAS
    # Table-valued functions such as json_each need this. A real update of sqlite_master fails anyway.
    declares = action == sqlite3.SQLITE_UPDATE and first == "sqlite_master"
    allowed = action in _ALLOWED_ACTIONS or reads_schema or declares
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


if __name__ == "__main__":
    main()
