"""Thinning of series, each in a transaction of its own, under the lease of their base dir.

In: an engine, a lease, series that the policy names. Out: how many of their samples were deleted. Promises: if the
process ends in between, each series is either whole or thinned; a series whose job has changed since its samples were
read is not thinned.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, Engine

from lineage_store.config import Settings
from lineage_store.ingest.lease import writing_under
from lineage_store.store.catalog.thinnable import SeriesKey, Thinnable, thinnable
from lineage_store.store.database.engine import database_time, reading
from lineage_store.store.leases import Lease
from lineage_store.store.shards import ALL, Shards
from lineage_store.store.writes import thinning

NAMED_AT_A_TIME = 1_000


def named_series(
    engine: Engine, base_dir_id: int, settings: Settings, shards: Shards = ALL
) -> Iterator[Thinnable]:
    """Every series of a base dir's shards that the policy names; they are queried page by page."""
    last = (0, 0)
    while True:
        with reading(engine) as connection:
            now = database_time(connection)
            page = thinnable(
                connection, base_dir_id, settings, now, limit=NAMED_AT_A_TIME, shards=shards, after=last
            )
        yield from page
        if len(page) < NAMED_AT_A_TIME:
            return
        last = page[-1].key


def thin(engine: Engine, lead: Lease, key: SeriesKey, settings: Settings) -> int:
    """Thin a series, if the policy still names it; return how many samples were deleted. Raises LeaseLostError."""
    with reading(engine) as connection:
        named = _named(connection, lead, key, settings)
        if named is None:
            return 0
        samples = thinning.read_samples(connection, key)
    found = thinning.thinned(*samples, settings.keep_thinned_buckets, named.superseded_from)
    with writing_under(engine, lead) as (connection, _):
        if _named(connection, lead, key, settings) != named:
            return 0
        return thinning.thin(connection, lead.base_dir_id, named, found)


def _named(connection: Connection, lead: Lease, key: SeriesKey, settings: Settings) -> Thinnable | None:
    now = database_time(connection)
    found = thinnable(connection, lead.base_dir_id, settings, now, limit=1, shards=lead.shards, only=key)
    return found[0] if found else None
