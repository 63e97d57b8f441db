"""The base dirs of a store: list them, forget one, or change the path of one whose job directories were moved.

In: `BaseDirs`, the noun of `LineageStore`, takes an open store and paths as people write them; the functions take an
engine and ids. Out: what was moved or forgotten. Promises: holds the lease, so that nobody ingests meanwhile. A move is
one transaction, so that an interruption leaves either path, and reads no log file again, because the store knows files
by their path relative to the base dir. Forgetting is many short ones: after an interruption, a later ingest reads all
files from the start, and forgetting the base dir again removes the rest. Log files are not touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.ingest.lease import drop_empty_neighbours, hold_lease, refuse_unfit
from lineage_store.ingest.retention import remove_rows
from lineage_store.ingest.scan.survey import all_known_files
from lineage_store.paths import PathLike, absolute_path, real_path, stored_path
from lineage_store.states import FileState
from lineage_store.store import leases
from lineage_store.store.catalog import refs, registry
from lineage_store.store.catalog.refs import BaseDirRef
from lineage_store.store.database.db import reading, require_writable, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.opened import Opened
from lineage_store.store.writes import removal
from lineage_store.store.writes.removal import Holdings
from lineage_store.texts import from_stored

_GONE = (FileState.MISSING, FileState.REPLACED)


@dataclass(frozen=True, slots=True)
class Move:
    """A base dir that changes its path."""

    old: str
    new: str
    holdings: Holdings
    """Number of its jobs, and of those with a label or a remark; all of them stay."""
    files: int
    """Log files that the store knows, without those it found missing before."""
    absent: int
    """Number of them that are not at the new path, or are shorter there than the bytes already read."""
    example: str | None
    """The path of one absent file."""


class BaseDirs:
    """The base dirs of a store: `store.base_dirs`.

    A path that the store does not know raises LineageParamSummaryPathError.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def __iter__(self) -> Iterator[str]:
        """Yield the paths of all base dirs of the store, sorted."""
        return iter([from_stored(path) for _, path in self._opened.ask(registry.stored_base_dirs)])

    def holdings(self, base_dir: PathLike) -> Holdings:
        """Return what `forget` would remove."""
        path = self._spelling(base_dir)
        return self._known(path, read_holdings(self._opened.engine, path))

    def forget(self, base_dir: PathLike) -> Holdings:
        """Remove a base dir with all its jobs, remarks and labels from the store; log files stay.

        Raises LeaseHeldError when an ingester holds its lease.
        """
        path = self._spelling(base_dir)
        return self._known(path, forget(self._opened.engine, path, self._opened.settings))

    def plan_move(self, old: PathLike, new: PathLike) -> Move:
        """Return what `move` would do. Raises as `move` does, but not for a lease or for missing log files."""
        place = self._left(old)
        return plan(self._opened.engine, place.id, place.path, real_path(new))

    def move(self, old: PathLike, new: PathLike, *, force: bool = False) -> Move:
        """Change the path of a base dir in the store, in one transaction; nothing is read again.

        `force`: even if log files that were read are missing below `new`. Raises LineageParamSummaryPathError also when
        the store knows `new`, or `new` is no directory, lies in another base dir or lacks log files; LeaseHeldError
        when an ingester leads `old`.
        """
        place, settings = self._left(old), self._opened.settings
        return move(self._opened.engine, place.id, place.path, real_path(new), settings, force=force)

    def _left(self, old: PathLike) -> BaseDirRef:
        """Return the base dir at a path that may have become a symbolic link to the new place."""
        named, known = Path(os.path.normpath(absolute_path(old))), self._opened.base_dirs()
        return next((place for place in known if place.path == named), None) or self._opened.base_dirs(old)[0]

    def _spelling(self, base_dir: PathLike) -> Path:
        return self._opened.ask(lambda session: refs.spelling(session, base_dir), self._opened.engine)

    def _known(self, path: Path, found: Holdings | None) -> Holdings:
        if found is None:
            raise self._opened.ask(lambda session: refs.unknown(session, path))
        return found


