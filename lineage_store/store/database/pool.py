"""Connections that wait to be used again: which of them still may be, and which are made anew or closed instead.

In: an engine, by the events of its pool. Out: at each use a connection that answers and is not outdated. Promises: a
thread that renews an engine's connections neither disturbs nor loses those that other threads use. Does not know what
connections are for, nor what a database has.
"""

from __future__ import annotations

import math
import time
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError, InvalidatePoolError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

WAIT_S = 30.0
"""How long a thread waits for a connection while all are in use."""
_RESTED_AFTER_S = 1.0
_RENEWED_AT, _CLOSED = "lineage_store_renewed_at", "lineage_store_closed"


def bounded(size: int) -> dict[str, Any]:
    """Arguments of `create_engine`: that many connections at most, and who finds none waits for one."""
    return {"pool_size": size, "max_overflow": 0, "pool_timeout": WAIT_S}


def size_of(engine: Engine) -> int:
    """How many connections an engine opens at most."""
    assert isinstance(engine.pool, QueuePool)
    return engine.pool.size()


def renew(engine: Engine) -> None:
    """Close the connections that wait; let those in use now be made anew before they are used again.

    `Engine.dispose` would lose a connection that another thread is being given: it goes back to a pool that is gone.
    This pool stays; it only forgets to count those in use, and would open as many more than its limit.
    """
    engine.update_execution_options(**{_RENEWED_AT: time.monotonic()})
    engine.pool.dispose()


def look_after(engine: Engine, *, pings: bool) -> None:
    """See before a connection is used again that it was not outdated by `renew` and, with `pings`, still answers.

    Only one that has not been used for a while is asked: at each use (`pool_pre_ping`) that would cost a small question
    a tenth of its time. One that was made just now is taken as it is.
    """

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, record: ConnectionPoolEntry, *_: Any) -> None:
        record.info["connected_at"] = time.monotonic()

    @event.listens_for(engine, "checkin")
    def rest(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info["rests_since"] = time.monotonic()

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
    """Close an engine for good: what another thread still asks of it keeps no connection open."""
    engine.update_execution_options(**{_CLOSED: True})
    engine.dispose()


def close_what_comes_back_late(engine: Engine) -> None:
    """Close a connection that was in use while `dispose` gave its pool up, which nobody else would close."""

    @event.listens_for(engine, "do_connect")
    def remember(_dialect: Any, record: Any, *_: Any) -> None:
        # Of the record: its connections change, its pool does not.
        record.record_info.setdefault("pool", engine.pool)

    @event.listens_for(engine, "checkin")
    def close(_connection: Any, record: Any) -> None:
        if record.record_info.get("pool") is not engine.pool or engine.get_execution_options().get(_CLOSED):
            record.close()
