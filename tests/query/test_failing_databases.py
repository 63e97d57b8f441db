"""What a question says when the database fails under it."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, Engine, create_engine, text

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.query.condition import parse
from lineage_store.query.lineage import filter_lineage
from lineage_store.store.engine import open_engine, reading, writing


def _end_session(connection: Connection) -> None:
    session = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    administrator = create_engine(connection.engine.url)
    with administrator.connect() as other:
        other.execute(text("SELECT pg_terminate_backend(:session, 5000)"), {"session": session})
    administrator.dispose()


def _ask(engine: Engine, *, ended: bool = False) -> int:
    with reading(engine) as connection:
        if ended:
            _end_session(connection)
        count: int = filter_lineage(connection, parse({"limit": 1}), None)["count"]
        return count


def test_a_question_whose_session_is_ended_says_so_and_the_next_one_is_answered(postgres_url: str) -> None:
    engine = open_engine(postgres_url)
    with pytest.raises(DatabaseUnavailableError) as refused:
        _ask(engine, ended=True)
    assert "administrator command" in refused.value.message
    assert _ask(engine) == 0
    engine.dispose()


def test_a_question_to_a_store_without_its_tables_says_what_to_run(sqlite_url: str) -> None:
    engine = open_engine(sqlite_url)
    with writing(engine) as connection:
        connection.execute(text("ALTER TABLE annotation RENAME TO elsewhere"))
    with pytest.raises(DatabaseUnavailableError) as refused:
        _ask(engine)
    assert "no such table: annotation" in refused.value.message
    assert "lineage-store init" in str(refused.value.hint)
    engine.dispose()
