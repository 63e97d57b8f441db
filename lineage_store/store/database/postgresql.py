"""Sessions of a PostgreSQL server as we set them up.

In: a URL for psycopg. Out: an engine, nothing connected yet. Promises: a server that has gone without a word is noticed
within a minute; nothing waits for a lock, or in a transaction, for ever. Does not know transactions (`engine`), nor
tables.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import NoSuchModuleError

from lineage_store.errors import ConfigError
from lineage_store.store.database import pool

CONNECTING = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""In seconds; the last in milliseconds."""
_LONGEST_MS = 2**31 - 1
_SHORTEN_TIMEOUT = """
SELECT set_config('statement_timeout', %(timeout_ms)s::text, false)
FROM (SELECT 1000 * extract(epoch FROM current_setting('statement_timeout')::interval) AS ms) here
WHERE ms = 0 OR ms > %(timeout_ms)s
"""
"""A shorter limit, which an administrator gave to the role, stays."""


def make_engine(url: URL, *, read_only: bool, pool_size: int, statement_timeout_s: float) -> Engine:
    """An engine for a database of a server. Raises ConfigError where there is no driver."""
    try:
        engine = create_engine(url, connect_args=CONNECTING, **pool.bounded(pool_size))
    except (ImportError, NoSuchModuleError) as error:
        raise ConfigError(
            "PostgreSQL needs the driver psycopg.", hint="Run: pip install 'lineage-store[postgresql]'"
        ) from error

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        with connection.cursor() as cursor:
            _prepare(cursor)
            if statement_timeout_s:
                cursor.execute(_SHORTEN_TIMEOUT, {"timeout_ms": _milliseconds(statement_timeout_s)})
            if read_only:
                cursor.execute("SET default_transaction_read_only = on")
        connection.commit()

    pool.look_after(engine, pings=True)
    pool.close_what_comes_back_late(engine)
    return engine


def _milliseconds(seconds: float) -> int:
    return min(max(1, round(seconds * 1000)), _LONGEST_MS)


def _prepare(cursor: Any) -> None:
    cursor.execute("SET TIME ZONE 'UTC'")
    cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
    cursor.execute("SET lock_timeout = '30s'")
    # One condition's values say nothing about the next one's: with a plan kept for many, the page of a rare network
    # by a metric takes 16x as long, and its count 6x (100,000 jobs).
    cursor.execute("SET plan_cache_mode = force_custom_plan")
    # What a condition asks, hash joins do as well; merge joins take a page 1.3x of its CPU time merely to
    # think of (page-*-postgresql-100k).
    cursor.execute("SET enable_mergejoin = off")
