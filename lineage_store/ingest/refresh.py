"""Bringing a base dir up to date: in full, or only as far as a question about lineage needs.

In: an engine, a base dir, settings. Out: a report; or a log line that says why the store is not up to date, and how old
its content is. Promises: `refresh_lineage` and `refresh_all` do not fail because another ingester leads, or because the
database or the disk fails or does not answer. Does not know which question follows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from sqlalchemy import URL, Engine
from sqlalchemy.exc import DBAPIError

from lineage_store import paths
from lineage_store.config import Settings
from lineage_store.errors import (
    DatabaseUnavailableError,
    LeaseHeldError,
    LeaseLostError,
    LineageParamSummaryPathError,
)
from lineage_store.ingest import pipeline
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.ingest.pipeline import Ingester, ingest
from lineage_store.ingest.scan.directory_cache import DirectoryCache, new_cache
from lineage_store.ingest.scan.survey import Scope, Survey, find_files, survey, survey_changes
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import is_read_only, reading
from lineage_store.worker import ReaderStuckError

log = logging.getLogger(__name__)

LINEAGE = frozenset({"lineage"})
_Leads = Sequence[tuple[str, int]]
"""The last holder of each shard's lease, with the epoch."""
_CACHES: dict[tuple[URL, Path, Settings], tuple[_Leads, DirectoryCache]] = {}
"""What the last question about each base dir has seen on disk, and who had led the base dir last at that time."""
LEADER_DEADLINE_S = 10.0
"""How long a full refresh waits for the leader to read what is on disk now."""
_NO_REFRESH = (LeaseLostError, DatabaseUnavailableError, ReaderStuckError, DBAPIError, OSError)
"""Failures of a refresh, after which the question is answered from the store."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
"""The pauses between two queries for what the leader has read."""


def refresh_lineage(
    engine: Engine, base_dir: Path, settings: Settings, only: Collection[str] | None = None
) -> None:
    """Read new lineage events (of the jobs `only`) if nobody leads the base dir and the store may be written.

    Otherwise log how old the store's content is. Raises LineageParamSummaryPathError for a base dir that cannot be
    registered.
    """
    started = time.monotonic()
    expected = (LeaseHeldError, *_NO_REFRESH)
    if not _refresh(lambda: _read_lineage(engine, base_dir, settings, only), engine, base_dir, expected):
        return
    seconds = time.monotonic() - started
    if seconds > 1:
        log.warning("Reading the new lineage of %s took %.1f s; a daemon would save that.", base_dir, seconds)


def refresh_all(engine: Engine, base_dir: Path, settings: Settings) -> None:
    """Read everything that is new, or wait up to LEADER_DEADLINE_S for the leader to read what is on disk now."""

    def read_all() -> None:
        try:
            ingest(engine, base_dir, settings, waits=False)
        except LeaseHeldError:
            wait_for_leader(engine, base_dir, settings)

    expected = (LineageParamSummaryPathError, *_NO_REFRESH)
    _refresh(read_all, engine, base_dir, expected, level=logging.WARNING)


def _refresh(
    read: Callable[[], None],
    engine: Engine,
    base_dir: Path,
    expected: tuple[type[Exception], ...],
    *,
    level: int = logging.INFO,
) -> bool:
    """Read what is new; return whether that was possible. Otherwise log how old the store's content is, and why."""
    if is_read_only(engine):
        log.info("Answered from the store (%s): it is open for reading only.", _age(engine, base_dir))
        return False
    try:
        read()
    except expected as error:
        # the database's message, without the statement that SQLAlchemy shows below it
        reason = str(error).partition("\n")[0]
        log.log(level, "Answered from the store (%s): %s", _age(engine, base_dir), reason)
        return False
    return True


