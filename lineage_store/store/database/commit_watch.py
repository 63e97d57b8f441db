"""A cheap check whether anybody may have committed since the last check, to be made before each poll.

In: an engine, and for PostgreSQL a cheap statement whose rows change whenever the polled rows do (SQLite itself says
whether anybody has committed). Out: False if nothing has changed, True if something may have. Promises: no such commit
is missed, nor the replacement of a SQLite file; no transaction stays open; if the check fails it returns True, so that
the poll itself raises the error.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.pool import PoolProxiedConnection

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.database.engine import apart, connected, sqlite_path
from lineage_store.store.database.file_watch import Identity, identity_of

_ON_SQLITE = "PRAGMA data_version"


class CommitWatch:
    """The watch of one reader; not thread-safe."""

    def __init__(self, engine: Engine, on_postgresql: str, *, allow_network_filesystem: bool = False) -> None:
        self._path = sqlite_path(engine.url)
        self._statement = _ON_SQLITE if engine.dialect.name == "sqlite" else on_postgresql
        # SQLite's data_version can only be compared within one connection. That connection is kept, so it must not come
        # from the shared pool, whose other users would wait for it in vain.
        self._engine = apart(engine, allow_network_filesystem=allow_network_filesystem)
        self._connection: PoolProxiedConnection | None = None
        self._seen: tuple[Identity | None, list[Any]] | None = None

    def may_have_changed(self) -> bool:
        """Return whether anything may have changed since the last call; True at the first call."""
        before, file = self._seen, None if self._path is None else identity_of(self._path)
        if self._connection is None or before is None or before[0] != file:
            self.close()
            try:
                self._connection = connected(self._engine)
            except DatabaseUnavailableError:
                return True
            if self._path is None:
                driver: Any = self._connection.dbapi_connection
                driver.autocommit = True
        try:
            found = self._connection.cursor().execute(self._statement).fetchall()
        except self._engine.dialect.loaded_dbapi.Error:
            self.close()
            return True
        self._seen = (file, found)
        return before != self._seen

    def forget(self) -> None:
        """Return True next time, because the poll after the last check did not succeed."""
        self._seen = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
        self._connection = self._seen = None
        self._engine.dispose()
