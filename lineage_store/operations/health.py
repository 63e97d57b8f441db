"""Is all well with ingest? What the store tells, what daemons on this host tell, and what can be seen from outside.

In: an engine, or a URL where the store does not open; paths of base dirs. Out: findings, and what daemons do
with base dirs. The store cannot hold what keeps it from being written: that is in the status files of the daemons.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.finding_kinds import Severity
from lineage_store.findings import Finding, finding, of_database
from lineage_store.ingest.daemon import status_file
from lineage_store.ingest.daemon.status_file import ENDED, STOPPED, DaemonStatus
from lineage_store.query.health import read_findings
from lineage_store.query.status import read_shards
from lineage_store.store.admin.obstacles import obstacle_to
from lineage_store.store.catalog import registry
from lineage_store.store.database import engine as engines
from lineage_store.store.database.default_location import default_url
from lineage_store.texts import from_stored, to_stored


def daemons(url: str, base_dir: Path | None = None) -> Sequence[DaemonStatus]:
    """What the daemons of this host do with one base dir, or with each, whether the database answers or not.

    `url` as in the settings: empty for the default store. Those of this user, and for root those of every user.
    """
    store = engines.identity(engines.parse_url(url or default_url()))
    only = None if base_dir is None else str(base_dir)
    return [status for status in status_file.read(store) if only in (None, status.base_dir)]


def findings(
    engine: Engine, base_dir: Path | None, wanted: Sequence[Path], *, within_s: float
) -> Sequence[Finding]:
    """What is not well with ingest, of one base dir that the store knows or of all; nothing when it is.

    A base dir is well when an ingester leads it or has searched it `within_s`, and no daemon of this host is kept from
    reading it. Where nothing is read and something keeps the store from being written, that is told too; and `wanted`
    base dirs that the store does not know.
    """
    stored = None if base_dir is None else to_stored(str(base_dir))
    with engines.reading(engine) as connection:
        shards = read_shards(connection, stored)
        found = read_findings(connection, stored, within_s)
        known = {Path(from_stored(path)) for _, path in registry.base_dirs(connection)}
    if base_dir is None:
        found += [
            finding("unknown_base_dir", str(each))
            for each in wanted
            if each not in known
            and Path(os.path.realpath(each)) not in known  # the disk is asked only if need be
        ]
    idle = {each.subject for each in found if each.severity is Severity.STANDSTILL}
    url = engine.url.render_as_string(hide_password=False)
    leaders = {(row["base_dir"], row["shard"]): row["leader"] for row in shards}
    found += _of_daemons(daemons(url, base_dir), leaders, idle)
    obstacle = obstacle_to(engine) if any(each.severity is Severity.STANDSTILL for each in found) else None
    if obstacle is not None and all(each.remedy != obstacle.remedy for each in found):
        found.insert(0, obstacle)
    return found


def findings_without_database(
    url: str, base_dir: Path | None, error: DatabaseUnavailableError
) -> Sequence[Finding]:
    """What is not well where the store does not open, and why that is."""
    found = [of_database(error.cause, what=error.message, remedy=error.hint or "")]
    statuses = daemons(url, base_dir)
    return found + list(_of_daemons(statuses, {}, {to_stored(each.base_dir) for each in statuses}))


def _of_daemons(
    statuses: Sequence[DaemonStatus], leaders: Mapping[tuple[str, int], str | None], idle: set[str]
) -> Iterator[Finding]:
    """What daemons tell of themselves, and what has become of them.

    One that has ended, or was stopped, does not matter where another leads or `ingest` reads by the clock.
    """
    for each in statuses:
        subject, found = to_stored(each.base_dir), each.finding
        leader = leaders.get((subject, each.shard))
        by_another = leader not in (None, each.holder)
        if found is None:
            continue
        gone = found.kind in (STOPPED, ENDED)
        if gone and (by_another or (leader is None and subject not in idle)):
            continue
        what = found.what if gone else f"{each.holder}: {each.title}. {found.what}"
        severity = Severity.SOME_FILES if by_another else Severity.STANDSTILL
        yield replace(found, subject=subject, what=what, severity=severity)