def _read_lineage(engine: Engine, base_dir: Path, settings: Settings, only: Collection[str] | None) -> None:
    """Acquire the lease only when something has changed; of a whole base dir, a cache shows that at little cost."""
    base_dir_id = register(engine, base_dir)
    with reading(engine) as session:
        last = leases.last(session, base_dir_id)
    scope = Scope(engine, base_dir, base_dir_id, settings, LINEAGE)
    cache = _cache_of(engine, base_dir, settings, last) if only is None else None
    todo = _survey_lineage(scope, cache, only)
    if todo:
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once", base_dir=base_dir) as lease:
            # Another ingester led since the survey, or may have: with several shards, the epoch does not show it.
            if lease.epoch != max((epoch for _, epoch in last), default=0) + 1 or lease.shards.count > 1:
                cache = None if cache is None else new_cache(base_dir, settings)
                todo = _survey_lineage(scope, cache, only)
            pipeline.ingest_survey(Ingester(engine, base_dir, lease, settings), todo, searched=False)
        last = [(lease.holder, lease.epoch) for _ in lease.shards.numbers]
    if cache is not None:
        _CACHES[engine.url, base_dir, settings] = last, cache


def _survey_lineage(scope: Scope, cache: DirectoryCache | None, only: Collection[str] | None) -> Survey:
    if cache is None:
        (of_jobs,) = survey(scope, only)
        return of_jobs
    relist_after_s = scope.settings.finished_interval_s
    signs = cache.signs(scope.base_dir, relist_after_s=relist_after_s, thorough=True)
    return survey_changes(scope, cache, signs)


def _cache_of(engine: Engine, base_dir: Path, settings: Settings, last: _Leads) -> DirectoryCache:
    """Take the cache of this process out of _CACHES, so that no two threads share it; a new one if it is outdated."""
    of, cache = _CACHES.pop((engine.url, base_dir, settings), (None, None))
    return cache if cache is not None and last and of == last else new_cache(base_dir, settings)


def wait_for_leader(engine: Engine, base_dir: Path, settings: Settings) -> None:
    """Wait until the leader has read the files up to their present sizes; give up (logged) after LEADER_DEADLINE_S."""
    behind = {
        (file.train_id, file.name): file.sight.size_bytes for file in find_files(base_dir, settings).files
    }
    deadline, pause_s = time.monotonic() + LEADER_DEADLINE_S, _FIRST_PAUSE_S
    while behind := _still_behind(engine, base_dir, behind):
        if time.monotonic() > deadline:
            log.warning(
                "The daemon that follows %s has not caught up in %.0f s.", base_dir, LEADER_DEADLINE_S
            )
            return
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _still_behind(
    engine: Engine, base_dir: Path, sizes: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """Return which of some files, by train id and name, the leader has not read up to these sizes."""
    jobs = {train_id for train_id, _ in sizes}
    with reading(engine) as session:
        base_dir_id = registry.base_dir_id(session, paths.stored_path(base_dir))
        if base_dir_id is None:
            return dict(sizes)
        known = registry.known_files(session, base_dir_id, only=jobs)
        removed = registry.removed_among(session, base_dir_id, jobs)
    looked_at = {
        (file.train_id, file.name): file.size_bytes for file in known if file.stat_stamp or file.suspect_since
    }
    return {
        path: size
        for path, size in sizes.items()
        if looked_at.get(path, -1) < size and path[0] not in removed
    }


def _age(engine: Engine, base_dir: Path) -> str:
    """Say in words how old the store's content of a base dir is, and who holds its lease."""
    try:
        with reading(engine) as session:
            base_dir_id = registry.base_dir_id(session, paths.stored_path(base_dir)) or 0
            looked = registry.discovered_at(session, base_dir_id)
            leader = leases.leader(session, base_dir_id)
            now = session.now()
    except DatabaseUnavailableError:
        return "its age is unknown"
    by = f"followed by {leader}" if leader else "no daemon follows it"
    if looked is None:
        return f"{by}; never read in full"
    return f"{by}; read {(now - looked).total_seconds():.0f} s ago"
