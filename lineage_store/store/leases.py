"""Leases: one ingester at a time may write the rows of a base dir's shard; every write transaction confirms its lease.

In: the session of a write transaction. Out: a lease of one shard or of all, or an error that names the holder.
Promises: all times are the database's. The epoch grows with every new holder, so the database refuses the writes of a
holder that has lost its lease. The lease of a process that was killed on this host is free at once. Whatever locks
several shards locks them in ascending order. While anybody holds a lease, nobody else can change the number of
shards, because that takes all leases. Does not know files.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Double, Row, Select, bindparam, func, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import ReturningUpdate

from lineage_store.errors import LeaseHeldError, LeaseLostError
from lineage_store.program import state_and_begin
from lineage_store.store import clock
from lineage_store.store.database.sql import Session, time_in, time_now, upsert
from lineage_store.store.schema.tables import base_dir, ingest_lease
from lineage_store.texts import key

# ---- Shards: disjoint parts of a base dir's jobs, so that several ingesters can write at once, each its own shards
# In: the number of shards, and which of them is meant. Out: whether a job or a path belongs to it, in Python and in
# SQL. Promises: the train id and the number of shards alone decide which one shard a job is in; a path is in the
# shard of the first directory in it. Does not know who holds which shard.


_WITHOUT_SIGN = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Shards:
    """All shards of a base dir, or one of them."""

    count: int = 1
    """How many the base dir has."""
    number: int | None = None
    """The number of the one shard that is meant, from 0; None: all shards."""

    @property
    def numbers(self) -> Sequence[int]:
        """The shards that are meant, in ascending order."""
        return range(self.count) if self.number is None else (self.number,)

    @property
    def are_all(self) -> bool:
        """Whether every job belongs to these shards."""
        return self.number is None or self.count == 1

    def hold(self, train_id: str) -> bool:
        """Return whether the job with this stored train id belongs to these shards."""
        return self.are_all or (key(train_id) & _WITHOUT_SIGN) % self.count == self.number

    def hold_path(self, path: str) -> bool:
        """Return whether a stored path relative to the base dir (`.` is the base dir) belongs to these shards."""
        return self.hold("./" if path == "." else f"./{path.partition('/')[0]}")

    def conditions(self, base_dir_id: int) -> tuple[ColumnElement[bool], ...]:
        """Return conditions on `train_job` that select the jobs of these shards of a base dir."""
        from lineage_store.store.schema.tables import train_job  # a reading process needs no SQL

        mine = train_job.c.base_dir_id == base_dir_id
        if self.are_all:
            return (mine,)
        return mine, (train_job.c.train_key.bitwise_and(_WITHOUT_SIGN) % self.count) == self.number


ALL = Shards()
"""For a base dir that is not divided, and for readers of all jobs."""


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
    session: Session,
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
        spread: take the lease also from a daemon that holds at least two shards more than this holder's process.
    """
    shards = Shards(shard_count(session, base_dir_id), shard)
    if shard is not None and shard >= shards.count:
        raise LeaseHeldError(
            f"There is no shard {shard}: the base dir has {shards.count}.", ends_in_s=lasts_s
        )
    now = session.now()
    seen = [
        _row(session, base_dir_id, number) or _made_row(session, base_dir_id, number, holder, mode, now)
        for number in shards.numbers
    ]
    if all(row.epoch and (row.holder, row.epoch) == (holder, seen[0].epoch) for row in seen):
        held = Lease(base_dir_id, holder, seen[0].epoch, lasts_s, shards)
        confirm(session, held)
        return held

    def gives_way(row: Row[Any]) -> bool:
        return row.holder == holder or (
            row.mode == "daemon"
            and (before_daemons or (spread and _leads_more(session, row.holder, holder, now)))
        )

    locked = [_freed_row(session, row, lasts_s, now, gives_way, wait=before_daemons) for row in seen]
    if shard_count(session, base_dir_id) != shards.count:
        raise LeaseHeldError("The number of the base dir's shards has just been changed.", hint="Try again.")
    acquired_at, epoch = session.now(), max(row.epoch for row in locked) + 1
    these = (ingest_lease.c.base_dir_id == base_dir_id) & ingest_lease.c.shard.in_(shards.numbers)
    term = {"acquired_at": acquired_at, "expires_at": acquired_at + timedelta(seconds=lasts_s)}
    taken = update(ingest_lease).where(these).values(holder=holder, epoch=epoch, mode=mode, **term)
    session.change(taken)
    clock.agree(session, base_dir_id, acquired_at)
    return Lease(base_dir_id, holder, epoch, lasts_s, shards)


