"""Questions that nobody waits for any more: their statements are ended.

In: a question in one thread, and its end in another. Out: the statement at hand fails, as one that takes too long does.
Promises: only statements of that question are ended; a connection whose statement was ended is not used again, for what
ends it may arrive late. Knows what SQLite's and PostgreSQL's drivers call it, nothing of statements.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from lineage_store.errors import DatabaseUnavailableError

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Cancellation:
    """Whether somebody still waits for a question's answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: list[Any] = []
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End what the question runs now, in another thread, and let it run nothing more."""
        with self._lock:
            self._cancelled.set()
            for connection in self._connections:
                end = connection.interrupt if hasattr(connection, "interrupt") else connection.cancel
                end()

    @contextmanager
    def covers(self) -> Iterator[None]:
        """The block is the question."""
        before = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(before)

    @contextmanager
    def _watches(self, connection: Connection) -> Iterator[None]:
        driver = connection.connection.dbapi_connection
        with self._lock:
            self._require_somebody()
            self._connections.append(driver)
        try:
            yield
        finally:
            with self._lock:
                self._connections.remove(driver)
                if self._cancelled.is_set():
                    connection.invalidate()
        self._require_somebody()

    def _require_somebody(self) -> None:
        if self._cancelled.is_set():
            raise DatabaseUnavailableError("Nobody waits for the answer to this question.", cause="timeout")


_CURRENT: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextmanager
def cancellable(connection: Connection) -> Iterator[None]:
    """What runs in the block ends when the question that it belongs to is cancelled."""
    current = _CURRENT.get()
    if current is None:
        yield
        return
    with current._watches(connection):
        yield
