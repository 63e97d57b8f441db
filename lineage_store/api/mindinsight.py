"""MindInsight's two functions, with its conditions and the shapes of its answers.

In: a directory and a condition, or a directory and keys. Out: plain dicts. Promises: new lineage is read first, unless
a daemon does that or the store is read-only; if reading it fails, the answer comes from what the store has.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_store import config
from lineage_store.api.store import LineageStore, checked, want_rows
from lineage_store.config import Settings
from lineage_store.errors import (
    DatabaseUnavailableError,
    LineageFileNotFoundError,
    LineageParamSummaryPathError,
    LineageQuerySummaryDataError,
    MindInsightException,
    TrainJobNotFoundError,
)
from lineage_store.paths import Identity, PathLike, absolute_path, identity_of, place_of, real_path
from lineage_store.store.catalog import refs
from lineage_store.store.opened import asked_again, default_url
from lineage_store.texts import to_stored

if TYPE_CHECKING:
    from lineage_store.query.condition import SearchCondition
    from lineage_store.query.job_sql import Want
    from lineage_store.query.jobs import JobPage


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
        count: as for `Lineage.filter`.

    Raises:
        LineageParamSummaryPathError: there is no such directory, and the store does not know it.
        LineageFileNotFoundError: the directory has no log file, neither on disk nor in the store.
        LineageSearchConditionParamError: the condition is refused.
        LineageQuerySummaryDataError: the database failed.
    """
    from lineage_store.query import mindinsight_shapes

    absolute_path(summary_base_dir)  # raises for what is no path
    with _opened(store) as opened:
        path = _spelling(opened, summary_base_dir)
        wanted = checked(search_condition, path)  # raises before anything is written
        found = _found(opened, path, wanted, mindinsight_shapes.want_of(wanted), refresh, count=count)
        return mindinsight_shapes.answer(found, wanted)


@asked_again
def refreshed_page(
    base_dir: PathLike,
    condition: Mapping[str, Any] | None,
    names: Iterable[str] = (),
    *,
    store: LineageStore,
    refresh: bool | None = None,
    count: bool = True,
) -> JobPage:
    """Return the page of `Lineage.page`, with new lineage read first as by `filter_summary_lineage`."""
    path = _spelling(store, base_dir)
    wanted = checked(condition, path)
    return _found(store, path, wanted, want_rows(wanted, names), refresh, count=count)


def answer_of(
    found: JobPage, condition: Mapping[str, Any] | None, base_dir: PathLike | None = None
) -> dict[str, Any]:
    """Return the page that answers a condition in the shape of `filter_summary_lineage`."""
    from lineage_store.query import mindinsight_shapes

    return mindinsight_shapes.answer(found, checked(condition, base_dir))


def _found(
    store: LineageStore, path: Path, wanted: SearchCondition, want: Want, refresh: bool | None, *, count: bool
) -> JobPage:
    if refresh is not False:
        _require_jobs(store, path)
        _refresh(store, path, refresh)
    try:
        found = store.lineage.ask_page(wanted, want, path, count=count)
    except LineageParamSummaryPathError:
        _require_jobs(store, path)  # may raise a more specific error
        raise
    if not found.rows:
        _require_jobs(store, path)
    return found


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
        keys: parts of the lineage; see `Job.lineage`.
        store, refresh: as for `filter_summary_lineage`.

    Raises: as `filter_summary_lineage`; LineageParamTypeError and LineageParamValueError for `keys`.
    """
    from lineage_store.ingest import lease
    from lineage_store.ingest.scan.discovery import holds_log_files
    from lineage_store.query.mindinsight_shapes import read_keys

    read_keys(keys)
    with _opened(store) as opened:
        base_dir, train_id = _job_place(opened, summary_dir)
        if lease.is_known(opened.opened.read_engine, base_dir) or holds_log_files(base_dir, 0, train_id):
            _refresh(opened, base_dir, refresh, only=train_id)
        try:
            return opened.job((base_dir, train_id)).lineage(keys)
        except (TrainJobNotFoundError, LineageParamSummaryPathError) as error:
            raise _no_job(base_dir, train_id) from error


def _no_job(base_dir: Path, train_id: str) -> MindInsightException:
    """Return the error that says why there is no lineage of this job's directory."""
    from lineage_store.ingest.scan.discovery import holds_log_files

    path = base_dir / train_id
    if not os.path.isdir(path):
        return LineageParamSummaryPathError(f"{path} is no directory, and no job that the store knows.")
    if path.is_symlink():
        return LineageParamSummaryPathError(f"{path} is a symbolic link that points out of the base dir.")
    if holds_log_files(base_dir, 0, train_id):
        too_deep = base_dir not in (path, path.parent)
        hint = f"It is more than one level below the base dir {base_dir}: set recursive = true."
        return LineageFileNotFoundError(
            f"The store has not read the log files of {path}.", hint=hint if too_deep else None
        )
    return LineageFileNotFoundError(f"There is no log file in {path}, neither now nor in the store.")


def _opened(store: LineageStore | str | None) -> AbstractContextManager[LineageStore]:

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
        refreshing.refresh_all(engine, path, store.opened.settings)
    else:
        jobs = None if only is None else {to_stored(only)}
        refreshing.refresh_lineage(engine, path, store.opened.settings, jobs)


