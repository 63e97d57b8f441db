"""MindInsight's two functions, with its conditions and the shapes of its answers.

In: a directory and a condition, or a directory and keys. Out: plain dicts. Promises: new lineage is read first, unless
a daemon does that or the store is read-only; if reading it fails, the answer comes from what the store has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from lineage_store.api.paths import PathLike, absolute_path, place_of, real_path
from lineage_store.api.store import LineageStore
from lineage_store.errors import (
    DatabaseUnavailableError,
    LineageFileNotFoundError,
    LineageParamSummaryPathError,
    MindInsightException,
    TrainJobNotFoundError,
)
from lineage_store.store.database.conflicts import asked_again
from lineage_store.texts import to_stored


@asked_again
def filter_summary_lineage(
    summary_base_dir: PathLike,
    search_condition: Mapping[str, Any] | None = None,
    *,
    store: LineageStore | str | None = None,
    refresh: bool | None = None,
    count: bool = True,
) -> dict[str, Any]:
    """Return the lineage of all matching jobs below a base dir, in the shape of MindInsight's answer.

    Args:
        summary_base_dir: the directory of the job directories.
        search_condition: filters, `sorted_name`, `sorted_type`, `limit`, `offset` (a page number), `lineage_type`.
        store: a LineageStore or its URL; None for the default store. A store that is opened here stays open for further
            calls in this process.
        refresh: None reads new lineage first, if no daemon does and the store can be written; True reads everything;
            False reads nothing.
        count: as for `LineageStore.filter_lineage`.

    Raises:
        LineageParamSummaryPathError: there is no such directory, and the store does not know it.
        LineageFileNotFoundError: the directory has no log file, neither on disk nor in the store.
        LineageSearchConditionParamError: the condition is refused.
        LineageQuerySummaryDataError: the database failed.
    """
    from lineage_store.query.search.condition import parse

    path = real_path(summary_base_dir)
    with _opened(store) as opened:
        if refresh is not False:
            parse(search_condition, base_dir=str(path))  # raises before anything is written
            _require_jobs(opened, path)
            _refresh(opened, path, refresh)
        try:
            answer = opened.filter_lineage(search_condition, base_dir=path, count=count)
        except LineageParamSummaryPathError:
            _require_jobs(opened, path)  # may raise a more specific error
            raise
        if not answer["object"]:
            _require_jobs(opened, path)
        return answer


@asked_again
def get_summary_lineage(
    summary_dir: PathLike,
    keys: Sequence[str] | None = None,
    *,
    store: LineageStore | str | None = None,
    refresh: bool | None = None,
) -> dict[str, Any]:
    """Return the lineage of the job in one directory, in the shape of MindInsight 0.7's answer.

    Args:
        summary_dir: the job's directory. Its base dir is the nearest one that the store knows, else the parent.
        keys: parts of the lineage; see `LineageStore.get_lineage`.
        store, refresh: as for `filter_summary_lineage`.

    Raises: as `filter_summary_lineage`; LineageParamTypeError and LineageParamValueError for `keys`.
    """
    from lineage_store.ingest import base_dirs
    from lineage_store.ingest.scan.depth import holds_log_files
    from lineage_store.query import job_lineage

    job_lineage.read_keys(keys)
    with _opened(store) as opened:
        base_dir, train_id = _job_place(opened, summary_dir)
        if base_dirs.is_known(opened.read_engine, base_dir) or holds_log_files(base_dir, 0, train_id):
            _refresh(opened, base_dir, refresh, only=train_id)
        try:
            return opened.get_lineage(base_dir, train_id, keys)
        except (TrainJobNotFoundError, LineageParamSummaryPathError) as error:
            raise _no_job(base_dir, train_id) from error


def _no_job(base_dir: Path, train_id: str) -> MindInsightException:
    """Return the error that says why there is no lineage of this job's directory."""
    from lineage_store.ingest.scan.depth import holds_log_files

    path = base_dir / train_id
    if not os.path.isdir(path):
        return LineageParamSummaryPathError(f"{path} is no directory, and no job that the store knows.")
    if path.is_symlink():
        return LineageParamSummaryPathError(f"{path} is a symbolic link that leads out of the base dir.")
    if holds_log_files(base_dir, 0, train_id):
        too_deep = base_dir not in (path, path.parent)
        hint = f"It is more than one level below the base dir {base_dir}: set recursive = true."
        return LineageFileNotFoundError(
            f"The store has not read the log files of {path}.", hint=hint if too_deep else None
        )
    return LineageFileNotFoundError(f"There is no log file in {path}, neither now nor in the store.")


def _opened(store: LineageStore | str | None) -> AbstractContextManager[LineageStore]:
    from lineage_store.api.open_stores import kept_store

    return nullcontext(store) if isinstance(store, LineageStore) else kept_store(store)


def _refresh(store: LineageStore, path: Path, wanted: bool | None, only: str | None = None) -> None:
    if wanted is False or not os.path.isdir(path):
        return
    from lineage_store.ingest import refresh as refreshing

    try:
        engine = store.engine
    except DatabaseUnavailableError:
        return  # the store has logged that the primary does not answer; a standby does
    if wanted:
        refreshing.refresh_all(engine, path, store.settings)
    else:
        jobs = None if only is None else {to_stored(only)}
        refreshing.refresh_lineage(engine, path, store.settings, jobs)


def _require_jobs(store: LineageStore, path: Path) -> None:
    """Raise unless the store has jobs of the base dir, or there is a log file below it on disk."""
    from lineage_store.ingest import base_dirs
    from lineage_store.store.catalog import registry
    from lineage_store.store.database.engine import reading

    with reading(store.read_engine) as connection:
        base_dir_id = registry.base_dir_id(connection, base_dirs.stored_path(path))
        if base_dir_id is not None and registry.has_jobs(connection, base_dir_id):
            return
    if not os.path.isdir(path):
        raise LineageParamSummaryPathError(f"{path} is no directory, and no base dir that the store knows.")
    from lineage_store.ingest.scan import survey

    found = survey.find(path, store.settings)
    if not (found.files or found.unreadable):
        deeper = f"Deeper directories hold some, such as {', '.join(found.too_deep)}: set recursive = true."
        raise LineageFileNotFoundError(
            f"There is no log file below {path}, neither now nor in the store.",
            hint=deeper if found.too_deep else None,
        )


def _job_place(store: LineageStore, summary_dir: PathLike) -> tuple[Path, str]:
    """Return (base dir, train id) of a job's directory."""
    from lineage_store.ingest import base_dirs

    place = place_of(summary_dir, set(store.base_dirs()))
    if place is None:
        above = real_path(os.path.dirname(os.path.normpath(absolute_path(summary_dir))))
        if base_dirs.overlapping(store.read_engine, above) is not None:
            # the parent cannot become a base dir, as it overlaps with a known one: the directory is one itself
            return real_path(summary_dir), "./"
        place = place_of(summary_dir, {str(above)})
        assert place is not None
    return Path(place[0]), place[1]
