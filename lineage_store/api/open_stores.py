"""A cache of open stores, for MindInsight's functions, whose callers open none.

In: a URL, or None for the store of the settings. Out: an open LineageStore for the length of a block. Promises: threads
share the stores; at most MOST are kept open; a store is opened again when its SQLite file was replaced or is missing,
when a question to it failed in the database, and in a forked child, which does not touch connections of its parent; all
are closed when the process ends.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lineage_store import setting_sources
from lineage_store.api.store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import LineageQuerySummaryDataError
from lineage_store.store.database.default_location import default_url
from lineage_store.store.database.engine import sqlite_path
from lineage_store.store.database.file_watch import Identity, identity_of

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
    settings = setting_sources.load().settings
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
