"""SQLite files as we open them: private to their user, in WAL mode, and nobody else's.

In: the URL of a file that may not exist yet. Out: an engine, nothing connected yet.
Promises: a file is made 0600 and never on a network filesystem; one that is not ours is not touched, one that may not
be written is only read. Does not know transactions (`engine`), nor tables.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, FromClause, create_engine, event
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import URL

from lineage_store.errors import ConfigError, DatabaseUnavailableError
from lineage_store.store.database import file_watch, pool
from lineage_store.store.database.failures import UNABLE_TO_OPEN
from lineage_store.store.database.filesystem import filesystem_type, is_network, refuse_network_filesystem

LEAST_VERSION = (3, 35)
"""The first that knows RETURNING."""
BUSY_TIMEOUT_S = 5.0
_BUSY_PAUSE_S = 0.01
APPLICATION_ID = 0x4C537472
"""`LStr`: marks our files (`file` shows it)."""
WAL_KEPT_BYTES = 64 * 1024 * 1024
"""A write-ahead log that a long reader made longer is cut to this when the reader has ended."""
_CACHE_KIB = 64 * 1024


def make_engine(url: URL, path: Path | None, *, read_only: bool, allow_network_filesystem: bool) -> Engine:
    """An engine for the file `path`, or for a database in memory. Raises ConfigError, UnsafeStoreLocationError."""
    if sqlite3.sqlite_version_info < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise ConfigError(
            f"This Python has SQLite {sqlite3.sqlite_version}; {least} or newer is needed.",
            hint="Use a Python with a newer SQLite, or PostgreSQL.",
        )
    if path is not None:
        if not (read_only or allow_network_filesystem):
            # A published snapshot belongs to someone else: it can be read, from anywhere, and not written.
            read_only = _is_write_protected(path) and is_network(filesystem_type(path))
            if not read_only:
                refuse_network_filesystem(path)
        url = url.set(database=str(path))
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    engine.dialect.statement_compiler = _HintingCompiler
    file_watch.watch(engine, path, reads_snapshots=read_only)
    pool.look_after(engine, pings=False)
    pool.close_what_comes_back_late(engine)

    @event.listens_for(engine, "do_connect")
    def create_private(_dialect: Any, _record: Any, _args: Any, _kwargs: Any) -> None:
        if path is not None and not path.exists() and not read_only:
            _create_private(path)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if read_only or (path is not None and _is_write_protected(path)):
            connection.execute("PRAGMA query_only = ON")
        elif _is_ours_or_empty(connection):
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")

    return engine


class _HintingCompiler(SQLiteCompiler):
    """`Select.with_hint` reaches SQLite too, as in `FROM t INDEXED BY i`; SQLAlchemy leaves it out."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:
        return text


def _is_ours_or_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file may be touched: switching to WAL writes to it. Whose it is is told by `upgrade.check`."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (schema_version,) = connection.execute("PRAGMA schema_version").fetchone()
    return bool(application_id == APPLICATION_ID or schema_version == 0)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a file to WAL, if it is not yet.

    SQLite asks for this lock while it reads, and then does not wait for whoever has it (two could wait for each other):
    of two that open a new file at once, one would fail.
    """
    give_up_at = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > give_up_at:
                raise
        time.sleep(_BUSY_PAUSE_S)


def _create_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise DatabaseUnavailableError(
            f"The SQLite store {path} cannot be made: {error.strerror}.", hint=UNABLE_TO_OPEN
        ) from error


def _is_write_protected(path: Path) -> bool:
    """Whether this user cannot write the file, or nobody is meant to (root can all the same)."""
    if not path.exists():
        return False
    return not os.access(path, os.W_OK) or not path.stat().st_mode & 0o222
