"""The error of a question when the database fails during it."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from helpers import faults
from helpers.answers import filter_lineage
from helpers.databases import end_all_sessions
from helpers.engines import url_of
from lineage_store import LineageStore
from lineage_store.errors import DatabaseUnavailableError
from lineage_store.query.condition_dict import parse
from lineage_store.store.admin import read_only_sql
from lineage_store.store.database.db import open_engine, reading, writing


def _ask(engine: Engine, *, ended: bool = False) -> int:
    with reading(engine) as session:
        if ended:
            end_all_sessions(url_of(engine))
        count: int = filter_lineage(session, parse({"limit": 1}), None)["count"]
        return count


def test_a_question_whose_session_is_ended_says_so_and_the_next_one_is_answered(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    with pytest.raises(DatabaseUnavailableError) as refused:
        _ask(engine, ended=True)
    assert "administrator command" in refused.value.message
    assert _ask(engine) == 0
    engine.dispose()


def test_no_connection_for_a_statement_of_its_own_is_a_database_that_is_unavailable(
    postgres_url: str,
) -> None:
    with LineageStore(postgres_url) as store, faults.down(store.engine):
        store.engine.dispose()
        with pytest.raises(DatabaseUnavailableError, match="not currently accepting connections"):
            store.lineage.filter(count=False)
        with (
            pytest.raises(DatabaseUnavailableError, match="not currently accepting connections"),
            read_only_sql.run_statement(store.engine, "SELECT 1", timeout_s=5),
        ):
            pass


def test_a_question_to_a_store_without_its_tables_says_what_to_run(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)
    with writing(engine) as session:
        session.change(text("ALTER TABLE lineage RENAME TO elsewhere"))
    with pytest.raises(DatabaseUnavailableError) as refused:
        _ask(engine)
    assert "no such table: lineage" in refused.value.message
    assert "lineage-store init" in str(refused.value.hint)
    engine.dispose()
