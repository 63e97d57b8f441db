"""The write-ahead log of a SQLite store: how large it is, and who keeps it from being taken in.

In: an engine. Out: its size, and a finding where that is unusual. SQLite takes the log into the database by itself and
starts it over, but not while somebody still reads what was there before.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.findings import THE_STORE, Finding, finding
from lineage_store.store.database.engine import sqlite_path
from lineage_store.store.database.locks import command_of, readers_of
from lineage_store.store.database.sqlite import WAL_KEPT_BYTES

LARGE_BYTES = 4 * WAL_KEPT_BYTES


@dataclass(frozen=True, slots=True)
class WriteAheadLog:
    """How large it is, and what is found where that is too much."""

    size_bytes: int
    finding: Finding | None = None


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
    readers = ", ".join(f"{pid} ({command_of(pid) or 'of another user'})" for pid in readers_of(path))
    if readers:
        held = finding("held_write_ahead_log", THE_STORE, size_bytes=size, readers=readers)
        return WriteAheadLog(size, held)
    return WriteAheadLog(size, finding("large_write_ahead_log", THE_STORE, size_bytes=size))
