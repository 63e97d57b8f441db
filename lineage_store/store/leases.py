"""Who may write the rows of a base dir: one ingester, by a lease that every write transaction confirms.

In: a connection inside a write transaction. Out: a lease, or an error that says who leads.
Promises: time is the database's; the epoch grows with every new holder, so a holder that was away is refused by the
database and not by luck. Does not know files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from lineage_store.errors import LeaseHeldError, LeaseLostError
from lineage_store.store.engine import database_time
from lineage_store.store.schema import base_dir, ingest_lease


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a base dir's rows, as long as no later epoch exists."""

    base_dir_id: int
    holder: str
    epoch: int
    lasts_s: float


def acquire(
    connection: Connection,
    base_dir_id: int,
    holder: str,
    lasts_s: float,
    mode: str,
    *,
    before_daemons: bool = False,
) -> Lease:
    """Take the lease if it is free, expired or our own already. Raises LeaseHeldError.

    `before_daemons` takes it from a daemon too: that one's next write is refused, and it stands by until this is done.
    """
    now = database_time(connection)
    # On PostgreSQL two may find no lease row at once: they queue up on the base dir's row.
    connection.execute(select(base_dir.c.id).where(base_dir.c.id == base_dir_id).with_for_update())
    row = connection.execute(select(ingest_lease).where(ingest_lease.c.base_dir_id == base_dir_id)).first()
    if row is not None and row.holder == holder:
        return confirm(connection, Lease(base_dir_id, holder, row.epoch, lasts_s))
    gives_way = before_daemons and row is not None and row.mode == "daemon"
    if not gives_way:
        _refuse_if_held(row, now)
    epoch = 1 if row is None else row.epoch + 1
    values = {
        "holder": holder,
        "epoch": epoch,
        "backend_pid": _backend_pid(connection),
        "mode": mode,
        "acquired_at": now,
        "expires_at": now + timedelta(seconds=lasts_s),
    }
    if row is None:
        connection.execute(insert(ingest_lease).values(base_dir_id=base_dir_id, **values))
    else:
        connection.execute(
            update(ingest_lease).where(ingest_lease.c.base_dir_id == base_dir_id).values(values)
        )
    return Lease(base_dir_id, holder, epoch, lasts_s)


def last(connection: Connection, base_dir_id: int) -> Lease | None:
    """The lease that ended last: the same one as long as nobody has written since. Raises LeaseHeldError."""
    row = connection.execute(select(ingest_lease).where(ingest_lease.c.base_dir_id == base_dir_id)).first()
    _refuse_if_held(row, database_time(connection))
    return None if row is None else Lease(base_dir_id, row.holder, row.epoch, 0.0)


def confirm(connection: Connection, lease: Lease) -> Lease:
    """Lock and renew the lease: the first statement of every write transaction. Raises LeaseLostError."""
    now = database_time(connection)
    held = (ingest_lease.c.base_dir_id == lease.base_dir_id) & (ingest_lease.c.epoch == lease.epoch)
    renewed = connection.execute(
        update(ingest_lease)
        .where(held, ingest_lease.c.holder == lease.holder)
        .values(expires_at=now + timedelta(seconds=lease.lasts_s), backend_pid=_backend_pid(connection))
    )
    if renewed.rowcount != 1:
        raise LeaseLostError(
            "Another ingester has taken over this base dir; this write was refused and nothing of it was stored.",
            hint="It goes on where the bookmarks stand; nothing is lost.",
        )
    return lease


def release(connection: Connection, lease: Lease) -> None:
    """Let go, so that the next ingester need not wait. A lease that was lost already stays with its new holder."""
    connection.execute(
        update(ingest_lease)
        .where(ingest_lease.c.base_dir_id == lease.base_dir_id, ingest_lease.c.epoch == lease.epoch)
        .values(expires_at=database_time(connection))
    )


def leader(connection: Connection, base_dir_id: int) -> str | None:
    """Who leads the base dir now; None when nobody does."""
    row = connection.execute(select(ingest_lease).where(ingest_lease.c.base_dir_id == base_dir_id)).first()
    return row.holder if row is not None and row.expires_at > database_time(connection) else None


def _refuse_if_held(row: Row[Any] | None, now: datetime) -> None:
    if row is not None and row.expires_at > now:
        raise LeaseHeldError(
            f"Another ingester leads this base dir: {row.holder} ({row.mode}, "
            f"since {row.acquired_at:%Y-%m-%d %H:%M:%S} UTC).",
            hint="Let it work, stop it, or wait: its lead ends by itself "
            f"{(row.expires_at - now).total_seconds():.0f} s after its last sign of life.",
        )


def _backend_pid(connection: Connection) -> int | None:
    if connection.dialect.name == "sqlite":
        return None
    pid: int = connection.execute(select(func.pg_backend_pid())).scalar_one()
    return pid
