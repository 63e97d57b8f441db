"""What is wrong, and trying again.

In: an open LineageStore, a path. Out: problems with their remedies; what was read again. Log files are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lineage_store.api import LineageStore, PathLike, real_path
from lineage_store.api.base_dirs import base_dirs
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.operations import reread
from lineage_store.operations.reread import Reread
from lineage_store.query.status import read_cycles, read_problems
from lineage_store.store.database import engine as engines
from lineage_store.store.database.paging import Page
from lineage_store.store.records import KnownFile, relative_path
from lineage_store.texts import to_stored

Row = Mapping[str, Any]


def problems(
    store: LineageStore,
    base_dir: PathLike | None = None,
    *,
    resolved: bool = False,
    limit: int | None = None,
    page: int = 0,
) -> Sequence[Row]:
    """Rows of v_ingest_problem, newest first: the open ones of one base dir or of all, and `resolved` ones too.

    `limit` and `page` as for `LineageStore.train_jobs`. Raises LineageParamSummaryPathError when the store does not
    know the base dir.
    """
    part = Page(limit, page)
    path = None if base_dir is None else to_stored(base_dirs(store, base_dir)[0][1])
    with engines.reading(store.engine) as connection:
        return read_problems(connection, path, resolved=resolved, page=part)


def problems_below(store: LineageStore, path: PathLike | None = None) -> Sequence[Row]:
    """The open problems of a log file, or of a job or base dir and all in it; None: all there are."""
    found = problems(store)
    if path is None:
        return found
    place = to_stored(str(real_path(path)))
    paths = [str(Path(row["base_dir"], row["path"])) for row in found]
    return [row for row, at in zip(found, paths, strict=True) if at == place or at.startswith(f"{place}/")]


def cycles(store: LineageStore, base_dir: PathLike | None = None, *, limit: int = 20) -> Sequence[Row]:
    """Rows of v_ingest_cycle: the last passes over one base dir, or over each, newest first."""
    places = base_dirs(store, base_dir)
    with engines.reading(store.engine) as connection:
        found = [read_cycles(connection, to_stored(path), limit) for _, path in places]
    return [row for of_base_dir in found for row in of_base_dir]


def retry(store: LineageStore, path: PathLike | None = None) -> Reread:
    """Try again what is in trouble: one log file, or a job or base dir with all in it; None: all base dirs.

    Files that lost bytes are read from the start. A daemon gives way meanwhile.

    Raises LineageParamSummaryPathError for a path outside the store's base dirs, LeaseHeldError while an ingester that
    is no daemon is at work.
    """
    wanted = None if path is None else real_path(path)
    places = base_dirs(store, None)
    if wanted is not None:
        places = [(number, above) for number, above in places if _is_below(wanted, Path(above))]
        if not places:
            raise LineageParamSummaryPathError(
                f"{wanted} is not below a base dir of the store.", hint="`lineage-store why` tells more."
            )
    total = Reread(0, 0)
    for number, above in places:
        below = None if wanted is None else wanted.relative_to(above).as_posix()
        only = None if below in (None, ".") else _within(to_stored(below))
        total = total.plus(reread.retry(store.engine, Path(above), number, store.settings, only))
    return total


def reingest(store: LineageStore, base_dir: PathLike, train_id: str) -> Reread:
    """Forget what was read of a job and read it again from the first byte; readers see the old until the new is there.

    Labels and remarks stay; a job that was removed comes back. Raises TrainJobNotFoundError,
    LineageParamSummaryPathError, LeaseHeldError.
    """
    ((number, path),) = base_dirs(store, base_dir)
    return reread.reingest(store.engine, Path(path), number, to_stored(train_id), store.settings)


def _is_below(path: Path, base_dir: Path) -> bool:
    return path == base_dir or base_dir in path.parents


def _within(below: str) -> Callable[[KnownFile], bool]:
    """Whether a file is the one at a path below the base dir (stored text), or lies in the directory there."""

    def admits(file: KnownFile) -> bool:
        place = relative_path(file.train_id, file.name)
        return place == below or place.startswith(f"{below}/")

    return admits
