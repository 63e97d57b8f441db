"""SQLite files: how they are created, opened and set up.

In: the URL of a file that may not exist yet. Out: an engine that has not connected yet.
Promises: a file is created with mode 0600 and, unless the caller allows it, never on a network filesystem; the settings
of a file that another application made are not changed; a write-protected file is only read; an engine for reading only
creates no store, and no files beside a store that this user may not write. Does not know transactions (`engine`), nor
tables.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, FromClause, create_engine, event
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import URL

from lineage_store.errors import ConfigError, DatabaseUnavailableError, PermissionDeniedError
from lineage_store.store.database import file_watch, patterns, pool
from lineage_store.store.database.failures import UNABLE_TO_OPEN, is_damage
from lineage_store.store.database.filesystem import (
    beside,
    filesystem_type,
    is_network,
    refuse_network_filesystem,
)
from lineage_store.store.database.sqlite_timeout import TimedConnection

LEAST_VERSION = (3, 35)
"""The first version with RETURNING."""
BUSY_TIMEOUT_S = 5.0
_BUSY_PAUSE_S = 0.01
APPLICATION_ID = 0x4C537472
"""`LStr` in ASCII: marks our files (the command `file` shows it)."""
WAL_KEPT_BYTES = 64 * 1024 * 1024
"""SQLite cuts the write-ahead log to this size when it reuses it: a long reader may have made it longer."""
_STEPS_BETWEEN_LOOKS = 1_000
_CACHE_KIB = 64 * 1024
_WAL_VERSION = slice(18, 20)
"""The bytes of a file's header that say whether it is in WAL mode."""


def make_engine(
    url: URL,
    path: Path | None,
    *,
    read_only: bool,
    allow_network_filesystem: bool,
    pool_size: int,
    statement_timeout_s: float,
) -> Engine:
    """Make an engine for the file `path`, or for a database in memory if it is None.

    Raises ConfigError, UnsafeStoreLocationError, PermissionDeniedError.
    """
    if sqlite3.sqlite_version_info < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise ConfigError(
            f"This Python has SQLite {sqlite3.sqlite_version}; {least} or newer is needed.",
            hint="Use a Python with a newer SQLite, or PostgreSQL.",
        )
    if path is not None:
        _refuse_out_of_reach(path)
    read_only = read_only or (path is not None and _is_only_read(path, allow_network_filesystem))
    connecting: dict[str, Any] = {"timeout": BUSY_TIMEOUT_S}
    if statement_timeout_s:
        connecting["factory"] = TimedConnection
    if path is None:
        engine = create_engine(url, connect_args=connecting)
    else:
        bounds = pool.bounded(pool_size)
        engine = create_engine(url.set(database=str(path)), connect_args=connecting, **bounds)
    engine.dialect.statement_compiler = _HintingCompiler
    file_watch.watch(engine, path, reads_snapshots=read_only)
    pool.look_after(engine, pings=False)

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        if path is not None and read_only:
            arguments[0], options["uri"] = read_only_uri(path), True
        elif path is not None and not path.exists():
            _create_private(path)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        if isinstance(connection, TimedConnection):
            connection.end_statements_after(statement_timeout_s)
        else:
            patterns.install(connection, patterns.matches)
        _prepare(connection, query_only=read_only or (path is not None and _is_write_protected(path)))

    return engine


def _prepare(connection: sqlite3.Connection, *, query_only: bool) -> None:
    connection.isolation_level = None  # else the driver begins transactions of its own
    harden(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    if query_only:
        connection.execute("PRAGMA query_only = ON")
    elif _is_ours_or_empty(connection):
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")


def harden(connection: sqlite3.Connection) -> None:
    """Let nothing in a file's schema call a function that does more than compute, and read no page without checks."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def look_for_damage(path: Path, within_s: float) -> tuple[str | None, bool]:
    """Check the structure of every page, then rows against their indexes, for `within_s` at most.

    Return what SQLite says of the first damage, None if it found none, and whether it came to the end of the pages.
    """
    end = time.monotonic() + within_s
    is_checked = False
    with closing(sqlite3.connect(read_only_uri(path), uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
        harden(connection)
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS_BETWEEN_LOOKS)
        try:
            for check in ("quick_check", "integrity_check"):
                (said,) = connection.execute(f"PRAGMA {check}(1)").fetchone()
                is_checked = True
                if said != "ok":
                    return said.partition("\n")[0], True
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                return str(error), True
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
    return None, is_checked


def _refuse_out_of_reach(path: Path) -> None:
    """Raise PermissionDeniedError if this user may not even see whether the file exists."""
    try:
        path.stat()
    except PermissionError as error:
        raise PermissionDeniedError(
            f"The SQLite store {path} cannot be reached: this user may not look into its directory.",
            hint="Be its user, or read a snapshot that its user makes (`lineage-store publish FILE`).",
            cause="closed",
        ) from error
    except OSError:
        return


def _is_only_read(path: Path, allow_network_filesystem: bool) -> bool:
    """Return whether the file is a published snapshot, which may be on a network filesystem and is only read.

    Raises UnsafeStoreLocationError if another file would be on a network filesystem.
    """
    if allow_network_filesystem:
        return False
    if _is_write_protected(path) and is_network(filesystem_type(path)):
        return True
    refuse_network_filesystem(path)
    return False


class _HintingCompiler(SQLiteCompiler):
    """Writes the hints of `Select.with_hint`, such as `INDEXED BY i`, which SQLAlchemy leaves out for SQLite."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:
        return text


def _is_ours_or_empty(connection: sqlite3.Connection) -> bool:
    """Return whether the file may be switched to WAL, which writes to it. `upgrade.check` reports files of others."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (schema_version,) = connection.execute("PRAGMA schema_version").fetchone()
    return bool(application_id == APPLICATION_ID or schema_version == 0)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a file to WAL mode, if it is not in it yet; try again while the file is locked.

    SQLite's busy timeout does not apply here: SQLite requests this lock while it holds a read lock, and fails at once
    to avoid a deadlock. Of two processes that open a new file at the same time, one would fail.
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


def read_only_uri(path: Path) -> str:
    """Return the URI by which SQLite opens a file for reading only. Raises DatabaseUnavailableError if it cannot."""
    uri = f"file:{quote(os.fsencode(path))}?mode=ro"
    if not path.exists() or os.access(path, os.W_OK):
        return uri
    log, index = beside(path, "-wal"), beside(path, "-shm")
    if _has_write_ahead_log(path) and not (log.exists() and index.exists()):
        raise DatabaseUnavailableError(
            f"The SQLite store {path} cannot be read now: it keeps a write-ahead log, nobody has it open, and "
            f"this user may not make {log.name} and {index.name}, without which SQLite does not read it.",
            hint="Read it while its user's daemon runs, read a snapshot that its user makes "
            "(`lineage-store publish FILE`), or be its user.",
            cause="closed",
        )
    return f"{uri}&readonly_shm=1"  # a -shm file that this user creates would lock the store's user out


def _has_write_ahead_log(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(_WAL_VERSION.stop)[_WAL_VERSION] == b"\2\2"
    except OSError:
        return False


def _is_write_protected(path: Path) -> bool:
    """Return whether this user cannot write the file, or its mode lets nobody write it (root could all the same)."""
    if not path.exists():
        return False
    return not os.access(path, os.W_OK) or not path.stat().st_mode & 0o222
