"""Whether the database's clock can be right: compared with what the store itself wrote down before.

In: a session, a base dir, the database's time. Out: how far the clock is off, or None; the time to write down.
Promises: a time that disagrees with the one written down is never written over it, so a wrong clock is still wrong at
the next look, after a restart and for another process, until it is put right or a person confirms it. On SQLite the
clock is that of the host, on PostgreSQL that of the server. Does not know what depends on it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import or_, select, update

from lineage_store.store.database.sql import Session
from lineage_store.store.schema.tables import base_dir

TRUSTED = timedelta(days=8)
"""How far the clock may be from the time written down, either way: what runs once a week is in time. A store that
nobody wrote to for longer needs a person once, before anything is removed by age: what looks like a long rest may be a
clock that was set wrong."""


def agree(session: Session, base_dir_id: int, now: datetime) -> None:
    """Write down the time, if it agrees with the one written down before."""
    agrees = or_(base_dir.c.clock_at.is_(None), base_dir.c.clock_at.between(now - TRUSTED, now + TRUSTED))
    session.change(update(base_dir).where(base_dir.c.id == base_dir_id, agrees).values(clock_at=now))


def off_s(session: Session, base_dir_id: int, now: datetime) -> float | None:
    """Return by how many seconds the clock is off, > 0 if it is ahead; None if it agrees."""
    off = now - _agreed_at(session, base_dir_id, now)
    return None if abs(off) <= TRUSTED else off.total_seconds()


def offset_in_words(off_s: float) -> str:
    """Return how far a clock is off, such as "800.0 days ahead of"."""
    return f"{abs(off_s) / 86_400:,.1f} days {'ahead of' if off_s > 0 else 'behind'}"


def confirm_clock(session: Session, base_dir_id: int, now: datetime) -> None:
    """Write down the time, whatever was written down before: a person says that the clock is right."""
    this = update(base_dir).where(base_dir.c.id == base_dir_id)
    session.change(this.values(clock_at=now, clock_off_s=None))


def not_before_agreed(session: Session, base_dir_id: int, now: datetime) -> datetime:
    """Return the time, or the one written down if that is later: what is new now is at least as new as that."""
    return max(now, _agreed_at(session, base_dir_id, now))


def _agreed_at(session: Session, base_dir_id: int, now: datetime) -> datetime:
    found = session.value(select(base_dir.c.clock_at).where(base_dir.c.id == base_dir_id))
    return now if found is None else found
