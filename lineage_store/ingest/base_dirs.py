"""Base dirs and the store: which of them it knows, and which it may come to know.

In: an engine and a path. Out: an id, or a refusal that says what to do. Promises: a job has one id only, for no base
dir of the store lies inside another; a directory that holds no log file never gets in by being asked about.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import Connection, Engine

from lineage_store.errors import LeaseLostError, LineageParamSummaryPathError
from lineage_store.store.catalog import moved, registry
from lineage_store.store.database.engine import database_time, reading, writing
from lineage_store.texts import from_stored, to_stored


def stored_path(base_dir: Path) -> str:
    """The name of a base dir in the store."""
    return to_stored(str(base_dir))


def is_known(engine: Engine, base_dir: Path) -> bool:
    """Whether the store knows the base dir."""
    with reading(engine) as connection:
        return registry.base_dir_id(connection, stored_path(base_dir)) is not None


def known_at(engine: Engine, base_dir_id: int) -> str | None:
    """The other base dir that holds most of the jobs of this one too."""
    with reading(engine) as connection:
        same, paths = moved.same_jobs(connection, base_dir_id), dict(registry.base_dirs(connection))
    return from_stored(paths[max(same, key=lambda other: same[other])]) if same else None


def overlapping(engine: Engine, base_dir: Path, *, besides: int | None = None) -> str | None:
    """A base dir with jobs that lies above or below this path, and that the store knows; not one that will move."""
    with reading(engine) as connection:
        found = _neighbours(connection, base_dir, besides).items()
        return next((other for other, has_jobs in found if has_jobs), None)


def refuse_unfit(engine: Engine, base_dir: Path, *, besides: int | None = None) -> None:
    """Raise LineageParamSummaryPathError when a base dir cannot become known, or `besides` cannot move there."""
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
    """The id of a base dir, made if need be. Raises LineageParamSummaryPathError for one that is unfit."""
    with reading(engine) as connection:
        known = registry.base_dir_id(connection, stored_path(base_dir))
    if known is not None:
        return known
    refuse_unfit(engine, base_dir)
    with writing(engine) as connection:
        drop_empty_neighbours(connection, base_dir)
        return registry.ensure_base_dir(connection, stored_path(base_dir), database_time(connection))


def confirm(connection: Connection, base_dir_id: int, base_dir: Path) -> None:
    """Raise LeaseLostError where a base dir whose lease was just taken is no longer at the path it was known by."""
    if registry.base_dir_id(connection, stored_path(base_dir)) != base_dir_id:
        raise LeaseLostError(f"The base dir {base_dir} was moved or forgotten just now.", hint="Try again.")


def drop_empty_neighbours(connection: Connection, base_dir: Path) -> None:
    """Drop base dirs without jobs that lie above or below a path."""
    for other, has_jobs in _neighbours(connection, base_dir).items():
        if not has_jobs:
            registry.forget_base_dir(connection, stored_path(Path(other)))


def _refuse_moved(engine: Engine, base_dir: Path) -> None:
    """Raise LineageParamSummaryPathError for a path that a base dir has left, unless other jobs are there now."""
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
    return left.startswith(right.rstrip("/") + "/") or right.startswith(left.rstrip("/") + "/")
