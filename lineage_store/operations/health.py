"""Find what is wrong with ingest: from the store, from the status files of this host's daemons, and from the disk.

In: an engine, or a URL if the store cannot be opened; paths of base dirs. Out: findings, and what daemons do with
base dirs. Promises: changes nothing. A failure to write to the store cannot be recorded in the store, so daemons
record it in their status files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, Engine

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


@dataclass(frozen=True, slots=True)
class StoredHealth:
    """What the store tells of the health of ingest, at one moment."""

    findings: Sequence[Finding]
    leaders: Mapping[tuple[str, int], str | None]
    """By base dir, in its stored form, and shard."""
    base_dirs: Collection[Path]


def daemons(url: str, base_dir: Path | None = None) -> Sequence[DaemonStatus]:
    """Return what this host's daemons do with one base dir, or with all, even if the database does not answer.

    `url` as in the settings: empty for the default store. Only this user's daemons; for root, every user's.
    """
    store = engines.identity(engines.parse_url(url or default_url()))
    only = None if base_dir is None else str(base_dir)
    return [status for status in status_file.read(store) if only in (None, status.base_dir)]


def findings(
    engine: Engine, base_dir: Path | None, wanted: Sequence[Path], *, within_s: float
) -> Sequence[Finding]:
    """Return what is wrong with ingest of one base dir that the store knows, or of all; empty if all is well.

    A base dir is well if an ingester leads it or has searched it `within_s`, and no daemon of this host reports that it
    cannot read it. If nothing is read and the store cannot be written to, the cause is also returned. For all base
    dirs, those in `wanted` that the store does not know are findings, too.
    """
    with engines.reading(engine) as connection:
        stored = read_stored(connection, base_dir, within_s=within_s)
    return complete(engine, base_dir, wanted, stored)


def read_stored(connection: Connection, base_dir: Path | None, *, within_s: float) -> StoredHealth:
    """Read what the store tells, in the caller's transaction."""
    stored = None if base_dir is None else to_stored(str(base_dir))
    return StoredHealth(
        read_findings(connection, stored, within_s),
        {(row["base_dir"], row["shard"]): row["leader"] for row in read_shards(connection, stored)},
        {Path(from_stored(path)) for _, path in registry.base_dirs(connection)},
    )


def complete(
    engine: Engine, base_dir: Path | None, wanted: Sequence[Path], stored: StoredHealth
) -> Sequence[Finding]:
    """Return what the store told with what settings, this host's daemons and the database add to it now."""
    found, known = list(stored.findings), stored.base_dirs
    if base_dir is None:
        found += [
            finding("unknown_base_dir", str(each))
            for each in wanted
            if each not in known
            and Path(os.path.realpath(each)) not in known  # resolving links is slow, so only if needed
        ]
    idle = {each.subject for each in found if each.severity is Severity.STANDSTILL}
    url = engine.url.render_as_string(hide_password=False)
    found += _of_daemons(daemons(url, base_dir), stored.leaders, idle)
    obstacle = obstacle_to(engine) if any(each.severity is Severity.STANDSTILL for each in found) else None
    if obstacle is not None and all(each.remedy != obstacle.remedy for each in found):
        found.insert(0, obstacle)
    return found


def findings_without_database(
    url: str, base_dir: Path | None, error: DatabaseUnavailableError
) -> Sequence[Finding]:
    """Return what is wrong if the store cannot be opened: the cause, and what this host's daemons report."""
    found = [of_database(error.cause, what=error.message, remedy=error.hint or "")]
    statuses = daemons(url, base_dir)
    return found + list(_of_daemons(statuses, {}, {to_stored(each.base_dir) for each in statuses}))


def _of_daemons(
    statuses: Sequence[DaemonStatus], leaders: Mapping[tuple[str, int], str | None], idle: set[str]
) -> Iterator[Finding]:
    """Yield what daemons report, and which of them have ended.

    A daemon that has ended or was stopped is no finding if another one leads, or if `ingest` is run regularly.
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
