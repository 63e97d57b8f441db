"""Sessions of a PostgreSQL server: how they are connected and set up.

In: a URL for psycopg. Out: an engine that has not connected yet. Promises: a server that stops answering is noticed
after about a minute; waiting for a lock and idling in a transaction are limited; no default that an administrator set
changes the values that are read. Behind a pooler that lends a session per transaction (PgBouncer), no setting stays in
the session: the settings are made in each transaction, and no statement is prepared by name. Does not know
transactions (`engine`), nor tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry

from lineage_store.errors import ConfigError
from lineage_store.store.database import pool

CONNECTING = {
    "client_encoding": "UTF8",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Parameters of libpq. Times are in seconds, `tcp_user_timeout` in milliseconds."""
_LONGEST_MS = 2**31 - 1
_IN_EACH_TRANSACTION = "lineage_store_in_each_transaction"
# - DateStyle, extra_float_digits: psycopg parses no other dates, and fewer digits would change floats.
# - plan_cache_mode: a generic plan does not fit the values of each condition: with one, the page of a rare network
#   sorted by a metric takes 16x as long, and its count 6x (100,000 jobs).
# - enable_mergejoin: for our conditions hash joins are as fast, and a page takes 1.3x as much CPU time merely because
#   the planner considers merge joins (page-*-postgresql-100k).
# - statement_timeout: a shorter one, which an administrator gave to the role, stays.
_SETTINGS = """
SELECT set_config('TimeZone', 'UTC', %(local)s), set_config('DateStyle', 'ISO', %(local)s),
  set_config('extra_float_digits', '1', %(local)s), set_config('idle_in_transaction_session_timeout', '60s', %(local)s),
  set_config('lock_timeout', '30s', %(local)s), set_config('plan_cache_mode', 'force_custom_plan', %(local)s),
  set_config('enable_mergejoin', 'off', %(local)s), set_config('statement_timeout',
    (CASE WHEN %(timeout_ms)s > 0 AND (ms = 0 OR ms > %(timeout_ms)s) THEN %(timeout_ms)s ELSE ms END)::bigint::text,
    %(local)s)
FROM (SELECT 1000 * extract(epoch FROM current_setting('statement_timeout')::interval) AS ms) here
"""


def make_engine(url: URL, *, read_only: bool, pool_size: int, statement_timeout_s: float) -> Engine:
    """Make an engine for a database of a server. Raises ConfigError if psycopg is not installed."""
    try:
        bounds = pool.bounded(pool_size)
        engine = create_engine(url, connect_args=CONNECTING, isolation_level="READ COMMITTED", **bounds)
    except (ImportError, NoSuchModuleError) as error:
        raise ConfigError(
            "PostgreSQL needs the driver psycopg.", hint="Run: pip install 'lineage-store[postgresql]'"
        ) from error

    timeout_ms = min(max(1, round(statement_timeout_s * 1000)), _LONGEST_MS) if statement_timeout_s else 0

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: ConnectionPoolEntry) -> None:
        if _is_lent(connection):
            connection.prepare_threshold = None
            record.info[_IN_EACH_TRANSACTION] = {"local": True, "timeout_ms": timeout_ms}
        else:
            connection.execute(_SETTINGS, {"local": False, "timeout_ms": timeout_ms})
        connection.commit()
        connection.read_only = read_only or None  # None: the server's default, which may be read-only

    @event.listens_for(engine, "handle_error")
    def close_cursor(context: ExceptionContext) -> None:
        # SQLAlchemy leaves the cursor of a lost connection open, and psycopg warns of a server's cursor that is.
        cursor = getattr(context.execution_context, "cursor", None)
        if context.is_disconnect and cursor is not None:
            with suppress(Exception):
                cursor.close()

    pool.look_after(engine, pings=True)
    return engine


def begin(connection: Any, info: Mapping[str, Any]) -> None:
    """Make the settings at the beginning of a transaction, if a pooler lends the session for this transaction only.

    Args:
        info: that of the pooled connection.
    """
    if settings := info.get(_IN_EACH_TRANSACTION):
        connection.execute(_SETTINGS, settings)


def _is_lent(connection: Any) -> bool:
    """Return whether a pooler is in between: the session's process is not the one named at the start of connecting."""
    found = connection.execute("SELECT pg_backend_pid()").fetchone() != (connection.info.backend_pid,)
    return bool(found)
