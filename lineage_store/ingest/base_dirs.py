"""The base dirs that the store knows, and those that may be registered.

In: an engine and a path. Out: an id, or an error that says what to do. Promises: no base dir with jobs lies inside
another, so that a job has only one id. Does not know whether a directory holds log files: callers check that before
they register one.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Connection, Engine

from lineage_store.errors import LeaseLostError, LineageParamSummaryPathError
from lineage_store.ingest.scan.depth import in_snapshots
from lineage_store.store.catalog import moved, registry
from lineage_store.store.database.engine import database_time, reading, writing
from lineage_store.texts import from_stored, to_stored


def stored_path(base_dir: Path) -> str:
    """Return the path of a base dir as the store has it."""
    return to_stored(str(base_dir))


def is_known(engine: Engine, base_dir: Path) -> bool:
    """Whether the store knows the base dir."""
    with reading(engine) as connection:
        return registry.base_dir_id(connection, stored_path(base_dir)) is not None


def known_at(engine: Engine, base_dir_id: int) -> str | None:
    """Return the other base dir that has the most jobs in common with this one; None when there is none."""
    with reading(engine) as connection:
        paths = dict(registry.base_dirs(connection))
        same = moved.same_jobs(connection, base_dir_id) if len(paths) > 1 else {}
    return from_stored(paths[max(same, key=lambda other: same[other])]) if same else None


def overlapping(engine: Engine, base_dir: Path, *, besides: int | None = None) -> str | None:
    """Return a known base dir with jobs, other than `besides`, above or below a path; None if there is none."""
    with reading(engine) as connection:
        found = _neighbours(connection, base_dir, besides).items()
        return next((other for other, has_jobs in found if has_jobs), None)


def refuse_unfit(engine: Engine, base_dir: Path, *, besides: int | None = None) -> None:
    """Raise LineageParamSummaryPathError when a base dir cannot be registered, or `besides` cannot move to its path."""
    if besides is None:
        _refuse_moved(engine, base_dir)
    if not os.path.isdir(base_dir):
        raise LineageParamSummaryPathError(
            f"{base_dir} is no directory.", hint="Give the directory of the job directories."
        )
    if (other := overlapping(engine, base_dir, besides=besides)) is not None:
        raise LineageParamSummaryPathError(
            f"{base_dir} overlaps with the base dir {other}, which the store knows already.",
            hint=f"Ask for {other} instead, or `lineage-store forget {other}` first, or use another store: "
            "a job must have one id only.",
        )


def register(engine: Engine, base_dir: Path) -> int:
    """Return the id of a base dir, registering it if need be. Raises LineageParamSummaryPathError as `refuse_unfit`."""
    with reading(engine) as connection:
        known = registry.base_dir_id(connection, stored_path(base_dir))
    if known is not None:
        return known
    refuse_unfit(engine, base_dir)
    with writing(engine) as connection:
        drop_empty_neighbours(connection, base_dir)
        return registry.ensure_base_dir(connection, stored_path(base_dir), database_time(connection))


def confirm(connection: Connection, base_dir_id: int, base_dir: Path) -> None:
    """Raise LeaseLostError when a base dir, whose lease was just acquired, is no longer at its path."""
    if registry.base_dir_id(connection, stored_path(base_dir)) != base_dir_id:
        raise LeaseLostError(f"The base dir {base_dir} was moved or forgotten just now.", hint="Try again.")


def drop_empty_neighbours(connection: Connection, base_dir: Path) -> None:
    """Forget base dirs without jobs that lie above or below a path."""
    for other, has_jobs in _neighbours(connection, base_dir).items():
        if not has_jobs:
            registry.forget_base_dir(connection, stored_path(Path(other)))


def _refuse_moved(engine: Engine, base_dir: Path) -> None:
    """Raise LineageParamSummaryPathError for a path from which a base dir was moved, unless it now has other jobs."""
    with reading(engine) as connection:
        found = moved.moved_to(connection, stored_path(base_dir))
        known = registry.next_known(connection, found[0], "", None)[0] if found else []
    places = (base_dir / from_stored(file.train_id) / from_stored(file.name) for file in known)
    if found and (not os.path.isdir(base_dir) or any(map(os.path.exists, places))):
        raise LineageParamSummaryPathError(
            f"{base_dir} was moved to {from_stored(found[1])}, and is told under that name.",
            hint=f"Ask for {from_stored(found[1])}.",
        )


def _neighbours(connection: Connection, base_dir: Path, besides: int | None = None) -> dict[str, bool]:
    """Known base dirs above and below a path, and whether each has jobs."""
    path = str(base_dir)
    return {
        other: registry.has_jobs(connection, other_id)
        for other_id, stored in registry.base_dirs(connection)
        if other_id != besides and _overlap(path, other := from_stored(stored))
    }


def _overlap(left: str, right: str) -> bool:
    """Whether one path lies in the other, but not in a directory of snapshots there, into which no search goes."""
    return _lies_in(left, right) or _lies_in(right, left)


def _lies_in(path: str, above: str) -> bool:
    start = above.rstrip("/") + "/"
    return path.startswith(start) and not in_snapshots(path[len(start) :].split("/"))
