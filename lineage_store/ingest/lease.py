"""The lease of a base dir, held while work is done in it.

In: an engine and a base dir. Out: a lease for the length of a `with` block. Promises: it is released also when the
work fails. Does not know what the work is.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store import leases
from lineage_store.store.database.engine import writing
from lineage_store.store.leases import Lease


def holder_name() -> str:
    """Who this process is, to other ingesters: host, process id, and a nonce for the reuse of process ids."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


@contextmanager
def hold_lease(
    engine: Engine, base_dir_id: int, lasts_s: float, *, mode: str, before_daemons: bool = False
) -> Iterator[Lease]:
    """Hold the lease of a base dir for the length of the block. Raises LeaseHeldError when another ingester holds it.

    `before_daemons`: a daemon gives way, and takes it again soon after.
    """
    with writing(engine) as connection:
        lease = leases.acquire(
            connection, base_dir_id, holder_name(), lasts_s, mode, before_daemons=before_daemons
        )
    try:
        yield lease
    finally:
        release_lease(engine, lease)


def release_lease(engine: Engine, lease: Lease) -> None:
    """Release a lease; where the database fails, it ends by itself soon enough."""
    try:
        with writing(engine) as connection:
            leases.release(connection, lease)
    except (DatabaseUnavailableError, DBAPIError):
        return
