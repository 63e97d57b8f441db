"""The connection pool: when a pooled connection may be used again, and when it is closed or made anew.

In: an engine, whose pool's events are handled here. Out: each use gets a connection that answers and is not outdated.
Promises: a thread that renews an engine's connections neither disturbs nor loses those that other threads use. Does not
know what connections are used for, nor the kind of database.
"""

from __future__ import annotations

import math
import time
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

WAIT_S = 30.0
"""How long a thread waits for a free connection."""
_RESTED_AFTER_S = 1.0
_RENEWED_AT, _CLOSED = "lineage_store_renewed_at", "lineage_store_closed"


def bounded(size: int) -> dict[str, Any]:
    """Return arguments of `create_engine` for at most `size` connections; a thread waits if none is free."""
    return {"pool_size": size, "max_overflow": 0, "pool_timeout": WAIT_S}


def size_of(engine: Engine) -> int:
    """Return how many connections an engine opens at most."""
    assert isinstance(engine.pool, QueuePool)
    return engine.pool.size()


def renew(engine: Engine) -> None:
    """Close the idle connections of the pool, and make those in use anew before they are used again.

    `Engine.dispose` would lose a connection that another thread is just acquiring: it would return to a discarded pool.
    Here the pool stays. But it no longer counts the connections that are in use, so it may exceed its limit by them.
    """
    engine.update_execution_options(**{_RENEWED_AT: time.monotonic()})
    engine.pool.dispose()


def look_after(engine: Engine, *, pings: bool) -> None:
    """Check before a connection is used again that `renew` was not called since and, with `pings`, that it answers.

    Only a connection that was idle for a while is pinged: a ping at each use (`pool_pre_ping`) costs a tenth of a small
    question's time. A new connection is not checked. One that was in use during `dispose` is closed when it is
    returned: nobody else would close it.
    """

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, record: Any, *_: Any) -> None:
        record.info["connected_at"] = time.monotonic()
        # Kept in `record_info`, because the record outlives its connections.
        record.record_info.setdefault("pool", engine.pool)

    @event.listens_for(engine, "checkin")
    def come_back(_connection: Any, record: Any) -> None:
        record.info["rests_since"] = time.monotonic()
        if record.record_info.get("pool") is not engine.pool or engine.get_execution_options().get(_CLOSED):
            record.close()

    @event.listens_for(engine, "checkout")
    def look(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        rests_since = record.info.get("rests_since")
        if rests_since is None:
            return
        if record.info["connected_at"] <= engine.get_execution_options().get(_RENEWED_AT, -math.inf):
            raise DisconnectionError
        if pings and time.monotonic() - rests_since >= _RESTED_AFTER_S:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise InvalidatePoolError from error


def close(engine: Engine) -> None:
    """Close an engine for good: a connection that another thread still uses is closed when that thread returns it."""
    engine.update_execution_options(**{_CLOSED: True})
    engine.dispose()
