"""Statements compiled by one engine serve other engines of the same kind of database, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, literal, select
from sqlalchemy.engine.interfaces import CacheStats
from sqlalchemy.sql.selectable import Select

from helpers.engines import opened
from lineage_store.store.database import sql


def question(name: object) -> Select[Any]:
    """A statement that is compiled for each name."""
    return select(literal(1).label(str(name)))


def was_compiled(engine: Engine, statement: Select[Any]) -> bool:
    """Run the statement; return whether it had to be compiled."""
    found: list[CacheStats] = []

    def note(*execution: Any) -> None:
        found.append(execution[4].cache_hit)

    with engine.connect() as connection:
        event.listen(connection, "after_cursor_execute", note)
        connection.execute(statement)
    return CacheStats.CACHE_HIT not in found


def test_an_engine_uses_what_another_of_its_kind_compiled(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/a.db") as first, opened(f"sqlite:///{tmp_path}/b.db") as second:
        assert was_compiled(first, question(tmp_path.name))
        assert not was_compiled(second, question(tmp_path.name))


def test_another_kind_of_database_compiles_for_itself(tmp_path: Path, postgres_engine: Engine) -> None:
    with opened(f"sqlite:///{tmp_path}/a.db") as sqlite:
        assert was_compiled(sqlite, question(tmp_path.name))
        assert was_compiled(postgres_engine, question(tmp_path.name))


def test_no_more_statements_are_kept_than_the_cache_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_MOST", 3)
    with opened(f"sqlite:///{tmp_path}/a.db") as engine:
        for number in range(10):
            assert was_compiled(engine, question(f"{tmp_path.name}_{number}"))
            assert len(sql._COMPILED) <= 3
