"""How a store stands: its status, what is wrong with ingest, and measures for a monitor.

In: `Health`, the noun of `LineageStore`, takes an open store and paths as people write them; the functions take an
engine, or a URL if the store cannot be opened. Out: status, findings, measures. They come from the store, from the
status files of this host's daemons, and from the disk. Promises: changes nothing; all that the store reports in one
answer is of one transaction; a database that does not answer is a measure (`is_up`), not an exception. A failure to
write to the store cannot be recorded in the store, so daemons record it in their status files. Does not know the format
in which monitors read measures.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, Integer, Text, column, func, select, table, text
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import ConfigError, DatabaseUnavailableError
from lineage_store.finding_kinds import KINDS, Severity
from lineage_store.findings import THE_STORE, Finding, finding, of_database
from lineage_store.ingest.daemon import status_file
from lineage_store.ingest.daemon.status_file import ENDED, STOPPED, DaemonStatus
from lineage_store.paths import PathLike, absolute_path, beside
from lineage_store.query.status import (
    StoreStatus,
    problem_of,
    read_backlogs,
    read_cycles,
    read_shards,
    read_status,
    view_rows,
)
from lineage_store.store.admin import obstacles
from lineage_store.store.admin.obstacles import WriteAheadLog, obstacle_to
from lineage_store.store.catalog import refs, registry, retention
from lineage_store.store.database import db, standby
from lineage_store.store.database.db import Page, reading, sqlite_path
from lineage_store.store.database.sql import Session
from lineage_store.store.database.standby import Replay
from lineage_store.store.opened import Opened, default_url
from lineage_store.store.schema.tables import HALF_OF_IDS, HALF_USED, base_dir, ingest_total, metadata, series
from lineage_store.texts import from_stored, to_stored

if TYPE_CHECKING:
    from lineage_store.operations.monitoring import StoreCollector

Row = Mapping[str, Any]


class Health:
    """How a store and its ingest stand: `store.health`.

    `base_dir` is one that the store knows, or None for all; otherwise LineageParamSummaryPathError is raised. What
    reports on ingest asks the primary, because leases look expired on a standby that lags; while the primary does not
    answer, the standby is asked.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def status(self, base_dir: PathLike | None = None, *, problems: int = 10) -> StoreStatus:
        """Return lag, jobs by state, leader, last pass, the newest open problems, and jobs known twice."""

        def answer(session: Session) -> StoreStatus:
            if base_dir is None:
                return read_status(session, problems=problems)
            place = refs.base_dir(session, base_dir)
            return read_status(session, to_stored(str(place.path)), place.id, problems=problems)

        return self._opened.ask(answer, self._opened.informed)

    def findings(self, base_dir: PathLike | None = None, *, within_s: float = 60.0) -> Sequence[Finding]:
        """Return what is wrong with ingest; empty when all is well.

        A base dir, of the store or of the settings, is well when an ingester leads it or has searched it in the last
        `within_s` seconds, and no daemon of this host fails to read it. Also reported are the reason why the store
        cannot be written, when nothing is read, and a standby that lags by more than `within_s` or does not answer.
        """
        try:
            path = None if base_dir is None else self._opened.base_dirs(base_dir)[0].path
            found = findings(self._opened.engine, path, self._wanted, within_s=within_s)
        except DatabaseUnavailableError as error:
            if self._opened.standby is None:
                raise
            url = self._opened.primary.url.render_as_string(hide_password=False)
            path = None if base_dir is None else refs.as_written(base_dir)
            found = findings_of_unopened(url, path, error)
        return [*found, *self._of_standby(self.standby(within_s=within_s))]

    def measures(self, *, within_s: float = 60.0) -> Measures:
        """Return the status of the store as numbers for a monitor, also while the database does not answer.

        Its `findings` are those of the method `findings`; `metrics` serves it all to Prometheus.
        """
        found = measure(self._opened.primary, self._wanted, within_s=within_s)
        standby = self.standby(within_s=within_s)
        return replace(found, findings=[*found.findings, *self._of_standby(standby)], standby=standby)

    def metrics(self) -> StoreCollector:
        """Return a collector of `measures` for a registry of prometheus_client: `registry.register(…)`.

        Raises ConfigError when the client, of the extra `web`, is missing.
        """
        return collector(self.measures)

    def standby(self, *, within_s: float = 60.0) -> Replay | None:
        """Return how far the standby of `read_database_url` lags, with a finding above `within_s`; None without one."""
        if self._opened.standby is None:
            return None
        return standby.read_replay(self._opened.primary, self._opened.standby.engine, within_s=within_s)

    def write_ahead_log(self) -> WriteAheadLog | None:
        """Return the size of the write-ahead log of a SQLite store, and whether it is too large; None on PostgreSQL."""
        return obstacles.read_wal(self._opened.primary)

    def cycles(self, base_dir: PathLike | None = None, *, limit: int = 20) -> Sequence[Row]:
        """Return the rows of v_ingest_cycle for the last `limit` passes over each base dir, newest first."""

        def answer(session: Session) -> Sequence[Row]:
            paths = [to_stored(str(place.path)) for place in refs.base_dirs(session, base_dir)]
            return [row for path in paths for row in read_cycles(session, path, limit)]

        return self._opened.ask(answer)

    @property
    def _wanted(self) -> list[Path]:
        """The base dirs of the settings."""
        return [absolute_path(named) for named in self._opened.settings.base_dirs]

    @staticmethod
    def _of_standby(standby: Replay | None) -> list[Finding]:
        return [standby.finding] if standby and standby.finding else []


