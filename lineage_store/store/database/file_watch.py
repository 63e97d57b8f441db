"""A SQLite file that was removed or replaced while it was open: what is written to it goes nowhere.

In: an engine on a SQLite file. Out: at the next use of a connection, a `DatabaseUnavailableError`: `gone` as long as
there is no file, `replaced` once. Where snapshots are read, being replaced is the rule: nothing is said. Promises: no
empty file is made in place of one that is gone; a file is never read with the write-ahead log of the one before it,
which SQLite would take for its own. Does not know what the files hold.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry

from lineage_store.errors import DatabaseUnavailableError

GONE, REPLACED = "gone", "replaced"
Identity = tuple[int, int]
"""Of a file, whatever its name: device and inode."""


@dataclass(slots=True)
class _Known:
    opened: bool = False
    old_log: Identity | None = None
    """The write-ahead log of a file that is gone, still in its place."""


def watch(engine: Engine, path: Path | None, *, reads_snapshots: bool) -> None:
    """See at each use of a connection whether the file (None: memory) is still the one that was opened."""
    if path is None:
        return
    known, log_path = _Known(), Path(f"{os.path.realpath(path)}-wal")

    @event.listens_for(engine, "do_connect")
    def refuse(*_: Any) -> None:
        if known.opened and not path.exists():
            raise _gone(path)
        if known.old_log is not None and identity_of(log_path) == known.old_log:
            raise _replaced(path, f"Remove {log_path.name} and {path.name}-shm: they belong to the old one.")

    @event.listens_for(engine, "connect")
    def remember(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info["file"], known.opened = identity_of(path), not reads_snapshots

    @event.listens_for(engine, "checkout")
    def compare(_connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        found = identity_of(path)
        if found == record.info["file"]:
            return
        if found is not None and (log := identity_of(log_path)) in _held_open():
            known.old_log = log
        if reads_snapshots:
            raise InvalidatePoolError
        engine.dispose()
        raise _gone(path) if found is None else _replaced(path, "Try again: the new one is used from now on.")


def identity_of(path: Path) -> Identity | None:
    """Which file is at a path now; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _held_open() -> set[Identity | None]:
    """The files that this process has open, as far as the system tells."""
    try:
        return {identity_of(Path("/proc/self/fd", number)) for number in os.listdir("/proc/self/fd")} - {None}
    except OSError:
        return set()


def _gone(path: Path) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        f"The SQLite store {path} was removed while it was in use.",
        hint="Put it back, or make a new one: lineage-store init.",
        cause=GONE,
    )


def _replaced(path: Path, hint: str) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        f"The SQLite store {path} was replaced by another file while it was in use.",
        hint=hint,
        cause=REPLACED,
    )
