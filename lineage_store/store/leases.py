"""Leases: one ingester at a time may write the rows of a base dir's shard; every write transaction confirms its lease.

In: a connection inside a write transaction. Out: a lease of one shard or of all, or an error that names the holder.
Promises: all times are the database's. The epoch grows with every new holder, so the database refuses the writes of a
holder that has lost its lease. The lease of a process that was killed on this host is free at once. Whatever locks
several shards locks them in ascending order. While anybody holds a lease, nobody else can change the number of
shards, because that takes all leases. Does not know files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, Row, Select, bindparam, func, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from lineage_store.errors import LeaseHeldError, LeaseLostError
from lineage_store.store import clock
from lineage_store.store.database.dialects import time_in, time_now, upsert
from lineage_store.store.database.engine import database_time
from lineage_store.store.holders import lives, process_of
from lineage_store.store.schema.tables import base_dir, ingest_lease
from lineage_store.store.shards import ALL, Shards
from lineage_store.store.stopped_holders import end_stopped_holder

_IDENTITY = ("base_dir_id", "shard", "holder", "epoch")
_LONGEST_NAME = 63
"""PostgreSQL cuts session names to this many characters."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write the rows of a base dir's shards, until one of them gets a later epoch."""

    base_dir_id: int
    holder: str
    epoch: int
    lasts_s: float
    shards: Shards = ALL
    """The shards that the lease is for: one, or all of them."""

    @property
    def session_name(self) -> str:
        """The name (`application_name`) of the holder's PostgreSQL session during a transaction under the lease."""
        unique = self.holder.rpartition(":")[2]
        return f"lineage_store {self.base_dir_id}.{self.epoch} {unique}"[:_LONGEST_NAME]


def acquire(
    connection: Connection,
    base_dir_id: int,
    holder: str,
    lasts_s: float,
    mode: str,
    *,
    shard: int | None = None,
    before_daemons: bool = False,
    spread: bool = False,
) -> Lease:
    """Acquire the lease of a shard (None: of all shards) if it is free, expired, ours, or held by a dead process.

    On PostgreSQL, if the lease expired while its holder was stopped inside a transaction, end the holder's session.
    Raises LeaseHeldError if another ingester holds the lease, or if there is no such shard.

    Args:
        lasts_s: how long the lease is valid after it was acquired or confirmed.
        mode: "daemon" or "once".
        before_daemons: take the lease from a daemon too: the daemon's next write is refused.
        spread: take the lease also from a daemon that leads at least two shards more than this holder's process.
    """
    shards = Shards(shard_count(connection, base_dir_id), shard)
    if shard is not None and shard >= shards.count:
        raise LeaseHeldError(
            f"There is no shard {shard}: the base dir has {shards.count}.", ends_in_s=lasts_s
        )
    now = database_time(connection)
    seen = [
        _row(connection, base_dir_id, number) or _made_row(connection, base_dir_id, number, holder, mode, now)
        for number in shards.numbers
    ]
    if all(row.epoch and (row.holder, row.epoch) == (holder, seen[0].epoch) for row in seen):
        held = Lease(base_dir_id, holder, seen[0].epoch, lasts_s, shards)
        confirm(connection, held)
        return held

    def gives_way(row: Row[Any]) -> bool:
        return row.holder == holder or (
            row.mode == "daemon"
            and (before_daemons or (spread and _leads_more(connection, row.holder, holder, now)))
        )

    locked = [_freed_row(connection, row, lasts_s, now, gives_way, wait=before_daemons) for row in seen]
    if shard_count(connection, base_dir_id) != shards.count:
        raise LeaseHeldError("The number of the base dir's shards has just been changed.", hint="Try again.")
    acquired_at, epoch = database_time(connection), max(row.epoch for row in locked) + 1
    these = (ingest_lease.c.base_dir_id == base_dir_id) & ingest_lease.c.shard.in_(shards.numbers)
    term = {"acquired_at": acquired_at, "expires_at": acquired_at + timedelta(seconds=lasts_s)}
    taken = update(ingest_lease).where(these).values(holder=holder, epoch=epoch, mode=mode, **term)
    connection.execute(taken)
    clock.agree(connection, base_dir_id, acquired_at)
    return Lease(base_dir_id, holder, epoch, lasts_s, shards)


