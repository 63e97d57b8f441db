"""The lease of a base dir, of all its shards, held while work is done in it.

In: an engine and a base dir. Out: a lease for the length of a `with` block. Promises: it is released also when the
work fails; who waits for a lead does not wait for ever. Does not know what the work is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine
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
"""By so much a lead is renewed at least: its end as seen from here is not exact."""


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
    """Hold the lease of a base dir for the length of the block. Raises LeaseHeldError when another ingester holds it.

    Args:
        base_dir: where its log files are to be read; LeaseLostError is raised where it was moved meanwhile.
        before_daemons: a daemon gives way, and takes it again soon after.
        stop_waiting: as long as it says no, a leader elsewhere, which may be gone, is waited for.
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


def divide(engine: Engine, base_dir_id: int, count: int, lasts_s: float) -> None:
    """Divide a base dir into so many shards, if it is not; daemons give way. Raises LeaseHeldError, LeaseLostError."""
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
    """Return when a lead has ended. Raises LeaseHeldError as soon as the leader shows a sign of life."""
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
    """Release a lease; where the database fails, it ends by itself soon enough."""
    try:
        with writing(engine) as connection:
            leases.release(connection, lease)
    except (DatabaseUnavailableError, DBAPIError):
        return
