"""A statement timeout for SQLite, like PostgreSQL's `statement_timeout`.

In: a connection and seconds. Out: `sqlite3.OperationalError` (SQLITE_INTERRUPT) from a statement that takes longer,
fetching its rows included. Promises: a signal during a statement still raises KeyboardInterrupt, although SQLite
swallows the exceptions of its handlers.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_STEPS_BETWEEN_LOOKS = 500_000
"""Steps of SQLite's virtual machine between two checks, some 10 ms: each takes the GIL, which other threads need."""


class _Deadline:
    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = math.inf

    def is_over(self) -> bool:
        return time.monotonic() > self.at


class _TimedCursor(sqlite3.Cursor):
    """Starts its connection's deadline with each statement."""

    connection: TimedConnection

    def execute(self, *arguments: Any) -> Any:
        return self.connection.timed(super().execute, *arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self.connection.timed(super().executemany, *arguments)

    def fetchone(self) -> Any:
        return self.connection.interruptible(super().fetchone)

    def fetchmany(self, *arguments: Any) -> list[Any]:
        return self.connection.interruptible(super().fetchmany, *arguments)

    def fetchall(self) -> list[Any]:
        return self.connection.interruptible(super().fetchall)


class TimedConnection(sqlite3.Connection):
    """A connection whose statements can have a timeout."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seconds, self._deadline = math.inf, _Deadline()

    def end_statements_after(self, seconds: float) -> None:
        """Set the timeout of each statement from now on."""
        self._seconds = seconds
        self.set_progress_handler(self._deadline.is_over, _STEPS_BETWEEN_LOOKS)

    def interrupt(self) -> None:
        """Let the running statement and every later one time out; called from another thread."""
        self._seconds = self._deadline.at = -math.inf
        super().interrupt()

    def cursor(self, *_: Any) -> Any:
        return super().cursor(_TimedCursor)

    def timed(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that begins a statement."""
        self._deadline.at = time.monotonic() + self._seconds
        return self.interruptible(call, *arguments)

    def interruptible(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that executes a part of a statement; raise KeyboardInterrupt if a signal ended it."""
        try:
            return call(*arguments)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT and not self._deadline.is_over():
                raise KeyboardInterrupt from error
            raise
