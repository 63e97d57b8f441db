"""Who may write the rows of a base dir: one ingester, by a lease that every write transaction confirms.

In: a connection inside a write transaction. Out: a lease, or an error that says who leads.
Promises: time is the database's; the epoch grows with every new holder, so a holder that was away is refused by the
database and not by luck; one whose process was killed on this host leads no more. Does not know files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeGuard

from sqlalchemy import Connection, Double, Row, bindparam, func, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from lineage_store.errors import LeaseHeldError, LeaseLostError
from lineage_store.store.database.dialects import time_in, time_now, upsert
from lineage_store.store.database.engine import database_time
from lineage_store.store.holders import lives
from lineage_store.store.schema.tables import ingest_lease
from lineage_store.store.stalled import end_stalled_holder

_LONGEST_NAME = 63
"""PostgreSQL cuts the names of sessions to this."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a base dir's rows, as long as no later epoch exists."""

    base_dir_id: int
    holder: str
    epoch: int
    lasts_s: float

    @property
    def session_name(self) -> str:
        """What the holder's PostgreSQL session is called while it is in a transaction that holds the lease."""
        return f"lineage_store {self.base_dir_id}.{self.epoch} {self.holder.rpartition(':')[2]}"[
            :_LONGEST_NAME
        ]


def acquire(
    connection: Connection,
    base_dir_id: int,
    holder: str,
    lasts_s: float,
    mode: str,
    *,
    before_daemons: bool = False,
    spread: bool = False,
) -> Lease:
    """Take the lease if it is free, expired, our own already or of a process that is gone. Raises LeaseHeldError.

    A lease that expired while its holder was stopped inside a transaction is freed by ending that session.

    Args:
        before_daemons: take it from a daemon too: its next write is refused, and it stands by until this is done.
        spread: take it also from a daemon that leads at least two base dirs more than this one.
    """
    now = database_time(connection)
    seen = _row(connection, base_dir_id) or _made_row(connection, base_dir_id, holder, mode, now)
    if seen.epoch and seen.holder == holder:
        held = Lease(base_dir_id, holder, seen.epoch, lasts_s)
        confirm(connection, held)
        return held
    gives_way = seen.mode == "daemon" and (
        before_daemons or (spread and _leads_more(connection, seen.holder, holder, now))
    )
    if not gives_way:
        _refuse_if_held(seen, now)
    if seen.expires_at <= now:
        end_stalled_holder(
            connection, Lease(base_dir_id, seen.holder, seen.epoch, lasts_s).session_name, lasts_s
        )
    row, now = _locked_row(connection, base_dir_id, wait=before_daemons), database_time(connection)
    if row.epoch != seen.epoch or not gives_way:
        _refuse_if_held(row, now)
    epoch = row.epoch + 1
    values = {
        "holder": holder,
        "epoch": epoch,
        "mode": mode,
        "acquired_at": now,
        "expires_at": now + timedelta(seconds=lasts_s),
    }
    connection.execute(update(ingest_lease).where(ingest_lease.c.base_dir_id == base_dir_id).values(values))
    return Lease(base_dir_id, holder, epoch, lasts_s)


def last(connection: Connection, base_dir_id: int) -> Lease | None:
    """The lease that ended last: the same one as long as nobody has written since. Raises LeaseHeldError."""
    row = _row(connection, base_dir_id)
    _refuse_if_held(row, database_time(connection))
    return None if row is None else Lease(base_dir_id, row.holder, row.epoch, 0.0)


def confirm(connection: Connection, lease: Lease) -> datetime:
    """Lock and renew the lease: the first statement of every write transaction. Gives the database's time.

    Raises LeaseLostError.
    """
    held = {f"of_{name}": value for name, value in asdict(lease).items()}
    held["of_session_name"] = lease.session_name
    now: datetime | None = connection.execute(_renewal(connection.dialect.name), held).scalar_one_or_none()
    if now is None:
        raise LeaseLostError(
            "Another ingester has taken over this base dir; this write was refused and nothing of it was stored.",
            hint="It goes on where the bookmarks stand; nothing is lost.",
        )
    return now