@dataclass(frozen=True, slots=True)
class StoredHealth:
    """What the store tells of the health of ingest, at one moment."""

    findings: Sequence[Finding]
    leaders: Mapping[tuple[str, int], str | None]
    """By base dir, in its stored form, and shard."""
    base_dirs: Collection[Path]


def daemon_statuses(url: str, base_dir: Path | None = None) -> Sequence[DaemonStatus]:
    """Return what this host's daemons do with one base dir, or with all, even if the database does not answer.

    `url` as in the settings: empty for the default store. Only this user's daemons; for root, every user's.
    """
    store = db.identity(db.parse_url(url or default_url()))
    only = None if base_dir is None else str(base_dir)
    return [status for status in status_file.read_statuses(store) if only in (None, status.base_dir)]


def findings(
    engine: Engine, base_dir: Path | None, wanted: Sequence[Path], *, within_s: float
) -> Sequence[Finding]:
    """Return what is wrong with one base dir, or with all, those in `wanted` too, which the store may not know."""
    with db.reading(engine) as session:
        stored = read_stored(session, base_dir, within_s=within_s)
    return complete(engine, base_dir, wanted, stored)


def read_stored(session: Session, base_dir: Path | None, *, within_s: float) -> StoredHealth:
    """Read what the store reports, in the caller's transaction."""
    stored = None if base_dir is None else to_stored(str(base_dir))
    return StoredHealth(
        read_findings(session, stored, within_s),
        {(row["base_dir"], row["shard"]): row["leader"] for row in read_shards(session, stored)},
        {Path(from_stored(path)) for _, path in registry.stored_base_dirs(session)},
    )


def complete(
    engine: Engine, base_dir: Path | None, wanted: Sequence[Path], stored: StoredHealth
) -> Sequence[Finding]:
    """Return what the store reported with what settings, this host's daemons and the database add to it now."""
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
    found += _of_daemons(daemon_statuses(url, base_dir), stored.leaders, idle)
    obstacle = obstacle_to(engine) if any(each.severity is Severity.STANDSTILL for each in found) else None
    if obstacle is not None and all(each.remedy != obstacle.remedy for each in found):
        found.insert(0, obstacle)
    return found


def findings_of_unopened(
    url: str, base_dir: Path | None, error: DatabaseUnavailableError
) -> Sequence[Finding]:
    """Return what is wrong if the store cannot be opened: the cause, and what this host's daemons report."""
    found = [of_database(error.cause, what=error.message, remedy=error.hint or "")]
    statuses = daemon_statuses(url, base_dir)
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


# ---- What a monitor should report: base dirs that nobody reads, log files that cannot be read, ids that run out
# In: an open read transaction. Out: findings; none when all is well. Text is in its stored form. Does not know
# anything outside the store: a daemon that cannot write to the store looks like one that does not lead.


LONGEST_SEARCH_S = 900.0
"""How old the last search of a led base dir may be: very many directories on a slow disk take minutes to search."""


def read_findings(session: Session, base_dir: str | None, within_s: float) -> list[Finding]:
    """Return what is wrong with one base dir (stored path; None: with all).

    A base dir without a leader is reported when its last search is more than `within_s` seconds ago.
    """
    here = {} if base_dir is None else {"base_dir": base_dir}
    base_dirs = view_rows(session, "v_base_dir", here, "base_dir")
    if not base_dirs:
        return [finding("no_base_dir", THE_STORE)]
    found = [each for row in base_dirs for each in _of_leading(session, row, within_s)]
    only = None if base_dir is None else registry.base_dir_id(session, base_dir)
    found += retention.waiting(session, only)
    found += [each.finding for each in read_backlogs(session, base_dirs)]
    return [*found, *_of_ids(session), *_of_problems(session, here)]