def _freed_row(
    connection: Connection,
    seen: Row[Any],
    lasts_s: float,
    now: datetime,
    gives_way: Callable[[Row[Any]], bool],
    *,
    wait: bool,
) -> Row[Any]:
    """Lock and return the row of a shard if it is free or its holder gives way; else raise LeaseHeldError."""
    if not (yields := gives_way(seen)):
        _refuse_if_held(seen, now)
    # `_locked_row` names the session that takes a lease over after the lease before it: a session that stalls while
    # taking over is found by that name, just like a stalled holder.
    name = Lease(seen.base_dir_id, seen.holder, seen.epoch, lasts_s).session_name
    if seen.expires_at <= now:
        end_stopped_holder(connection, name, lasts_s)
    row = _locked_row(connection, seen.base_dir_id, seen.shard, wait=wait, session_name=name)
    if row.epoch != seen.epoch:  # another ingester has taken it over meanwhile
        return _freed_row(connection, row, lasts_s, database_time(connection), gives_way, wait=wait)
    if not yields:
        _refuse_if_held(row, database_time(connection))
    return row


def shard_count(connection: Connection, base_dir_id: int) -> int:
    """Return into how many shards a base dir is divided."""
    found = connection.execute(select(base_dir.c.shards).where(base_dir.c.id == base_dir_id)).scalar()
    return found or 1


def divide(connection: Connection, lease: Lease, count: int) -> None:
    """Divide a base dir into `count` shards. Raises LeaseLostError; ValueError if the lease is not for all shards."""
    now, present = confirm(connection, lease), shard_count(connection, lease.base_dir_id)
    if not set(range(present)) <= set(lease.shards.numbers):
        raise ValueError(f"It takes the lease of all {present} shards to change their number.")
    this = base_dir.c.id == lease.base_dir_id
    for number in range(count):
        _made_row(connection, lease.base_dir_id, number, lease.holder, "once", now)
    searched = select(base_dir.c.discovered_at).where(this).scalar_subquery()
    mine = update(ingest_lease).where(ingest_lease.c.base_dir_id == lease.base_dir_id)
    connection.execute(mine.values(searched_at=searched))
    connection.execute(update(base_dir).where(this).values(shards=count))


def last(connection: Connection, base_dir_id: int) -> Sequence[tuple[str, int]]:
    """Return the last (holder, epoch) of each shard that ever had one: unchanged as long as nobody has written since.

    Raises LeaseHeldError if an ingester holds one of the leases now.
    """
    rows, now = _rows(connection, base_dir_id), database_time(connection)
    for row in rows:
        _refuse_if_held(row, now)
    return [(row.holder, row.epoch) for row in rows]


def confirm(connection: Connection, lease: Lease) -> datetime:
    """Lock and renew the lease, as the first statement of every write transaction; return the database's time.

    Raises LeaseLostError if another ingester has taken the lease over.
    """
    now: datetime | None = None
    for number in lease.shards.numbers:
        now = _renewed(connection, lease, number, lease.lasts_s)
        if now is None:
            raise LeaseLostError(
                "Another ingester has taken over this base dir; this write was refused and nothing of it was stored.",
                hint="It goes on where the bookmarks stand; nothing is lost.",
            )
    assert now is not None
    return now


def _renewed(connection: Connection, lease: Lease, shard: int, lasts_s: float) -> datetime | None:
    """Lock a shard and let its lease end in `lasts_s`; return the database's time, None if the lease was lost."""
    held = zip(_IDENTITY, (lease.base_dir_id, shard, lease.holder, lease.epoch), strict=True)
    values = {f"of_{name}": each for name, each in held}
    values |= {"of_lasts_s": lasts_s, "of_session_name": lease.session_name}
    return connection.execute(_renewal(connection.dialect.name), values).scalar_one_or_none()


@cache
def _renewal(dialect_name: str) -> ReturningUpdate[Any]:
    held = [ingest_lease.c[name] == bindparam(f"of_{name}") for name in _IDENTITY]
    until = time_in(dialect_name, bindparam("of_lasts_s", type_=Double()))
    renewed = update(ingest_lease).where(*held).values(expires_at=until).returning(time_now(dialect_name))
    if dialect_name == "sqlite":
        return renewed
    return renewed.returning(_named(bindparam("of_session_name")))


