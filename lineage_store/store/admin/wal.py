"""The write-ahead log of a SQLite store: how large it is, and who keeps it from being taken in.

In: an engine. Out: its size, and a warning where that is unusual. SQLite takes the log into the database by itself and
starts it over, but not while somebody still reads what was there before.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.store.database.engine import sqlite_path
from lineage_store.store.database.locks import command_of, readers_of
from lineage_store.store.database.sqlite import WAL_KEPT_BYTES

LARGE_BYTES = 4 * WAL_KEPT_BYTES


@dataclass(frozen=True, slots=True)
class WriteAheadLog:
    """Its size; and where that is large, why, and what to do."""

    size_bytes: int
    warning: str | None = None
    remedy: str | None = None


def look(engine: Engine, large_bytes: int = LARGE_BYTES) -> WriteAheadLog | None:
    """The write-ahead log of a SQLite store; None for PostgreSQL and where there is none."""
    path = sqlite_path(engine.url.render_as_string(hide_password=False))
    if path is None:
        return None
    try:
        size = Path(f"{path}-wal").stat().st_size
    except FileNotFoundError:
        return None
    if size <= large_bytes:
        return WriteAheadLog(size)
    text = f"The write-ahead log has {size:,} bytes; reads get slower, and the disk may fill."
    readers = ", ".join(f"{pid} ({command_of(pid) or 'of another user'})" for pid in readers_of(path))
    if readers:
        return WriteAheadLog(
            size,
            f"{text} It grows while somebody reads an old state: process {readers}.",
            "End the long reader.",
        )
    return WriteAheadLog(size, text, "Nobody reads now: the next write takes it in and cuts it back.")
