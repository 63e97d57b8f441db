"""Measure a store for monitoring.

In: an engine. Out: `Measures`. Promises: all that the store tells, numbers and findings, is of one transaction; sizes,
the disk and what this host's daemons tell is of now. A database that does not answer is a measure (`is_up`), not an
exception. Does not know the format in which monitors read measures.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Integer, Text, column, func, select, table, text
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.findings import Finding
from lineage_store.operations import health
from lineage_store.query.backlog import read_backlogs
from lineage_store.query.views import view_rows
from lineage_store.store.admin.replay import Replay
from lineage_store.store.database.engine import database_time, reading, sqlite_path
from lineage_store.store.database.filesystem import beside
from lineage_store.store.schema.tables import base_dir, ingest_total

Row = Mapping[str, Any]
_TOTALS = select(base_dir.c.path, ingest_total).join_from(ingest_total, base_dir).where(~base_dir.c.leaving)
_PROBLEMS = (
    select(column("base_dir", Text()), column("kind", Text()), func.sum(column("problems", Integer())))
    .select_from(table("v_ingest_problem"))
    .where(column("resolved_at").is_(None))
    .group_by(column("base_dir"), column("kind"))
)
_SIZE = text("SELECT pg_database_size(current_database())")


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of a SQLite store."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of a store. Text is in its stored form, which every format can hold."""

    is_up: bool
    findings: Sequence[Finding] = ()
    base_dirs: Sequence[Row] = ()
    """Rows of v_base_dir, each with `lag_s`, the seconds since it was last searched in full (None if it never was), and
    `waiting_s`, the seconds that reading its backlog takes (None while that is unknown)."""
    totals: Sequence[Row] = ()
    """Rows of ingest_total, each with the `path` of its base dir."""
    problems: Sequence[tuple[str, str, int]] = ()
    """(base dir, kind, number of open problems)."""
    store_bytes: int | None = None
    disk: Disk | None = None
    """None for PostgreSQL, whose disk only its own host can measure."""
    standby: Replay | None = None
    """None if no standby answers questions."""


def measure(engine: Engine, wanted: Sequence[Path], *, within_s: float) -> Measures:
    """Measure a store now; `wanted` and `within_s` as for `health.findings`."""
    try:
        with reading(engine) as connection:
            stored = health.read_stored(connection, None, within_s=within_s)
            found = _read(connection, engine)
        findings = health.complete(engine, None, wanted, stored)
    except (DatabaseUnavailableError, DBAPIError) as error:
        return measure_without(engine.url.render_as_string(hide_password=False), error)
    return Measures(True, findings, *found)


def measure_without(url: str, error: Exception) -> Measures:
    """Return the measures of a store that cannot be opened or does not answer."""
    if isinstance(error, DatabaseUnavailableError):
        return Measures(False, health.findings_without_database(url, None, error))
    return Measures(False)


def _read(connection: Connection, engine: Engine) -> tuple[Any, ...]:
    rows, now = view_rows(connection, "v_base_dir", {}, "base_dir"), database_time(connection)
    left_s = {each.base_dir: each.left_s for each in read_backlogs(connection, rows)}
    for row in rows:
        row["waiting_s"] = left_s.get(row["base_dir"], 0.0)
        searched = row["discovered_at"]
        row["lag_s"] = None if searched is None else (now - searched).total_seconds()
    totals = connection.execute(_TOTALS).mappings().all()
    problems = [(row[0], row[1], row[2]) for row in connection.execute(_PROBLEMS)]
    path = sqlite_path(engine.url)
    if path is None:
        return rows, totals, problems, int(connection.execute(_SIZE).scalar_one()), None
    files = [path, beside(path, "-wal")]
    size, disk = sum(file.stat().st_size for file in files if file.exists()), shutil.disk_usage(path)
    return rows, totals, problems, size, Disk(disk.total, disk.free)
