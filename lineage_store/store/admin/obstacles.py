"""Find out without writing what keeps a store from being written now.

In: an engine that can be read. Out: a finding, or None. Does not find a full disk under PostgreSQL: only a write does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, text

from lineage_store.errors import Cause
from lineage_store.findings import THE_STORE, Finding, finding, of_database
from lineage_store.paths import beside
from lineage_store.program import command_of
from lineage_store.store.database.connections import WAL_KEPT_BYTES
from lineage_store.store.database.db import reading, sqlite_path
from lineage_store.store.database.failures import ONLY_READS, locked_remedy, of_disk, readers_of, writer_of
from lineage_store.store.database.sql import Session

# A setting of the role is no obstacle: the role may be an analyst's, who is meant to read only.
_READS_ONLY = text("""
SELECT pg_is_in_recovery() OR EXISTS (
  SELECT FROM pg_settings
  WHERE name = 'default_transaction_read_only' AND setting = 'on'
    AND source IN ('database', 'configuration file', 'command line', 'environment variable')
)
""")
_BLOCKER = text("""
SELECT blocker.pid, blocker.usename, blocker.xact_start
FROM pg_locks waiting
JOIN pg_stat_activity waiter ON waiter.pid = waiting.pid AND waiter.datname = current_database()
CROSS JOIN unnest(pg_blocking_pids(waiting.pid)) AS blocked_by(pid)
JOIN pg_stat_activity blocker ON blocker.pid = blocked_by.pid
WHERE NOT waiting.granted AND waiting.waitstart < clock_timestamp() - interval '1 second'
ORDER BY blocker.xact_start, blocker.pid
LIMIT 1
""")


def obstacle_to(engine: Engine) -> Finding | None:
    """Return what keeps the store from being written; None if nothing was found."""
    path = sqlite_path(engine.url)
    if path is not None:
        return _to_file(path)
    with reading(engine) as session:
        return _to_server(session)


def _to_file(path: Path) -> Finding | None:
    if (found := of_disk(path)) is not None:
        cause, remedy = found
        return of_database(cause, remedy=remedy)
    return None if writer_of(path) is None else of_database(Cause.LOCKED, remedy=locked_remedy(path))


def _to_server(session: Session) -> Finding | None:
    if session.value(_READS_ONLY):
        return of_database(Cause.READ_ONLY, remedy=ONLY_READS)
    blocker = session.first(_BLOCKER)
    if blocker is None:
        return None
    begun = blocker.xact_start
    since = f", in a transaction since {begun:%Y-%m-%d %H:%M:%S} UTC" if begun else ""
    who = f"Session {blocker.pid} of role {blocker.usename} has locked others out{since}"
    remedy = f"{who}: wait for it, or end it (SELECT pg_terminate_backend({blocker.pid}))."
    return of_database(Cause.LOCKED, remedy=remedy)


# ---- The write-ahead log of a SQLite store: how large it is, and which readers keep it from being checkpointed
# In: an engine. Out: the log's size, and a finding if it is too large. SQLite writes the log into the database by
# itself and starts it over, but not while somebody still reads an older state.


LARGE_BYTES = 4 * WAL_KEPT_BYTES


@dataclass(frozen=True, slots=True)
class WriteAheadLog:
    """The size of a log, and a finding if it is too large."""

    size_bytes: int
    finding: Finding | None = None


def read_wal(engine: Engine, large_bytes: int = LARGE_BYTES) -> WriteAheadLog | None:
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
