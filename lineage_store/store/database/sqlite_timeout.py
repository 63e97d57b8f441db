"""A statement timeout for SQLite, like PostgreSQL's `statement_timeout`.

In: a connection and seconds. Out: `sqlite3.OperationalError` (SQLITE_INTERRUPT) from a statement that takes longer,
fetching its rows included. Promises: it ends with the row at which it is, also when each row takes long, because a
thread interrupts it; a row takes no longer than a second, as `patterns` compares long texts in pieces. A signal during
a statement still raises KeyboardInterrupt, although SQLite swallows the exceptions of its handlers.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from lineage_store.store.database import patterns

T = TypeVar("T")

_STEPS_BETWEEN_LOOKS = 500_000
"""Steps of SQLite's virtual machine between two looks for signals: each takes the GIL, which other threads need."""
_AGAIN_S = 0.05
"""Time between two interrupts of the same statement: one that comes just before it begins is lost."""


class _Deadline:
    """When the statement of a connection must have ended, and whether one is running."""

    __slots__ = ("at", "is_running", "lock")

    def __init__(self) -> None:
        self.at, self.is_running, self.lock = math.inf, False, threading.Lock()

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
        self._raised: BaseException | None = None
        patterns.install(self, self._search)

    def end_statements_after(self, seconds: float) -> None:
        """Set the timeout of each statement from now on."""
        self._seconds = seconds
        self.set_progress_handler(self._deadline.is_over, _STEPS_BETWEEN_LOOKS)
        _WATCH.add(self)

    def interrupt(self) -> None:
        """Let the running statement and every later one time out; called from another thread."""
        self._seconds = self._deadline.at = -math.inf
        super().interrupt()

    def cursor(self, *_: Any) -> Any:
        return super().cursor(_TimedCursor)

    def timed(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that begins a statement."""
        with self._deadline.lock:
            self._deadline.at = time.monotonic() + self._seconds
        return self.interruptible(call, *arguments)

    def interruptible(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that executes a part of a statement; raise KeyboardInterrupt if a signal ended it."""
        self._deadline.is_running = True
        try:
            return call(*arguments)
        except sqlite3.OperationalError as error:
            if self._raised is not None:  # SQLite says only that a function raised something
                raised, self._raised = self._raised, None
                raise raised from error
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT and not self._deadline.is_over():
                raise KeyboardInterrupt from error
            raise
        finally:
            with self._deadline.lock:  # so that no interrupt hits the next statement
                self._deadline.is_running = False

    def _search(self, text: str, pattern: str) -> bool:
        try:
            return patterns.matches(text, pattern, self._check)
        except BaseException as error:
            self._raised = error
            raise

    def _check(self) -> None:
        if self._deadline.is_over():
            late = sqlite3.OperationalError("interrupted")
            late.sqlite_errorcode = sqlite3.SQLITE_INTERRUPT
            raise late

    def interrupt_late(self) -> float:
        """Interrupt a statement that runs past its deadline; return the time before which none can."""
        with self._deadline.lock:
            now, deadline = time.monotonic(), self._deadline
            if deadline.is_running and deadline.is_over():
                with suppress(sqlite3.ProgrammingError):  # it was closed
                    super().interrupt()
            return max(now + _AGAIN_S, deadline.at if deadline.is_running else now + self._seconds)


class _Watch:
    """A thread that interrupts the late statements of this process; it sleeps while none can be late."""

    _changed: threading.Condition
    _connections: WeakSet[TimedConnection]
    _thread: threading.Thread | None

    def __init__(self) -> None:
        self.begin()

    def add(self, connection: TimedConnection) -> None:
        """Watch a connection from now on."""
        with self._changed:
            self._connections.add(connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="statement timeouts", daemon=True)
                self._thread.start()
            self._changed.notify()

    def begin(self) -> None:
        """Watch nothing yet: a fork has neither the thread nor a use for the connections of its parent."""
        self._changed, self._thread = threading.Condition(), None
        self._connections = WeakSet()

    def _watch(self) -> None:
        with self._changed:
            while True:
                at = min((each.interrupt_late() for each in list(self._connections)), default=math.inf)
                self._changed.wait(min(at - time.monotonic(), threading.TIMEOUT_MAX))


_WATCH = _Watch()
os.register_at_fork(after_in_child=_WATCH.begin)
