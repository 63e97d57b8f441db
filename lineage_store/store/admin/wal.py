"""The write-ahead log of a SQLite store: how large it is, and which readers keep it from being checkpointed.

In: an engine. Out: the log's size, and a finding if it is too large. SQLite writes the log into the database by itself
and starts it over, but not while somebody still reads an older state.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from lineage_store.findings import THE_STORE, Finding, finding
from lineage_store.store.database.engine import sqlite_path
from lineage_store.store.database.filesystem import beside
from lineage_store.store.database.locks import command_of, readers_of
from lineage_store.store.database.sqlite import WAL_KEPT_BYTES

LARGE_BYTES = 4 * WAL_KEPT_BYTES


@dataclass(frozen=True, slots=True)
class WriteAheadLog:
    """The size of a log, and a finding if it is too large."""

    size_bytes: int
    finding: Finding | None = None


def look(engine: Engine, large_bytes: int = LARGE_BYTES) -> WriteAheadLog | None:
    """Return the size of a SQLite store's write-ahead log; None for PostgreSQL, or if there is no log.

    Above `large_bytes`, a finding names the readers that hold the log, if any.
    """
    path = sqlite_path(engine.url)
    if path is None:
        return None
    try:
        size = beside(path, "-wal").stat().st_size
    except FileNotFoundError:
        return None
    if size <= large_bytes:
        return WriteAheadLog(size)
    readers = ", ".join(f"{pid} ({command_of(pid) or 'of another user'})" for pid in readers_of(path))
    if readers:
        held = finding("held_write_ahead_log", THE_STORE, size_bytes=size, readers=readers)
        return WriteAheadLog(size, held)
    return WriteAheadLog(size, finding("large_write_ahead_log", THE_STORE, size_bytes=size))