def _named(session_name: Any) -> ColumnElement[str]:
    """Name the session until the transaction ends, so that a successor can find the session if it stalls."""
    return func.set_config("application_name", session_name, True)


def renew(connection: Connection, lease: Lease) -> None:
    """Renew the lease during long work outside a write transaction. Raises LeaseLostError.

    Raises LeaseHeldError if the holder itself is in a write transaction, which renews the lease anyway.
    """
    for number in lease.shards.numbers:
        _locked_row(connection, lease.base_dir_id, number, wait=False, session_name=lease.session_name)
    confirm(connection, lease)


def release(connection: Connection, lease: Lease) -> None:
    """Release the lease, so that the next ingester need not wait; leave alone what another one has taken over."""
    for number in lease.shards.numbers:
        _renewed(connection, lease, number, 0.0)


def leader(connection: Connection, base_dir_id: int) -> str | None:
    """Return the holder of the base dir's first shard that is led now; None if no shard is led."""
    rows, now = _rows(connection, base_dir_id), database_time(connection)
    return next((row.holder for row in rows if _leads(row, now)), None)


def _leads(row: Row[Any], now: datetime) -> bool:
    return row.expires_at > now and lives(row.holder) is not False


def _refuse_if_held(row: Row[Any], now: datetime) -> None:
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


def _rows(connection: Connection, base_dir_id: int) -> Sequence[Row[Any]]:
    """Return the rows of a base dir's shards in ascending order; a shard that was never led may have no row."""
    mine = ingest_lease.c.base_dir_id == base_dir_id
    shards = select(ingest_lease).join(base_dir).where(mine, ingest_lease.c.shard < base_dir.c.shards)
    return connection.execute(shards.order_by(ingest_lease.c.shard)).all()


def _row(connection: Connection, base_dir_id: int, shard: int) -> Row[Any] | None:
    return connection.execute(_of(base_dir_id, shard)).first()


def _of(base_dir_id: int, shard: int) -> Select[Any]:
    lease = ingest_lease.c
    return select(ingest_lease).where(lease.base_dir_id == base_dir_id, lease.shard == shard)


def _locked_row(
    connection: Connection, base_dir_id: int, shard: int, *, wait: bool, session_name: str
) -> Row[Any]:
    """Lock the row until this transaction ends and return it; on PostgreSQL, name the session `session_name`.

    Raises LeaseHeldError, unless `wait`, if another transaction has the row locked.
    """
    locked = _of(base_dir_id, shard).with_for_update(skip_locked=not wait)
    if connection.dialect.name == "postgresql":
        locked = locked.add_columns(_named(session_name))
    row = connection.execute(locked).first()
    if row is None:
        raise LeaseHeldError(
            "Another ingester leads this base dir, and its transaction is at work.",
            hint="Let it work; pg_stat_activity shows what it does.",
        )
    return row


def _made_row(
    connection: Connection, base_dir_id: int, shard: int, holder: str, mode: str, now: datetime
) -> Row[Any]:
    """Insert a free row for a shard that was never led, and return it; a concurrent insert makes this one wait."""
    free = {"holder": holder, "epoch": 0, "mode": mode, "acquired_at": now, "expires_at": now}
    inserts = upsert(connection, ingest_lease, ["base_dir_id", "shard"])
    connection.execute(inserts, {"base_dir_id": base_dir_id, "shard": shard, **free})
    row = _row(connection, base_dir_id, shard)
    assert row is not None
    return row


def _leads_more(connection: Connection, leader: str, other: str, now: datetime) -> bool:
    """Return whether `leader`'s process leads at least two shards more than `other`'s (an undivided base dir: one)."""
    led = (
        select(ingest_lease.c.holder)
        .join(base_dir)
        .where(ingest_lease.c.mode == "daemon", ingest_lease.c.expires_at > now, ~base_dir.c.leaving)
    )
    count = Counter(map(process_of, connection.execute(led).scalars()))
    return count[process_of(leader)] >= count[process_of(other)] + 2
