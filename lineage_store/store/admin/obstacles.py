"""Find out without writing what keeps a store from being written now.

In: an engine that can be read. Out: a finding, or None. Does not find a full disk under PostgreSQL: only a write does.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, text

from lineage_store.findings import Finding, of_database
from lineage_store.store.database.engine import reading, sqlite_path
from lineage_store.store.database.failures import ONLY_READS, locked_remedy, of_disk
from lineage_store.store.database.locks import writer_of

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
    with reading(engine) as connection:
        return _to_server(connection)


def _to_file(path: Path) -> Finding | None:
    if (cause := of_disk(path)) is not None:
        return cause
    return None if writer_of(path) is None else of_database("locked", remedy=locked_remedy(path))


def _to_server(connection: Connection) -> Finding | None:
    if connection.execute(_READS_ONLY).scalar_one():
        return of_database("read-only", remedy=ONLY_READS)
    blocker = connection.execute(_BLOCKER).first()
    if blocker is None:
        return None
    begun = blocker.xact_start
    since = f", in a transaction since {begun:%Y-%m-%d %H:%M:%S} UTC" if begun else ""
    who = f"Session {blocker.pid} of role {blocker.usename} has locked others out{since}"
    remedy = f"{who}: wait for it, or end it (SELECT pg_terminate_backend({blocker.pid}))."
    return of_database("locked", remedy=remedy)
