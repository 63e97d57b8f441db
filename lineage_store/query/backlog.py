"""What a base dir has found and not yet read, how fast it is read, and whether that goes on.

In: an open read transaction, and rows of v_base_dir. Out: a `Backlog` for each base dir where log files wait. Promises:
rate and time left come from what ingesters have committed lately, and are None where that is nothing; a backlog that
is being read is a note, one that stands or grows is not well. Text is in its stored form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, case, func, select

from lineage_store.findings import Finding, finding
from lineage_store.store.catalog.registry import PENDING, WAITS
from lineage_store.store.database.engine import database_time
from lineage_store.store.schema.tables import base_dir, ingest_cycle, ingest_lease, log_file, train_job

LATELY_S = 120.0
"""The rate is that of the passes that began within so many seconds."""
STANDS_AFTER_S = 60.0
"""A backlog of which nothing was read for so long stands; one that is read in less is none to speak of."""
REMEMBERED_S = 600.0
"""A backlog grows if it is larger than it was up to so many seconds ago."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The log files of a base dir that were found and are not yet read to their ends."""

    base_dir: str
    files: int
    bytes: int
    bytes_per_s: float | None
    """How fast they are read; None: nothing was read lately."""
    left_s: float | None
    """How long reading them takes at that rate."""
    finding: Finding
    """`backlog`, or `backlog_grows` or `backlog_stands`, which are not well."""


def read_backlogs(connection: Connection, base_dirs: Iterable[Mapping[str, Any]]) -> list[Backlog]:
    """Return the backlogs of base dirs (rows of v_base_dir)."""
    return [_backlog(connection, row) for row in base_dirs if row["waiting_files"]]


@dataclass(frozen=True, slots=True)
class _Reading:
    """What ingesters have done lately."""

    now: datetime
    bytes_per_s: float | None
    read_at: datetime | None
    """When a pass that read something ended last."""
    before: tuple[datetime, int] | None
    """When the oldest pass that counts ended, and how many bytes waited then."""


def _backlog(connection: Connection, row: Mapping[str, Any]) -> Backlog:
    base_dir_id = connection.execute(
        select(base_dir.c.id).where(base_dir.c.path == row["base_dir"])
    ).scalar_one()
    files, size = row["waiting_files"], row["waiting_bytes"]
    reading = _lately(connection, base_dir_id)
    rate = reading.bytes_per_s
    left_s = size / rate if rate else None
    pace = f"{rate:,.0f} bytes/s, about {_in_words(left_s)} left" if rate and left_s is not None else _UNKNOWN
    told: dict[str, Any] = {"files": files, "size": size}
    if why := _why_it_stands(connection, base_dir_id, row, reading):
        found = finding("backlog_stands", row["base_dir"], why=why, **told)
    elif (before_s := _grows_since(connection, base_dir_id, size, left_s, reading)) is not None:
        found = finding("backlog_grows", row["base_dir"], before_s=before_s, pace=pace, **told)
    else:
        found = finding("backlog", row["base_dir"], pace=pace, **told)
    return Backlog(row["base_dir"], files, size, rate, left_s, found)


_UNKNOWN = "none was read lately, so the time left is unknown"


def _lately(connection: Connection, base_dir_id: int) -> _Reading:
    now, cycle = database_time(connection), ingest_cycle.c
    since = now - timedelta(seconds=REMEMBERED_S)
    columns = cycle.started_at, cycle.finished_at, cycle.bytes_read, cycle.waiting_bytes
    mine = select(*columns).where(cycle.base_dir_id == base_dir_id, cycle.started_at >= since)
    cycles = connection.execute(mine.order_by(cycle.started_at)).all()
    latest = [each for each in cycles if each.started_at >= now - timedelta(seconds=LATELY_S)]
    read = sum(each.bytes_read for each in latest)
    rate = read / max((now - latest[0].started_at).total_seconds(), 1.0) if read else None
    read_at = max((each.finished_at for each in cycles if each.bytes_read), default=None)
    before = (cycles[0].finished_at, cycles[0].waiting_bytes) if cycles else None
    return _Reading(now, rate, read_at, before)


def _why_it_stands(
    connection: Connection, base_dir_id: int, row: Mapping[str, Any], reading: _Reading
) -> str | None:
    """Say why nothing of a backlog is read; None while it is read, or has just been found."""
    if not row["led_shards"]:
        return "no ingester leads it"
    lease = ingest_lease.c
    led_since = select(func.min(lease.acquired_at)).where(
        lease.base_dir_id == base_dir_id, lease.shard < row["shards"], lease.expires_at > reading.now
    )
    found_at = case((log_file.c.unread, log_file.c.created_at), else_=log_file.c.grown_at)
    waiting_since = (
        select(func.min(found_at))
        .join_from(log_file, train_job)
        .where(train_job.c.base_dir_id == base_dir_id, PENDING, WAITS)
    )
    times = reading.read_at, *(connection.execute(asked).scalar() for asked in (led_since, waiting_since))
    last = max((time for time in times if time is not None), default=reading.now)
    quiet_s = (reading.now - last).total_seconds()
    return f"none was read in the last {quiet_s:,.0f} s" if quiet_s > STANDS_AFTER_S else None


def _grows_since(
    connection: Connection, base_dir_id: int, size: int, left_s: float | None, reading: _Reading
) -> float | None:
    """Return for how many seconds a daemon's backlog has grown; None if it has not.

    A single ingest finds a large base dir part by part, which is no growth.
    """
    if reading.before is None or (left_s is not None and left_s < STANDS_AFTER_S):
        return None
    lease = ingest_lease.c
    daemon = select(func.count()).where(lease.base_dir_id == base_dir_id, lease.mode == "daemon")
    at, before = reading.before
    passed_s = (reading.now - at).total_seconds()
    if passed_s < STANDS_AFTER_S or size <= before:
        return None
    return passed_s if connection.execute(daemon).scalar_one() else None


def _in_words(seconds: float) -> str:
    """Say how long something takes, roughly."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{max(1, round(seconds))} s"
