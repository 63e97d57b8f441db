"""A snapshot of a SQLite store, for others to read.

In: an engine and a file name. Out: a copy of the store at one moment, complete or not there at all.
Promises: the store may be written to meanwhile; readers of an older snapshot keep what they have opened; the snapshot
needs no side files and no write permission, so that any user can open it.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.errors import LineageStoreError
from lineage_store.store.database.engine import sqlite_path

READ_BY_ALL = 0o444


def publish(engine: Engine, target: Path, mode: int = READ_BY_ALL) -> int:
    """Write a snapshot to `target`, replacing an older one; returns its size in bytes.

    Raises LineageStoreError when the store is not a SQLite file, or the snapshot cannot be written.
    """
    source = sqlite_path(engine.url.render_as_string(hide_password=False))
    if source is None:
        raise LineageStoreError(
            "Only a SQLite store can be published as a file.",
            hint="On PostgreSQL give readers a role: lineage-store db grant --reader ROLE.",
        )
    if target.exists() and target.samefile(source):
        raise LineageStoreError(f"{target} is the store itself.", hint="Name another file.")
    try:
        return _replace(source, target, mode)
    except (OSError, sqlite3.Error) as error:
        raise LineageStoreError(
            f"The snapshot {target} cannot be written: {error}.",
            hint="Does its directory exist, may this user write there, and is there room?",
        ) from error


def _replace(source: Path, target: Path, mode: int) -> int:
    """Copy beside the target, flush to disk, then rename over it."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(descriptor)
    try:
        _copy(source, name)
        os.chmod(name, mode)
        _flush(name)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _flush(str(target.parent))
    return target.stat().st_size


def _copy(source: Path, name: str) -> None:
    reader, writer = sqlite3.connect(source), sqlite3.connect(name)
    try:
        reader.backup(writer)
        writer.execute(
            "PRAGMA journal_mode = DELETE"
        )  # the copy says WAL, whose side files a reader must write
    finally:
        reader.close()
        writer.close()


def _flush(name: str) -> None:
    descriptor = os.open(name, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
