"""`Session` has the answers and the errors of SQLAlchemy, whichever way a statement is run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, bindparam, insert, select
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Query, Session
from lineage_store.store.schema.tables import base_dir

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
COLUMNS = (base_dir.c.path_key, base_dir.c.leaving, base_dir.c.created_at, base_dir.c.discovered_at)
ALL = select(*COLUMNS).order_by(base_dir.c.path_key)
OF_KEY = select(base_dir.c.created_at).where(base_dir.c.path_key == bindparam("asked"))


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"path": f"/{number}", "path_key": number, "created_at": AT + timedelta(seconds=number), **more}


def fill(session: Session, count: int) -> None:
    session.insert(base_dir, [row(number, leaving=number % 2 == 0) for number in range(count)])


@pytest.mark.parametrize("count", [3, 300], ids=["one by one", "by COPY on PostgreSQL"])
def test_a_query_has_the_rows_of_its_select_with_truth_values_and_times(engine: Engine, count: int) -> None:
    with writing(engine) as session:
        fill(session, count)
        found = session.rows(Query(ALL))
        assert found == [tuple(each) for each in session.rows(ALL)]
        assert found[1] == (1, False, AT + timedelta(seconds=1), None)
        assert [type(value) for value in found[0]] == [int, bool, datetime, type(None)]
        assert found[0][2].tzinfo is UTC
        assert [rows for some in session.stream(Query(ALL), 2) for rows in some] == found
        assert [tuple(rows) for some in session.stream(ALL, 2) for rows in some] == found


def test_first_one_value_and_column_are_the_same_for_each_kind_of_statement(engine: Engine) -> None:
    with writing(engine) as session:
        fill(session, 3)
        number = select(base_dir.c.path_key).order_by(base_dir.c.path_key)
        for statement in (number, Query(number), "SELECT path_key FROM base_dir ORDER BY path_key"):
            assert tuple(session.first(statement) or ()) == (0,)
            assert session.value(statement) == 0
            assert session.column(statement) == [0, 1, 2]
        for asked in (OF_KEY, Query(OF_KEY)):
            assert tuple(session.one(asked, asked=1)) == (AT + timedelta(seconds=1),)
            assert session.value(asked, {"asked": 2}) == AT + timedelta(seconds=2)
            assert session.value(asked, asked=9) is None
            assert session.first(asked, asked=9) is None


def test_rows_as_mappings_have_the_names_of_their_columns(engine: Engine) -> None:
    with writing(engine) as session:
        fill(session, 2)
        query = select(base_dir.c.path_key, base_dir.c.created_at.label("made")).order_by(base_dir.c.path_key)
        expected = [{"path_key": 0, "made": AT}, {"path_key": 1, "made": AT + timedelta(seconds=1)}]
        assert session.mappings(query) == expected


def test_a_statement_is_executed_once_per_row_with_its_own_values_too(engine: Engine) -> None:
    elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
    with writing(engine) as session:
        assert session.change(insert(base_dir), [row(1, created_at=elsewhere), row(2)]) == 2
        assert session.value(Query(OF_KEY), asked=1) == AT
        moved = base_dir.update().where(base_dir.c.path_key == bindparam("of")).values(discovered_at=AT)
        assert session.change(moved, [{"of": 1}, {"of": 2}, {"of": 3}]) == 2
        assert session.column(select(base_dir.c.discovered_at)) == [AT, AT]
        assert session.change(insert(base_dir), []) == 0


def test_a_text_without_values_goes_to_the_driver_as_it_is(engine: Engine) -> None:
    with reading(engine) as session:
        assert session.value("SELECT '100 %s'") == "100 %s"


def test_a_part_is_rolled_back_alone(engine: Engine) -> None:
    with writing(engine) as session:
        fill(session, 1)
        with pytest.raises(IntegrityError), session.savepoint():
            fill(session, 2)
        assert session.column(select(base_dir.c.path_key)) == [0]


def test_the_drivers_errors_are_named_as_sqlalchemys(engine: Engine) -> None:
    nowhere = select(base_dir.c.path_key.op("no_operator")(1))
    for statement in (nowhere, Query(nowhere)):
        with reading(engine) as session, pytest.raises((OperationalError, ProgrammingError)) as caught:
            session.rows(statement)
        assert "no_operator" in (caught.value.statement or "")


def end_then_ask(engine: Engine, session: Session) -> None:
    """Ask in a session that the server has ended."""
    gone = session.value("SELECT pg_backend_pid()")
    with writing(engine) as other:
        other.change(f"SELECT pg_terminate_backend({gone}, 5000)")
    try:
        session.rows(Query(ALL))
    finally:
        assert session.connection.invalidated


def test_a_connection_that_is_gone_is_not_used_again(postgres_engine: Engine) -> None:
    with pytest.raises(DatabaseUnavailableError), reading(postgres_engine) as session:
        end_then_ask(postgres_engine, session)
    with reading(postgres_engine) as session:
        assert session.rows(Query(ALL)) == []


def test_now_is_the_time_of_the_databases_clock(engine: Engine) -> None:
    with reading(engine) as session:
        now = session.now()
        assert now.tzinfo is UTC
        assert now <= session.now()
