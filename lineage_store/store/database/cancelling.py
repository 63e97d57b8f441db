"""Cancel the statements of a question whose answer nobody waits for any more.

In: a question that runs in one thread, and `cancel` from another thread. Out: the question's running statement fails
like one that takes too long. Promises: only statements of that question are cancelled; its connections are not used
again, because a cancellation may reach the server late. Does not know what the statements are.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from lineage_store.errors import Cause, DatabaseUnavailableError

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Cancellation:
    """The handle to cancel one question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: list[Any] = []
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End the question's running statement, from another thread, and let it run no other statement."""
        with self._lock:
            self._cancelled.set()
            for connection in self._connections:
                end = connection.interrupt if hasattr(connection, "interrupt") else connection.cancel
                end()

    @contextmanager
    def covers(self) -> Iterator[None]:
        """Make this handle cancel what the block runs."""
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
            raise DatabaseUnavailableError("The client no longer waits for this answer.", cause=Cause.TIMEOUT)


_CURRENT: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextmanager
def cancellable(connection: Connection) -> Iterator[None]:
    """End the block's statements on `connection` when the current question is cancelled.

    Raises DatabaseUnavailableError with the cause "timeout" if the question was cancelled before or meanwhile.
    """
    current = _CURRENT.get()
    if current is None:
        yield
        return
    with current._watches(connection):
        yield
