"""Compiled statements, shared by all engines of a process.

In: an engine that was just created. Out: the same engine, which uses what others compiled and lets them use its own.
Promises: statements, parameters and answers stay the same; the number of cached statements is bounded.
Why: SQLAlchemy caches compiled statements per engine. Each ingest needs some fifty, which take half a millisecond each
to compile, and `filter_summary_lineage` without a store may open an engine per call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

_MOST = 1000


class _SharedCache(dict[Any, Any]):
    """Compiled statements, keyed by name and version of the database instead of by the dialect object of one engine."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_of_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self) >= _MOST:
            self.clear()
        super().__setitem__(_of_kind(key), compiled)


def _of_kind(key: Any) -> Any:
    dialect, *statement = key
    return dialect.name, dialect.server_version_info, *statement


_COMPILED = _SharedCache()


def share_compiled(engine: Engine) -> None:
    """Let the engine use the cache of compiled statements that all engines share."""
    engine.update_execution_options(compiled_cache=_COMPILED)