def plan(engine: Engine, base_dir_id: int, old: Path, new: Path) -> Move:
    """Return what `move` would do. Raises LineageParamSummaryPathError for a path that `move` never accepts."""
    with reading(engine) as session:
        _refuse_known(session, base_dir_id, old, new)
        holdings = removal.count_holdings(session, [base_dir_id])
    refuse_unfit(engine, new, besides=base_dir_id)
    files, absent = _compared(engine, base_dir_id, new)
    return Move(str(old), str(new), holdings, files, len(absent), next(iter(absent), None))


def move(
    engine: Engine, base_dir_id: int, old: Path, new: Path, settings: Settings, *, force: bool = False
) -> Move:
    """Give a base dir another path; `force`: even if log files are absent there."""
    require_writable(engine)
    planned = plan(engine, base_dir_id, old, new)
    if planned.absent and not force:
        raise LineageParamSummaryPathError(
            f"{planned.absent:,} of the {planned.files:,} log files of {old} are not below {new} as they were read, "
            f"such as {planned.example}.",
            hint="Give the directory that holds the same job directories; or, if those files are gone, --force.",
        )
    with (
        hold_lease(engine, base_dir_id, settings.lease_s, mode="once") as lease,
        writing(engine) as session,
    ):
        leases.confirm(session, lease)
        _refuse_known(session, base_dir_id, old, new)
        removal.rename(session, base_dir_id, stored_path(old), stored_path(new))
        drop_empty_neighbours(session, new)
    return planned


def _refuse_known(session: Session, base_dir_id: int, old: Path, new: Path) -> None:
    """Raise LineageParamSummaryPathError if the store has jobs at the new path; LeaseHeldError if it is led."""
    ids = removal.ids_of(session, stored_path(new))
    if not ids:
        return
    for each in ids:
        leases.last(session, each)
    held = removal.count_holdings(session, ids)
    if old == new:
        raise LineageParamSummaryPathError(
            f"The store knows {old} by this name already.", hint="There is nothing to do."
        )
    annotated = held.annotated + held.of_removed
    same = registry.same_jobs(session, ids[0]).get(base_dir_id, 0)
    if held.jobs and same == held.jobs and not annotated:
        is_there = f"its {held.jobs:,} jobs are the same files as those of {old}, without labels or remarks"
        hint = f"They were read twice: `lineage-store forget {new}`, then move {old} there."
    else:
        is_there = (
            f"{held.jobs:,} jobs, {same:,} of them the same files as those of {old}, "
            f"{annotated:,} with a label or remark, removed jobs included"
        )
        hint = f"Keep one of the two; labels and remarks that `lineage-store forget {new}` takes exist nowhere else."
    if held.jobs or annotated or len(ids) > 1:
        raise LineageParamSummaryPathError(f"The store knows {new} already: {is_there}.", hint=hint)


def _compared(engine: Engine, base_dir_id: int, new: Path) -> tuple[int, list[str]]:
    """Return the number of log files that should be there, and the paths of those that are absent or too short."""
    files, absent = 0, list[str]()
    for file in all_known_files(engine, base_dir_id):
        if file.state not in _GONE:
            files += 1
            path = new / from_stored(file.train_id) / from_stored(file.name)
            if not _holds(path, file.byte_offset):
                absent.append(str(path))
    return files, absent


def _holds(path: Path, size_bytes: int) -> bool:
    try:
        return path.stat().st_size >= size_bytes
    except OSError:
        return False


# ---- Forgetting


def read_holdings(engine: Engine, base_dir: Path) -> Holdings | None:
    """Return what the store holds of a base dir; None if it does not know the base dir."""
    return _known(engine, base_dir)[1]


def forget(engine: Engine, base_dir: Path, settings: Settings) -> Holdings | None:
    """Remove a base dir and its jobs from the store; return what was removed, None for an unknown base dir."""
    require_writable(engine)
    ids, found = _known(engine, base_dir)
    for base_dir_id in ids:
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once") as lease:
            with writing(engine) as session:
                leases.confirm(session, lease)
                removal.begin_forgetting(session, base_dir_id, stored_path(base_dir))
            remove_rows(engine, lease, settings.batch_rows)
    return found


def _known(engine: Engine, base_dir: Path) -> tuple[list[int], Holdings | None]:
    with reading(engine) as session:
        ids = removal.ids_of(session, stored_path(base_dir))
        return ids, removal.count_holdings(session, ids) if ids else None
