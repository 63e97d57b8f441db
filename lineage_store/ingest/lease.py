"""The lease of a base dir with all its shards, held during a `with` block, and write transactions under a lease.

In: an engine and a base dir. Out: a lease for the block. Promises: the lease is released also when the block fails, or
expires when the database is not available; waiting for another leader's lease ends when that should have expired. Does
not know what the block does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import DatabaseUnavailableError, LeaseHeldError
from lineage_store.ingest import base_dirs
from lineage_store.store import leases
from lineage_store.store.database.engine import reading, writing
from lineage_store.store.holders import holder_name, lives
from lineage_store.store.leases import Lease

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.25
_SIGN_OF_LIFE_S = 1.0
"""A lease whose expiry moved by at least this much was renewed; its expiry as computed here is not exact."""


@contextmanager
def hold_lease(
    engine: Engine,
    base_dir_id: int,
    lasts_s: float,
    *,
    mode: str,
    base_dir: Path | None = None,
    before_daemons: bool = False,
    stop_waiting: Callable[[], bool] = lambda: True,
) -> Iterator[Lease]:
    """Hold the lease of a base dir during the block. Raises LeaseHeldError when another ingester holds it.

    Args:
        base_dir: the path from which log files are to be read; raises LeaseLostError if the base dir was moved.
        before_daemons: take the lease from a daemon too, which acquires it again afterwards.
        stop_waiting: while it returns False, wait for the lease of a leader on another host to expire, for that leader
            may have died; without it, do not wait.
    """

    def acquire() -> Lease:
        with writing(engine) as connection:
            lease = leases.acquire(
                connection, base_dir_id, holder_name(), lasts_s, mode, before_daemons=before_daemons
            )
            if base_dir is not None:
                base_dirs.confirm(connection, base_dir_id, base_dir)
            return lease

    try:
        lease = acquire()
    except LeaseHeldError as held:
        _await_end(engine, base_dir_id, held, stop_waiting)
        lease = acquire()
    try:
        yield lease
    finally:
        release_lease(engine, lease)


@contextmanager
def writing_under(
    engine: Engine, lease: Lease, *, synced: bool = True
) -> Iterator[tuple[Connection, datetime]]:
    """Begin a write transaction, with the database's time in it. Raises LeaseLostError when the lease is lost."""
    with writing(engine, synced=synced) as connection:
        yield connection, leases.confirm(connection, lease)


def divide(engine: Engine, base_dir_id: int, count: int, lasts_s: float) -> None:
    """Divide a base dir into `count` shards, taking the lease from daemons. Raises LeaseHeldError, LeaseLostError."""
    with reading(engine) as connection:
        if leases.shard_count(connection, base_dir_id) == count:
            return
    with (
        hold_lease(engine, base_dir_id, lasts_s, mode="once", before_daemons=True) as lease,
        writing(engine) as connection,
    ):
        leases.divide(connection, lease, count)


def _await_end(
    engine: Engine, base_dir_id: int, held: LeaseHeldError, stop_waiting: Callable[[], bool]
) -> None:
    """Wait until the leader's lease has ended. Raises LeaseHeldError when the leader renews it or is known to live."""
    if lives(held.holder) or stop_waiting():
        raise held
    log.warning("%s It may be gone: waiting for a sign of life, or for %.0f s.", held.message, held.ends_in_s)
    ends_at = time.monotonic() + held.ends_in_s
    while time.monotonic() + held.ends_in_s < ends_at + _SIGN_OF_LIFE_S and not stop_waiting():
        time.sleep(_LOOK_EVERY_S)
        try:
            with reading(engine) as connection:
                leases.last(connection, base_dir_id)
            return
        except LeaseHeldError as error:
            held = error
    raise held


def release_lease(engine: Engine, lease: Lease) -> None:
    """Release a lease. When the database fails, the lease expires by itself."""
    try:
        with writing(engine) as connection:
            leases.release(connection, lease)
    except (DatabaseUnavailableError, DBAPIError):
        return
