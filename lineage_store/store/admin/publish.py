"""Publish a snapshot of a SQLite store for others to read.

In: an engine and a file name. Out: a complete copy of the store at one moment; if it fails, an older snapshot stays.
Promises: the store may be written meanwhile; readers of an older snapshot can go on reading it; the snapshot needs no
side files and no write permission, so that any user can open it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Engine

from lineage_store.errors import LineageStoreError
from lineage_store.finding_kinds import KINDS
from lineage_store.output_files import replacing
from lineage_store.store.database.engine import sqlite_path
from lineage_store.store.database.failures import is_damage

READ_BY_ALL = 0o444
PAGES_AT_A_TIME = 16_384
"""64 MiB with SQLite's default page size."""


def publish(
    engine: Engine, target: Path, mode: int = READ_BY_ALL, told: Callable[[str], None] = lambda _: None
) -> int:
    """Write a snapshot to `target`, replacing an older one; return its size in bytes.

    Raises LineageStoreError if the store is not a SQLite file, or the snapshot cannot be written.

    Args:
        mode: the file's permissions.
        told: called with the progress, such as "42%".
    """
    source = sqlite_path(engine.url)
    if source is None:
        raise LineageStoreError(
            "Only a SQLite store can be published as a file.",
            hint="On PostgreSQL give readers a role: lineage-store db grant --reader ROLE.",
        )
    if os.path.exists(target) and target.samefile(source):
        raise LineageStoreError(f"{target} is the store itself.", hint="Name another file.")
    try:
        with replacing(target, mode) as copy:
            copy_file(source, copy.path, told)
        return target.stat().st_size
    except (OSError, sqlite3.Error) as error:
        raise LineageStoreError(
            f"The snapshot {target} cannot be written: {error}.",
            hint=KINDS["database_damaged"].remedy
            if is_damage(error)
            else "Does its directory exist, may this user write there, and is there room?",
        ) from error


def copy_file(source: Path, target: Path, told: Callable[[str], None] = lambda _: None) -> None:
    """Copy a store, as it is at one moment, into an empty file; call `told` with the progress. Raises sqlite3.Error."""
    there = f"file:{quote(os.fsencode(target))}?mode=rw"  # it is never made: it could be made elsewhere, behind a link
    with (
        closing(sqlite3.connect(source, isolation_level=None)) as reader,
        closing(sqlite3.connect(there, uri=True)) as writer,
    ):
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the first read fixes the moment
        reader.backup(
            writer,
            pages=PAGES_AT_A_TIME,
            progress=lambda _, left, all_of_them: told(f"{1 - left / max(all_of_them, 1):.0%}"),
        )
        # The copy is in WAL mode, in which a reader would have to write side files.
        writer.execute("PRAGMA journal_mode = DELETE")
