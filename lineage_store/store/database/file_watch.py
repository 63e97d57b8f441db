"""Detect that a SQLite file or its write-ahead log was removed or replaced while open: writes to it would be lost.

In: an engine on a SQLite file. Out: at the next use of a connection, a `DatabaseUnavailableError` with the cause `gone`
as long as there is no file, or `replaced`, once. A reader of snapshots connects anew without an error, because they are
meant to be replaced. Promises: a removed file is not made anew as an empty one; a new file is never read with the
write-ahead log of the old one, which SQLite would not notice; if the log alone was removed, its content is first
written into the file if that is safe. Does not know the content of the files.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.finding_kinds import KINDS
from lineage_store.store.database.filesystem import beside

GONE, REPLACED = "gone", "replaced"
_NEVER_REMOVE = (
    "Never remove {} while the store is open: labels and remarks that were written last may be lost. Try again: what "
    "is missing of log files is read again."
)
Identity = tuple[int, int]
"""Device and inode of a file."""


@dataclass(slots=True)
class _Known:
    """What an engine knows of a store's file, its write-ahead log (-wal) and the log's index (-shm)."""

    path: Path
    log: Path
    index: Path
    opened: bool = False
    old_log: Identity | None = None
    """The write-ahead log of a removed or replaced file, if the log is still in its place."""


def watch(engine: Engine, path: Path | None, *, reads_snapshots: bool) -> None:
    """Check at each use of a connection that the file is still the one that was opened; None: a database in memory."""
    if path is None:
        return
    log_path, index_path = beside(path, "-wal"), beside(path, "-shm")
    known = _Known(path, log_path, index_path)

    @event.listens_for(engine, "do_connect")
    def refuse(*_: Any) -> None:
        if known.opened and not path.exists():
            raise _gone(path)
        if known.old_log is not None and identity_of(log_path) == known.old_log:
            raise _replaced(
                path, f"Remove {log_path.name} and {index_path.name}: they belong to the old one."
            )

    @event.listens_for(engine, "connect")
    def remember(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info["file"], known.opened = identity_of(path), not reads_snapshots

    @event.listens_for(engine, "checkout")
    def compare(connection: sqlite3.Connection, record: ConnectionPoolEntry, _proxy: Any) -> None:
        found = identity_of(path)
        if found == record.info["file"]:
            _see_its_log(engine, known, connection, record)
            return
        if found is not None and (log := identity_of(log_path)) in _held_open():
            known.old_log = log
        if reads_snapshots:
            raise InvalidatePoolError
        engine.dispose()
        raise _gone(path) if found is None else _replaced(path, KINDS["database_replaced"].remedy)


def _see_its_log(
    engine: Engine, known: _Known, connection: sqlite3.Connection, record: ConnectionPoolEntry
) -> None:
    """Raise if the log that a connection writes is not in its place any more; first try to write it into the file."""
    log, index = identity_of(known.log), identity_of(known.index)
    opened = record.info.get("log")
    if opened is None or opened[0] == log:
        record.info["log"] = log and (log, index)  # SQLite makes the log when it first reads
        return
    if opened[1] == index:  # all processes still share this index, so a checkpoint is safe
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(FULL)")
    engine.dispose()
    raise _replaced(known.path, _NEVER_REMOVE.format(known.log.name), lost=known.log.name)


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the file that is at a path now; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _held_open() -> set[Identity | None]:
    """Return the files that this process has open; none where there is no /proc."""
    try:
        return {identity_of(Path("/proc/self/fd", number)) for number in os.listdir("/proc/self/fd")} - {None}
    except OSError:
        return set()


def _gone(path: Path) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        f"The SQLite store {path} was removed while it was in use.",
        hint=KINDS["database_gone"].remedy,
        cause=GONE,
    )


def _replaced(path: Path, hint: str, *, lost: str | None = None) -> DatabaseUnavailableError:
    how = f"lost its write-ahead log {lost}" if lost else "was replaced by another file"
    return DatabaseUnavailableError(
        f"The SQLite store {path} {how} while it was in use.", hint=hint, cause=REPLACED
    )
