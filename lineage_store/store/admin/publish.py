"""A snapshot of a SQLite store, for others to read.

In: an engine and a file name. Out: a copy of the store at one moment, complete or not there at all.
Promises: the store may be written to meanwhile; readers of an older snapshot keep what they have opened; the snapshot
needs no side files and no write permission, so that any user can open it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.errors import LineageStoreError
from lineage_store.store.admin.replacing import replacing
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
        with replacing(target, mode) as copy:
            copy_file(source, copy)
        return target.stat().st_size
    except (OSError, sqlite3.Error) as error:
        raise LineageStoreError(
            f"The snapshot {target} cannot be written: {error}.",
            hint="Does its directory exist, may this user write there, and is there room?",
        ) from error


def copy_file(source: Path, target: Path) -> None:
    """Write what a store holds at one moment into an empty file. Raises sqlite3.Error."""
    with closing(sqlite3.connect(source)) as reader, closing(sqlite3.connect(target)) as writer:
        reader.backup(writer)
        writer.execute(
            "PRAGMA journal_mode = DELETE"
        )  # the copy says WAL, whose side files a reader must write