def _freed_row(
    session: Session,
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
        end_stopped_holder(session, name, lasts_s)
    row = _locked_row(session, seen.base_dir_id, seen.shard, wait=wait, session_name=name)
    if row.epoch != seen.epoch:  # another ingester has taken it over meanwhile
        return _freed_row(session, row, lasts_s, session.now(), gives_way, wait=wait)
    if not yields:
        _refuse_if_held(row, session.now())
    return row


def shard_count(session: Session, base_dir_id: int) -> int:
    """Return into how many shards a base dir is divided."""
    found = session.value(select(base_dir.c.shards).where(base_dir.c.id == base_dir_id))
    return found or 1


def set_shard_count(session: Session, lease: Lease, count: int) -> None:
    """Divide a base dir into `count` shards. Raises LeaseLostError; ValueError if the lease is not for all shards."""
    now, present = confirm(session, lease), shard_count(session, lease.base_dir_id)
    if not set(range(present)) <= set(lease.shards.numbers):
        raise ValueError(f"Changing the number of shards needs the lease of all {present}.")
    this = base_dir.c.id == lease.base_dir_id
    for number in range(count):
        _made_row(session, lease.base_dir_id, number, lease.holder, "once", now)
    searched = select(base_dir.c.discovered_at).where(this).scalar_subquery()
    mine = update(ingest_lease).where(ingest_lease.c.base_dir_id == lease.base_dir_id)
    session.change(mine.values(searched_at=searched))
    session.change(update(base_dir).where(this).values(shards=count))


def last(session: Session, base_dir_id: int) -> Sequence[tuple[str, int]]:
    """Return the last (holder, epoch) of each shard that ever had one: unchanged as long as nobody has written since.

    Raises LeaseHeldError if an ingester holds one of the leases now.
    """
    rows, now = _rows(session, base_dir_id), session.now()
    for row in rows:
        _refuse_if_held(row, now)
    return [(row.holder, row.epoch) for row in rows]


def confirm(session: Session, lease: Lease) -> datetime:
    """Lock and renew the lease, as the first statement of every write transaction; return the database's time.

    Raises LeaseLostError if another ingester has taken the lease over.
    """
    now: datetime | None = None
    for number in lease.shards.numbers:
        now = _renewed(session, lease, number, lease.lasts_s)
        if now is None:
            raise LeaseLostError(
                "Another ingester has taken over this base dir: this write was refused, and none of it is stored.",
                hint="It continues from the bookmarks; nothing is lost.",
            )
    assert now is not None
    return now


def _renewed(session: Session, lease: Lease, shard: int, lasts_s: float) -> datetime | None:
    """Lock a shard and let its lease end in `lasts_s`; return the database's time, None if the lease was lost."""
    held = zip(_IDENTITY, (lease.base_dir_id, shard, lease.holder, lease.epoch), strict=True)
    values = {f"of_{name}": each for name, each in held}
    values |= {"of_lasts_s": lasts_s, "of_session_name": lease.session_name}
    renewed_at: datetime | None = session.value(_renewal(session.kind), values)
    return renewed_at


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


def renew(session: Session, lease: Lease) -> None:
    """Renew the lease during long work outside a write transaction. Raises LeaseLostError.

    Raises LeaseHeldError if the holder itself is in a write transaction, which renews the lease anyway.
    """
    for number in lease.shards.numbers:
        _locked_row(session, lease.base_dir_id, number, wait=False, session_name=lease.session_name)
    confirm(session, lease)


def release(session: Session, lease: Lease) -> None:
    """Release the lease, so that the next ingester need not wait; leave alone what another one has taken over."""
    for number in lease.shards.numbers:
        _renewed(session, lease, number, 0.0)


def leader(session: Session, base_dir_id: int) -> str | None:
    """Return the holder of the base dir's first shard that is held now; None if no shard is held."""
    rows, now = _rows(session, base_dir_id), session.now()
    return next((row.holder for row in rows if _leads(row, now)), None)


def _leads(row: Row[Any], now: datetime) -> bool:
    return row.expires_at > now and lives(row.holder) is not False


def _refuse_if_held(row: Row[Any], now: datetime) -> None:
    if _leads(row, now):
        ends_in_s = (row.expires_at - now).total_seconds()
        raise LeaseHeldError(
            f"Another ingester holds the lease of this base dir: {row.holder} ({row.mode}, "
            f"since {row.acquired_at:%Y-%m-%d %H:%M:%S} UTC).",
            hint="Let it work, stop it, or wait: its lease ends "
            f"{ends_in_s:.0f} s after its last sign of life.",
            holder=row.holder,
            ends_in_s=ends_in_s,
        )


def _rows(session: Session, base_dir_id: int) -> Sequence[Row[Any]]:
    """Return the rows of a base dir's shards in ascending order; a shard that was never held may have no row."""
    mine = ingest_lease.c.base_dir_id == base_dir_id
    shards = select(ingest_lease).join(base_dir).where(mine, ingest_lease.c.shard < base_dir.c.shards)
    return session.rows(shards.order_by(ingest_lease.c.shard))


def _row(session: Session, base_dir_id: int, shard: int) -> Row[Any] | None:
    return session.first(_of(base_dir_id, shard))


def _of(base_dir_id: int, shard: int) -> Select[Any]:
    lease = ingest_lease.c
    return select(ingest_lease).where(lease.base_dir_id == base_dir_id, lease.shard == shard)


def _locked_row(session: Session, base_dir_id: int, shard: int, *, wait: bool, session_name: str) -> Row[Any]:
    """Lock the row until this transaction ends and return it; on PostgreSQL, name the session `session_name`.

    Raises LeaseHeldError, unless `wait`, if another transaction has the row locked.
    """
    locked = _of(base_dir_id, shard).with_for_update(skip_locked=not wait)
    if session.kind == "postgresql":
        locked = locked.add_columns(_named(session_name))
    row = session.first(locked)
    if row is None:
        raise LeaseHeldError(
            "Another ingester holds the lease of this base dir, and its transaction is still running.",
            hint="Let it work; pg_stat_activity shows what it does.",
        )
    return row


def _made_row(
    session: Session, base_dir_id: int, shard: int, holder: str, mode: str, now: datetime
) -> Row[Any]:
    """Insert a free row for a shard that was never held, and return it; a concurrent insert makes this one wait."""
    free = {"holder": holder, "epoch": 0, "mode": mode, "acquired_at": now, "expires_at": now}
    inserts = upsert(session, ingest_lease, ["base_dir_id", "shard"])
    session.change(inserts, {"base_dir_id": base_dir_id, "shard": shard, **free})
    row = _row(session, base_dir_id, shard)
    assert row is not None
    return row


def _leads_more(session: Session, leader: str, other: str, now: datetime) -> bool:
    """Return whether `leader`'s process holds at least two shards more than `other`'s (an undivided base dir: one)."""
    led = (
        select(ingest_lease.c.holder)
        .join(base_dir)
        .where(ingest_lease.c.mode == "daemon", ingest_lease.c.expires_at > now, ~base_dir.c.leaving)
    )
    count = Counter(map(process_of, session.column(led)))
    return count[process_of(leader)] >= count[process_of(other)] + 2


# ---- End the PostgreSQL session of a lease holder that was stopped inside a transaction, so that another can take over
# In: a session, and the name that the lease gives such a session (`Lease.session_name`). Out: no stalled session
# of that name is left, or an error names the one that this role may not end. Promises: only a session inside a
# transaction of that very lease is ended, because the name is set for one transaction (so neither a reused process id
# nor a pooled session is mistaken for it); a session that is working is left alone, however long it takes. Why: only
# the end of the session frees the row that it has locked, and no timeout of the server fires while it waits for the
# rows of a COPY. On SQLite no session can be ended: `engine.unavailable` names the process that holds the write lock.


# Only members of pg_read_all_stats see what another role's session waits for; the others see NULL. All see its name.
_END_STOPPED = text("""
SELECT pid, usename, stalled, CASE WHEN stalled THEN pg_terminate_backend(pid, 5000) END AS ended
FROM (
  SELECT pid, usename,
         wait_event_type = 'Client' AND xact_start < clock_timestamp() - make_interval(secs => :lasts_s) AS stalled
  FROM pg_stat_activity
  WHERE datname = current_database() AND application_name = :session_name AND pid <> pg_backend_pid()
) holder
""")
_INSUFFICIENT_PRIVILEGE = "42501"
_RIGHTS = (
    "Let all ingesters use one role, GRANT pg_signal_backend, pg_read_all_stats TO this one, or have an "
    "administrator end the session: SELECT pg_terminate_backend(pid)."
)


def end_stopped_holder(session: Session, session_name: str, lasts_s: float) -> None:
    """End the session of this name if its transaction is older than `lasts_s` and waits for the client.

    Does nothing on SQLite. Raises LeaseHeldError if this role may not see or end the session.
    """
    if session.kind == "sqlite":
        return
    this = {"session_name": session_name, "lasts_s": lasts_s}
    try:
        holder = session.first(_END_STOPPED, this)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _INSUFFICIENT_PRIVILEGE:
            raise
        raise _held("a session") from error
    if holder is not None and holder.stalled is None:
        raise _held(f"session {holder.pid} of role {holder.usename}")


def _held(by: str) -> LeaseHeldError:
    return LeaseHeldError(
        f"The lease has expired, but {by} has it in an open transaction that this role may not end.",
        hint=_RIGHTS,
    )


# ---- Names of lease holders: unique names that identify a process, and whether the process of a name still runs
# In: nothing, or a holder's name. Out: a name; or yes, no, or None where this process cannot know. Promises: `lives`
# never returns False for a process of another host, boot or PID namespace (such as a container with the same host
# name), nor for another user's process that /proc hides. Does not know leases.


_NAME = re.compile(r".*:([1-9]\d{0,8}):([0-9a-f]{8})-(\d+)-[0-9a-f]+", re.DOTALL)


def holder_name() -> str:
    """Return a new, unique name for this process: `host:pid:place-start-nonce`, as `lives` reads it."""
    pid = os.getpid()
    return f"{socket.gethostname()}:{pid}:{_place()}-{begun(pid)}-{secrets.token_hex(3)}"


def process_of(holder: str) -> str:
    """Return the process part of a holder's name: a daemon holds each of its leases under another name."""
    return holder.rpartition(":")[0]


def lives(holder: str) -> bool | None:
    """Return whether a holder's process still runs; None if this process cannot see it."""
    name = _NAME.fullmatch(holder)
    if name is None or name[2] != _place():
        return None
    pid = int(name[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the process exists, but belongs to another user
    state, since = state_and_begin(pid)
    return None if not since else since == name[3] and state not in "ZX"


def begun(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; "" if unknown. Tells apart uses of one process id."""
    return state_and_begin(pid)[1]


def _place() -> str:
    """Return a digest of this boot and PID namespace, within which process ids are unique; "" if /proc lacks them."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:8]
