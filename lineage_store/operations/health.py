"""Is all well with ingest? What the store tells, what daemons on this host tell, and what can be seen from outside.

In: an engine, or a URL where the store does not open; paths of base dirs. Out: concerns, and how base dirs stand with
daemons. The store cannot hold what keeps it from being written: that is in the status files of the daemons.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.ingest.daemon import status_file
from lineage_store.ingest.daemon.status_file import ENDED, STOPPED, Standing
from lineage_store.query.health import Concern, read_concerns
from lineage_store.query.status import read_status
from lineage_store.store.admin.obstacles import obstacle_to
from lineage_store.store.catalog import registry
from lineage_store.store.database import engine as engines
from lineage_store.store.database.default_location import default_url
from lineage_store.texts import from_stored, to_stored

_THE_STORE = "the store"
_NOT_IN_STORE = (
    "Is the daemon running? Its log tells why it does not read this base dir, which the settings name."
)


def daemons(url: str, base_dir: Path | None = None) -> Sequence[Standing]:
    """How one base dir, or each, stands with the daemons of this host, whether the database answers or not.

    `url` as in the settings: empty for the default store. Those of this user, and for root those of every user.
    """
    store = engines.identity(engines.parse_url(url or default_url()))
    only = None if base_dir is None else str(base_dir)
    return [standing for standing in status_file.read(store) if only in (None, standing.base_dir)]


def concerns(
    engine: Engine, base_dir: Path | None, wanted: Sequence[Path], *, within_s: float
) -> Sequence[Concern]:
    """What is not well with ingest, of one base dir that the store knows or of all; nothing when it is.

    A base dir is well when an ingester leads it or has searched it `within_s`, and no daemon of this host is kept from
    reading it. Where nothing is read and something keeps the store from being written, that is told too; and `wanted`
    base dirs that the store does not know.
    """
    stored = None if base_dir is None else to_stored(str(base_dir))
    with engines.reading(engine) as connection:
        rows = read_status(connection, stored, problems=0).base_dirs
        found = read_concerns(connection, stored, within_s)
        known = {Path(from_stored(path)) for _, path in registry.base_dirs(connection)}
    if base_dir is None:
        found += [
            Concern(str(each), True, "It is not in the store.", _NOT_IN_STORE)
            for each in wanted
            if each not in known
            and Path(os.path.realpath(each)) not in known  # the disk is asked only if need be
        ]
    idle = {each.subject for each in found if each.standstill}
    url = engine.url.render_as_string(hide_password=False)
    leaders = {row["base_dir"]: row["leader"] for row in rows}
    found += _of_daemons(daemons(url, base_dir), leaders, idle)
    obstacle = obstacle_to(engine) if any(each.standstill for each in found) else None
    if obstacle is not None and all(each.remedy != obstacle.remedy for each in found):
        found.insert(0, Concern(_THE_STORE, True, f"It is {obstacle.kind}.", obstacle.remedy))
    return found


def concerns_without_database(
    url: str, base_dir: Path | None, error: DatabaseUnavailableError
) -> Sequence[Concern]:
    """What is not well where the store does not open, and why that is."""
    found = [Concern(_THE_STORE, True, error.message, error.hint or "")]
    standings = daemons(url, base_dir)
    return found + list(_of_daemons(standings, {}, {to_stored(each.base_dir) for each in standings}))


def _of_daemons(
    standings: Sequence[Standing], leaders: Mapping[str, str | None], idle: set[str]
) -> Iterator[Concern]:
    """What daemons tell of themselves, and what has become of them.

    One that has ended, or was stopped, is no concern where another leads or `ingest` reads by the clock.
    """
    for each in standings:
        subject = to_stored(each.base_dir)
        leader = leaders.get(subject)
        by_another = leader not in (None, each.holder)
        gone = each.what in (STOPPED, ENDED)
        if each.is_well or (gone and (by_another or (leader is None and subject not in idle))):
            continue
        since = f" (since {each.since:%Y-%m-%d %H:%M:%S} UTC)" if each.since else ""
        reason = each.reason if gone else f"{each.holder}: {each.what}{since}. {each.reason}"
        yield Concern(subject, not by_another, reason, each.remedy)
