"""Who tells what happens, and what was told.

In: a transaction, the name of a notifier, places in the changes as the token that says them, keys of events. Out: rows
of `notifier` and `notified`. Promises: of the processes of a store one tells under a name at a time; what was told is
kept for REMEMBERED. Does not know what events are, nor how they are told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, select, update

from lineage_store.store.database.dialects import among, upsert
from lineage_store.store.database.engine import database_time
from lineage_store.store.holders import lives
from lineage_store.store.schema.tables import notified, notifier

REMEMBERED = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Place:
    """How far was looked."""

    since: str
    """Token of changes."""
    at: datetime
    begun_at: datetime


def begin(connection: Connection, name: str, since: str) -> None:
    """Let what happens from now on be news for a name, unless it has begun already."""
    now = database_time(connection)
    row = {"name": name, "since": since, "looked_at": now, "begun_at": now, "holder": "", "expires_at": now}
    connection.execute(upsert(connection, notifier, ["name"]), row)


def take(
    connection: Connection, name: str, holder: str, lasts: timedelta, looked: Place | None
) -> Place | None:
    """Be who tells for a while, and write down how far was looked; how far that is, None where another one tells."""
    row = connection.execute(select(notifier).where(notifier.c.name == name).with_for_update()).one()
    now = database_time(connection)
    if row.holder != holder and row.expires_at > now and lives(row.holder) is not False:
        return None
    if row.holder != holder or looked is None:
        looked = Place(row.since, row.looked_at, row.begun_at)
    values = {"since": looked.since, "looked_at": looked.at, "holder": holder, "expires_at": now + lasts}
    connection.execute(update(notifier).where(notifier.c.name == name).values(values))
    old = (notified.c.notifier == name) & (notified.c.told_at < now - REMEMBERED)
    connection.execute(notified.delete().where(old))
    return looked


def release(connection: Connection, holder: str) -> None:
    """Let another one tell at once."""
    mine = update(notifier).where(notifier.c.holder == holder)
    connection.execute(mine.values(expires_at=database_time(connection)))


def untold(connection: Connection, name: str, keys: Collection[int]) -> set[int]:
    """Those of some events that were not told."""
    told = select(notified.c.event_key).where(notified.c.notifier == name)
    known = connection.execute(told.where(among(connection, notified.c.event_key, keys))).scalars()
    return set(keys).difference(known)


def remember(connection: Connection, name: str, keys: Iterable[int]) -> None:
    """Events were told."""
    now = database_time(connection)
    rows = [{"notifier": name, "event_key": key, "told_at": now} for key in keys]
    connection.execute(upsert(connection, notified, ["notifier", "event_key"]), rows)
