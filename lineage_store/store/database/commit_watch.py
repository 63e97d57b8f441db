"""Whether anybody may have committed since one looked last, for next to nothing: what who polls asks first.

In: an engine. Out: no where nothing was committed; yes where something was, or where that cannot be told. Promises: no
commit goes unnoticed, nor that a SQLite file was replaced; no transaction stays open. On PostgreSQL the answer is
always yes: there, what is looked for costs no more than any question would.
"""

from __future__ import annotations

from sqlalchemy import Engine
from sqlalchemy.pool import PoolProxiedConnection

from lineage_store.store.database.engine import apart, connected, sqlite_path
from lineage_store.store.database.file_watch import Identity, identity_of


class CommitWatch:
    """One reader's watch. Not for several threads."""

    def __init__(self, engine: Engine, *, allow_network_filesystem: bool = False) -> None:
        self._path = sqlite_path(engine.url.render_as_string(hide_password=False))
        # What SQLite tells is of one connection, which is kept; the others would wait for it in vain.
        self._engine = apart(engine, allow_network_filesystem=allow_network_filesystem)
        self._connection: PoolProxiedConnection | None = None
        self._seen: tuple[Identity | None, int] | None = None

    def may_have_changed(self) -> bool:
        """Whether it may be worth looking. Raises DatabaseUnavailableError."""
        if self._path is None:
            return True
        before, file = self._seen, identity_of(self._path)
        if self._connection is None or before is None or before[0] != file:
            self.close()
            self._connection = connected(self._engine)
        try:
            ((version,),) = self._connection.cursor().execute("PRAGMA data_version").fetchall()
        except self._engine.dialect.loaded_dbapi.Error:
            self.close()  # what is looked for fails as well, and says why
            return True
        self._seen = (file, version)
        return before != self._seen

    def forget(self) -> None:
        """Say yes next time: what was looked for was not found out."""
        self._seen = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._seen = None
        self._engine.dispose()
