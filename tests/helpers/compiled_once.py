"""Statements compiled once a session: what one engine compiled serves all engines of its kind.

SQLAlchemy keeps what it compiled with each engine. A store has one engine, but each test has its own: a quarter of its
time went into compiling the same statements again. Statements, parameters and answers stay the same.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, event

_MOST = 2000


class _Compiled(dict[Any, Any]):
    """Compiled statements by kind of database, where SQLAlchemy asks by the dialect of one engine."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_of_its_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self) >= _MOST:
            self.clear()
        super().__setitem__(_of_its_kind(key), compiled)


def _of_its_kind(key: Any) -> Any:
    dialect, *rest = key
    return dialect.name, dialect.statement_compiler, *rest


def share_compiled_statements() -> None:
    """Let all engines of this process use what others compiled."""
    compiled = _Compiled()

    @event.listens_for(Engine, "engine_connect")
    def share(connection: Connection) -> None:
        connection.execution_options(compiled_cache=compiled)