def _of_leading(session: Session, row: Mapping[str, Any], within_s: float) -> Iterator[Finding]:
    subject, leader, searched_at = row["base_dir"], row["leader"], row["discovered_at"]
    unled = row["shards"] - row["led_shards"]
    which = "it" if row["shards"] == 1 else f"{unled} of its {row['shards']} shards"
    age_s = None if searched_at is None else (session.now() - searched_at).total_seconds()
    if unled and (age_s is None or age_s > within_s):
        searched = "never searched in full" if age_s is None else f"last searched {age_s:,.0f} s ago"
        yield finding("unattended_base_dir", subject, which=which, searched=searched)
    elif not unled and age_s is not None and age_s > max(within_s, LONGEST_SEARCH_S):
        yield finding("unsearched_base_dir", subject, leader=leader, age_s=age_s)


def _of_ids(session: Session) -> Iterator[Finding]:
    """Yield a finding for each kind of number of which half is used up; an index finds the greatest quickly."""
    with_ids = [each for each in metadata.sorted_tables if "id" in each.c]
    given = {f"rows of {each.name}": select(func.max(each.c.id)) for each in with_ids}
    given["series of a job"] = select(func.max(series.c.series_no)).where(HALF_USED)
    for numbered, greatest in given.items():
        used = session.value(greatest) or 0
        if used >= HALF_OF_IDS:
            yield finding("half_of_ids_used", THE_STORE, numbered=numbered, used=used, most=2 * HALF_OF_IDS)


def _of_problems(session: Session, here: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding for each base dir and kind of open problem worse than a note: their count and the newest."""
    base_dir, kind = column("base_dir", Text()), column("kind", Text())
    worse = Severity.SOME_FILES, Severity.STANDSTILL
    wrong = [each.name for each in KINDS.values() if each.severity in worse]
    problems = func.sum(column("problems", Integer())).label("problems")
    counted = select(base_dir, kind, problems).select_from(table("v_ingest_problem"))
    counted = counted.where(column("resolved_at").is_(None), kind.in_(wrong))
    for name, value in here.items():
        counted = counted.where(column(name) == value)
    for row in session.rows(counted.group_by(base_dir, kind).order_by(base_dir, kind)):
        these = {"base_dir": row.base_dir, "kind": row.kind, "resolved_at": None}
        newest = view_rows(session, "v_ingest_problem", these, "-first_seen_at", "path", page=Page(1))[0]
        found = replace(problem_of(newest), subject=row.base_dir)
        if newest["path"] != ".":
            what = f"{found.title}: {row.problems:,}, such as {newest['path']}: {found.what}"
            found = replace(found, what=what)
        yield found


# ---- Measures for a monitor


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
        with reading(engine) as session:
            stored = read_stored(session, None, within_s=within_s)
            found = _read(session, engine)
        findings = complete(engine, None, wanted, stored)
    except (DatabaseUnavailableError, DBAPIError) as error:
        return measure_without(engine.url.render_as_string(hide_password=False), error)
    return Measures(True, findings, *found)


def measure_without(url: str, error: Exception) -> Measures:
    """Return the measures of a store that cannot be opened or does not answer."""
    if isinstance(error, DatabaseUnavailableError):
        return Measures(False, findings_of_unopened(url, None, error))
    return Measures(False)


def _read(session: Session, engine: Engine) -> tuple[Any, ...]:
    rows, now = view_rows(session, "v_base_dir", {}, "base_dir"), session.now()
    left_s = {each.base_dir: each.left_s for each in read_backlogs(session, rows)}
    for row in rows:
        row["waiting_s"] = left_s.get(row["base_dir"], 0.0)
        searched = row["discovered_at"]
        row["lag_s"] = None if searched is None else (now - searched).total_seconds()
    totals = session.mappings(_TOTALS)
    problems = [(row[0], row[1], row[2]) for row in session.rows(_PROBLEMS)]
    path = sqlite_path(engine.url)
    if path is None:
        return rows, totals, problems, int(session.value(_SIZE)), None
    files = [path, beside(path, "-wal")]
    size, disk = sum(file.stat().st_size for file in files if file.exists()), shutil.disk_usage(path)
    return rows, totals, problems, size, Disk(disk.total, disk.free)


def collector(measure: Callable[[], Measures]) -> StoreCollector:
    """Return a collector for a registry of prometheus_client. Raises ConfigError without the client."""
    _require_client()
    from lineage_store.operations.monitoring import StoreCollector

    return StoreCollector(measure)


@contextmanager
def metrics_at(port: int, measure: Callable[[], Measures]) -> Iterator[None]:
    """Serve metrics at a port of this host for the length of the block; 0: do nothing. Raises ConfigError."""
    if not port:
        yield
        return
    _require_client()
    from lineage_store.operations.monitoring import exposed

    with exposed(port, measure):
        yield


def _require_client() -> None:
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"Metrics need a package that cannot be imported: {error}.",
            hint="Run: pip install 'lineage-store[web]'",
        ) from error
