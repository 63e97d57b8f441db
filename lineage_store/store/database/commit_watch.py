"""Whether anybody may have committed since one looked last, for next to nothing: what who polls asks first.

In: an engine, and a statement for PostgreSQL whose rows change with what is looked for; SQLite itself tells whether
anybody has committed. Out: no where nothing has changed; yes where something may have. Promises: no commit goes
unnoticed, nor that a SQLite file was replaced; no transaction stays open. What fails is a yes: who looks is told why.
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
    """One reader's watch. Not for several threads."""

    def __init__(self, engine: Engine, on_postgresql: str, *, allow_network_filesystem: bool = False) -> None:
        self._path = sqlite_path(engine.url.render_as_string(hide_password=False))
        self._statement = _ON_SQLITE if engine.dialect.name == "sqlite" else on_postgresql
        # What SQLite tells is of one connection, which is kept; the others would wait for it in vain.
        self._engine = apart(engine, allow_network_filesystem=allow_network_filesystem)
        self._connection: PoolProxiedConnection | None = None
        self._seen: tuple[Identity | None, list[Any]] | None = None

    def may_have_changed(self) -> bool:
        """Whether it may be worth looking."""
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
        """Say yes next time: what was looked for was not found out."""
        self._seen = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.invalidate()
        self._connection = self._seen = None
        self._engine.dispose()
