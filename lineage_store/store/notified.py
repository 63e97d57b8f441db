"""The state of notifiers: which process sends notifications, how far it has looked, and which events it has sent.

In: a write transaction, the name of a notifier, a token of changes, keys of events. Out: rows of `notifier` and
`notified`. Promises: a lease lets one process at a time send under a name; keys of sent events stay for REMEMBERED.
Does not know what events are, nor how they are sent.
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
    """How far a notifier has looked."""

    since: str
    """Token of changes: every event before it was sent."""
    at: datetime
    """When all events before `since` had been sent."""
    begun_at: datetime
    """What happened before is never sent."""


def begin(connection: Connection, name: str, since: str) -> None:
    """Register a notifier that starts at the changes behind `since`; does nothing if the name is registered already."""
    now = database_time(connection)
    row = {"name": name, "since": since, "looked_at": now, "begun_at": now, "holder": "", "expires_at": now}
    connection.execute(upsert(connection, notifier, ["name"]), row)


def take(
    connection: Connection, name: str, holder: str, lasts: timedelta, looked: Place | None
) -> Place | None:
    """Acquire or renew the lease of a notifier, and store how far it has `looked`.

    Return how far it has looked: the stored place if `holder` did not have the lease before or `looked` is None. Return
    None if another process holds the lease.
    """
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
    """Release the leases of `holder`, so that another process can acquire them at once."""
    mine = update(notifier).where(notifier.c.holder == holder)
    connection.execute(mine.values(expires_at=database_time(connection)))


def untold(connection: Connection, name: str, keys: Collection[int]) -> set[int]:
    """Return which of the events `keys` were not sent yet."""
    told = select(notified.c.event_key).where(notified.c.notifier == name)
    known = connection.execute(told.where(among(connection, notified.c.event_key, keys))).scalars()
    return set(keys).difference(known)


def remember(connection: Connection, name: str, keys: Iterable[int]) -> None:
    """Store that events were sent."""
    now = database_time(connection)
    rows = [{"notifier": name, "event_key": key, "told_at": now} for key in keys]
    connection.execute(upsert(connection, notified, ["notifier", "event_key"]), rows)