@cache
def _renewal(dialect_name: str) -> ReturningUpdate[Any]:
    held = [ingest_lease.c[name] == bindparam(f"of_{name}") for name in ("base_dir_id", "holder", "epoch")]
    until = time_in(dialect_name, bindparam("of_lasts_s", type_=Double()))
    renewed = update(ingest_lease).where(*held).values(expires_at=until).returning(time_now(dialect_name))
    if dialect_name == "sqlite":
        return renewed
    # Until the transaction ends: by it a successor finds a session that stands still in it.
    return renewed.returning(func.set_config("application_name", bindparam("of_session_name"), True))


def renew(connection: Connection, lease: Lease) -> None:
    """Renew the lease while its holder works on something long. Raises LeaseLostError.

    Raises LeaseHeldError where the holder itself is in a write transaction, which has renewed the lease by its end.
    """
    _locked_row(connection, lease.base_dir_id, wait=False)
    confirm(connection, lease)


def release(connection: Connection, lease: Lease) -> None:
    """Let go, so that the next ingester need not wait. A lease that was lost already stays with its new holder."""
    connection.execute(
        update(ingest_lease)
        .where(ingest_lease.c.base_dir_id == lease.base_dir_id, ingest_lease.c.epoch == lease.epoch)
        .values(expires_at=database_time(connection))
    )


def leader(connection: Connection, base_dir_id: int) -> str | None:
    """Who leads the base dir now; None when nobody does."""
    row = _row(connection, base_dir_id)
    return row.holder if _leads(row, database_time(connection)) else None


def _leads(row: Row[Any] | None, now: datetime) -> TypeGuard[Row[Any]]:
    return row is not None and row.expires_at > now and lives(row.holder) is not False


def _refuse_if_held(row: Row[Any] | None, now: datetime) -> None:
    if _leads(row, now):
        ends_in_s = (row.expires_at - now).total_seconds()
        raise LeaseHeldError(
            f"Another ingester leads this base dir: {row.holder} ({row.mode}, "
            f"since {row.acquired_at:%Y-%m-%d %H:%M:%S} UTC).",
            hint="Let it work, stop it, or wait: its lead ends by itself "
            f"{ends_in_s:.0f} s after its last sign of life.",
            holder=row.holder,
            ends_in_s=ends_in_s,
        )


def _row(connection: Connection, base_dir_id: int) -> Row[Any] | None:
    return connection.execute(select(ingest_lease).where(ingest_lease.c.base_dir_id == base_dir_id)).first()


def _locked_row(connection: Connection, base_dir_id: int, *, wait: bool) -> Row[Any]:
    """The row, locked until this transaction ends. Raises LeaseHeldError rather than wait for somebody's write."""
    this = select(ingest_lease).where(ingest_lease.c.base_dir_id == base_dir_id)
    row = connection.execute(this.with_for_update(skip_locked=not wait)).first()
    if row is None:
        raise LeaseHeldError(
            "Another ingester leads this base dir, and its transaction is at work.",
            hint="Let it work; pg_stat_activity shows what it does.",
        )
    return row


def _made_row(connection: Connection, base_dir_id: int, holder: str, mode: str, now: datetime) -> Row[Any]:
    """The row of a base dir that nobody has led yet; of two who make it, the second waits here for the first."""
    free = {"holder": holder, "epoch": 0, "mode": mode, "acquired_at": now, "expires_at": now}
    connection.execute(
        upsert(connection, ingest_lease, ["base_dir_id"]), {"base_dir_id": base_dir_id, **free}
    )
    row = _row(connection, base_dir_id)
    assert row is not None
    return row


def _leads_more(connection: Connection, leader: str, other: str, now: datetime) -> bool:
    """Whether a holder's daemon leads at least two base dirs more than another's."""
    led = select(ingest_lease.c.holder).where(
        ingest_lease.c.mode == "daemon", ingest_lease.c.expires_at > now
    )
    count = Counter(map(_process, connection.execute(led).scalars()))
    return count[_process(leader)] >= count[_process(other)] + 2


def _process(holder: str) -> str:
    """The process of a holder: one daemon holds a lease per base dir, under as many names."""
    return holder.rpartition(":")[0]
