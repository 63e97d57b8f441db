"""Is all well with ingest? What the store tells, what daemons on this host tell, and what can be seen from outside.

In: an open LineageStore, or a URL where the store does not open. Out: concerns, and how base dirs stand with daemons.
The store cannot hold what keeps it from being written: that is in the notices of the daemons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lineage_store.api import LineageStore, PathLike, real_path
from lineage_store.api.paths import absolute_path
from lineage_store.api.state import status
from lineage_store.errors import DatabaseUnavailableError
from lineage_store.ingest.daemon import status_file
from lineage_store.ingest.daemon.status_file import ENDED, STOPPED, Standing
from lineage_store.query.health import Concern, read_concerns
from lineage_store.store.admin.obstacles import obstacle_to
from lineage_store.store.database import engine as engines
from lineage_store.store.database.default_location import default_url
from lineage_store.texts import to_stored

_THE_STORE = "the store"
_NOT_IN_STORE = (
    "Is the daemon running? Its log tells why it does not read this base dir, which the settings name."
)


def daemons(url: str, base_dir: PathLike | None = None) -> Sequence[Standing]:
    """How one base dir, or each, stands with the daemons of this host, whether the database answers or not.

    `url` as in the settings: empty for the default store. Those of this user, and for root those of every user.
    """
    store = engines.identity(engines.parse_url(url or default_url()))
    only = None if base_dir is None else str(real_path(base_dir))
    return [standing for standing in status_file.read(store) if only in (None, standing.base_dir)]


def concerns(
    store: LineageStore, base_dir: PathLike | None = None, *, within_s: float = 60.0
) -> Sequence[Concern]:
    """What is not well with ingest, of one base dir or of all; nothing when it is.

    A base dir, of the store or of the settings, is well when an ingester leads it or has searched it `within_s`, and no
    daemon of this host is kept from reading it. Where nothing is read and something keeps the store from being written,
    that is told too. Raises LineageParamSummaryPathError when the store does not know the base dir.
    """
    known = status(store, base_dir, problems=0)
    leaders = {row["base_dir"]: row["leader"] for row in known.base_dirs}
    path = None if base_dir is None else to_stored(str(real_path(base_dir)))
    with engines.reading(store.engine) as connection:
        found = read_concerns(connection, path, within_s)
    if base_dir is None:
        found += [
            Concern(str(each), True, "It is not in the store.", _NOT_IN_STORE) for each in _unread(store)
        ]
    idle = {each.subject for each in found if each.standstill}
    url = store.engine.url.render_as_string(hide_password=False)
    found += _of_daemons(daemons(url, base_dir), leaders, idle)
    obstacle = obstacle_to(store.engine) if any(each.standstill for each in found) else None
    if obstacle is not None and all(each.remedy != obstacle.remedy for each in found):
        found.insert(0, Concern(_THE_STORE, True, f"It is {obstacle.kind}.", obstacle.remedy))
    return found


def concerns_without_database(
    url: str, base_dir: PathLike | None, error: DatabaseUnavailableError
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


def _unread(store: LineageStore) -> Iterator[Path]:
    """Base dirs of the settings that the store does not know."""
    known = set(map(Path, store.base_dirs()))
    for named in map(absolute_path, store.settings.base_dirs):
        if named not in known and real_path(named) not in known:  # the disk is asked only where it matters
            yield named