def _require_jobs(store: LineageStore, path: Path) -> None:
    """Raise unless the store has jobs of the base dir, or there is a log file below it on disk."""
    from lineage_store import paths
    from lineage_store.store.catalog import registry
    from lineage_store.store.database.db import reading

    with reading(store.opened.read_engine) as session:
        base_dir_id = registry.base_dir_id(session, paths.stored_path(path))
        if base_dir_id is not None and registry.has_jobs(session, base_dir_id):
            return
    if not os.path.isdir(path):
        raise LineageParamSummaryPathError(f"{path} is no directory, and no base dir that the store knows.")
    from lineage_store.ingest.scan import survey

    found = survey.find_files(path, store.opened.settings)
    if not (found.files or found.unreadable):
        deeper = f"Deeper directories hold some, such as {', '.join(found.too_deep)}: set recursive = true."
        raise LineageFileNotFoundError(
            f"There is no log file below {path}, neither now nor in the store.",
            hint=deeper if found.too_deep else None,
        )


def known_base_dirs(store: LineageStore, paths: Sequence[PathLike]) -> list[str]:
    """Return those of some paths that are base dirs of the store, as the store has them."""
    found = store.opened.ask(lambda session: [refs.known_base_dir(session, path) for path in paths])
    return [str(each.path) for each in found if each is not None]


def _spelling(store: LineageStore, path: PathLike) -> Path:
    return store.opened.ask(lambda session: refs.spelling(session, path))


def _job_place(store: LineageStore, summary_dir: PathLike) -> tuple[Path, str]:
    """Return (base dir, train id) of a job's directory."""
    from lineage_store.ingest import lease

    place = place_of(summary_dir, set(store.base_dirs))
    if place is None:
        above = real_path(os.path.dirname(os.path.normpath(absolute_path(summary_dir))))
        if lease.overlapping(store.opened.read_engine, above) is not None:
            # the parent cannot become a base dir, as it overlaps with a known one: the directory is one itself
            return real_path(summary_dir), "./"
        place = place_of(summary_dir, {str(above)})
        assert place is not None
    return Path(place[0]), place[1]


# ---- A cache of open stores, for MindInsight's functions, whose callers open none
# In: a URL, or None for the store of the settings. Out: an open LineageStore for the length of a block. Promises:
# threads share the stores; at most MOST are kept open; a store is opened again when its SQLite file was replaced or
# is missing, when a question to it failed in the database, and in a forked child, which does not touch connections of
# its parent; all are closed when the process ends.


MOST = 4
_Key = tuple[str, Settings]


@dataclass(slots=True, eq=False)
class _Kept:
    store: LineageStore
    file: Identity | None
    """The identity of its SQLite file; None on PostgreSQL."""
    users: int = 0


_KEPT: dict[_Key, _Kept] = {}
"""The open stores; the one that was used last comes last."""
_OF_PARENT: list[_Kept] = []
"""Stores of the parent process: referenced, so that garbage collection does not close their connections here."""
_LOCK = threading.Lock()


@contextmanager
def kept_store(url: str | None) -> Iterator[LineageStore]:
    """Give the store of a URL for the length of a block, open already if possible. Raises as `LineageStore` does."""
    settings = config.load().settings
    named = url or settings.database_url
    key = (named or default_url(), settings)
    kept = _take(key) or _keep(key, LineageStore(named or None, settings=settings))
    try:
        yield kept.store
    except LineageQuerySummaryDataError:
        with _LOCK:
            if _KEPT.get(key) is kept:
                _drop(key)
        raise
    finally:
        with _LOCK:
            kept.users -= 1
            _close_unless_needed(kept)


def _take(key: _Key) -> _Kept | None:
    with _LOCK:
        kept = _KEPT.get(key)
        if kept is None:
            return None
        if kept.file != _file_of(key):
            _drop(key)
            return None
        kept.users += 1
        _KEPT[key] = _KEPT.pop(key)
        return kept


def _keep(key: _Key, store: LineageStore) -> _Kept:
    with _LOCK:
        if key in _KEPT:  # another thread was faster
            _drop(key)
        _KEPT[key] = kept = _Kept(store, _file_of(key), users=1)
        while len(_KEPT) > MOST:
            _drop(next(iter(_KEPT)))
        return kept


def _drop(key: _Key) -> None:
    _close_unless_needed(_KEPT.pop(key))


def _close_unless_needed(kept: _Kept) -> None:
    if kept.users == 0 and kept not in _KEPT.values():
        kept.store.close()


def _file_of(key: _Key) -> Identity | None:
    from lineage_store.store.database.db import sqlite_path

    path = sqlite_path(key[0])
    return None if path is None else identity_of(path)


def _begin_as_child() -> None:
    global _LOCK
    _LOCK = threading.Lock()  # a thread of the parent may have held the old one
    _OF_PARENT.extend(_KEPT.values())
    _KEPT.clear()


def _close_all() -> None:
    while _KEPT:
        _KEPT.popitem()[1].store.close()


os.register_at_fork(after_in_child=_begin_as_child)
atexit.register(_close_all)
