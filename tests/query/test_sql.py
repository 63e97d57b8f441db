"""The SQL of conditions, as reviewed, for both databases; and what `explain` shows of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from helpers.answers import filter_lineage
from helpers.snapshots import assert_matches_snapshot
from helpers.stored_jobs import StoredJob, add_base_dir, add_job
from lineage_store.query.condition_dict import parse, read_subject
from lineage_store.query.job_sql import (
    Want,
    compile_all,
    compile_columns,
    compile_count,
    compile_ranges,
    compile_rows,
)
from lineage_store.query.jobs import explain
from lineage_store.query.mindinsight_shapes import want_of
from lineage_store.store.database.db import open_engine, reading, writing
from lineage_store.store.database.sql import Query
from lineage_store.texts import key

CONDITIONS: dict[str, dict[str, Any]] = {
    "everything": {},
    "documented": {
        "optimizer": {"in": ["Adam", "Momentum"]},
        "epoch": {"ge": 10},
        "learning_rate": {"lt": 0.1},
        "metric/accuracy": {"gt": 0.9},
        "sorted_name": "metric/accuracy",
        "sorted_type": "descending",
        "limit": 20,
        "offset": 2,
    },
    "missing_and_nan": {
        "loss": {"in": ["NaN", 1.5, None]},
        "epoch": {"not_in": [1, None]},
        "metric/accuracy": {"not_in": [0.5, "n/a", None, [1]]},
        "user_defined/team": {"is_null": False},
    },
    "groups": {
        "or": [{"network": {"like": "Res%"}}, {"not": {"user_defined/team": {"ne": "vision"}}}],
        "lineage_type": "model",
        "sorted_by": [["loss", "ascending"], ["tag", "descending"], ["network", "ascending"]],
    },
}


@pytest.mark.parametrize("name", CONDITIONS)
@pytest.mark.parametrize("url", ["sqlite://", "postgresql+psycopg://"])
def test_a_condition_compiles_to_reviewed_sql(name: str, url: str) -> None:
    dialect = open_engine(url).dialect
    condition = parse(CONDITIONS[name])
    want = want_of(condition)
    statements = [compile_all(condition.where, condition.sort, (1,))]
    if condition.page is not None:
        found = compile_ranges(condition.where, condition.sort, (1,), want=want)
        statements = [statement for part in found for statement in (part.page, part.count)]
    statements += [compile_count(condition.where, None), compile_rows(dialect.name, want, every=False)]
    given = {"take": 20, "skip": 40, "wanted": [1, 2]}
    texts = [
        str(found.params(given).compile(dialect=dialect, compile_kwargs={"render_postcompile": True}))
        for found in statements
    ]
    text = ";\n\n".join(texts) + ";\n"
    assert_matches_snapshot(f"query_{name}_{dialect.name}.sql", text.replace(" \n", "\n"))


@pytest.mark.parametrize("url", ["sqlite://", "postgresql+psycopg://"])
def test_only_what_is_wanted_is_in_the_statement(url: str) -> None:
    dialect, condition = open_engine(url).dialect, parse({"epoch": {"ge": 10}})
    names = ("metric_best/accuracy", "user_defined/team", "loss", "state", "tag")
    want = Want(notes=False, names=tuple((name, read_subject(name)) for name in names))
    (part,) = compile_ranges(condition.where, (), None, want=want)
    page = str(part.page.params(take=20, skip=0).compile(dialect=dialect))
    columns = [
        str(
            compile_columns(condition.where, (), None, each, every=every)
            .params(most=9)
            .compile(dialect=dialect)
        )
        for each, every in ((want, False), (want, True), (Want(own=True), True))
    ]
    text = ";\n\n".join([page, *columns]) + ";\n"
    assert_matches_snapshot(f"query_wanted_{dialect.name}.sql", text.replace(" \n", "\n"))


def test_no_value_gets_into_the_text() -> None:
    hostile = "x'; DROP TABLE train_job; --"
    condition = parse(
        {
            f"metric/{hostile}": {"in": [hostile, [hostile]]},
            f"user_defined/{hostile}": {"like": hostile, "ge": hostile},
            "network": {"eq": hostile},
            "sorted_name": f"metric/{hostile}",
        }
    )
    ranges = compile_ranges(condition.where, condition.sort, None, want=want_of(condition))
    for statement in (
        compile_all(condition.where, condition.sort, None),
        compile_count(condition.where, None),
        *(statement for part in ranges for statement in (part.page, part.count)),
    ):
        assert "DROP" not in str(
            statement.params(take=1, skip=0).compile(compile_kwargs={"render_postcompile": True})
        )


def test_a_forgotten_value_is_an_error_and_no_answer(database_url: str) -> None:
    engine, condition = open_engine(database_url), parse({"epoch": {"ge": 2}})
    count = compile_count(condition.where, None)
    with reading(engine) as session:
        assert session.rows(Query(count), **condition.values) == [(0,)]
        with pytest.raises(DBAPIError):
            session.rows(Query(count))
    engine.dispose()


def test_explain_shows_statement_parameters_and_plan(database_url: str) -> None:
    engine = open_engine(database_url)
    with writing(engine) as session:
        base_dir_id = add_base_dir(session)
        add_job(session, StoredJob("./a", {"epoch": 3}), base_dir_id)
        add_job(session, StoredJob("./a", {"epoch": 3}), add_base_dir(session, "/other"))
    with reading(engine) as session:
        explanation = explain(
            session,
            parse({"epoch": {"ge": 2}, "network": {"in": ["A", "B"]}}),
            Want(lineage=True),
            [base_dir_id],
        )
    engine.dispose()
    (page,) = [each for each in explanation.statements if each.purpose == "All that match"]
    assert "lineage.epoch >= " in page.sql
    assert {2, "A", "B", base_dir_id} == {value for _, value in page.parameters}
    assert "v3_network = 'B'" in str(explanation)
    assert "train_job" in page.plan
    assert page.plan in str(explanation)


def test_explain_shows_the_page_in_the_order_asked_for(database_url: str) -> None:
    engine = open_engine(database_url)
    condition = {**CONDITIONS["documented"], "limit": 7, "offset": 3}
    with reading(engine) as session:
        explanation = explain(session, parse(condition), Want(lineage=True), None)
    engine.dispose()
    page, _count = explanation.statements
    assert {7, 21, 10, 0.1, 0.9, key("accuracy")} <= {value for _, value in page.parameters}
    assert f"= {key('accuracy')} (the key of 'accuracy')\n" in str(explanation)
    assert "LIMIT" in page.sql
    assert "metric" in page.plan


@pytest.mark.parametrize(
    "condition",
    [
        {"limit": 2},
        {"limit": 2, "metric/m": {"ge": 0}, "sorted_name": "metric/m"},
        {"limit": 2, "sorted_name": "metric/m"},
        {"limit": 2, "network": {"eq": "A"}},
        {"sorted_name": "epoch"},
    ],
    ids=["newest", "by metric", "three ranges", "few by a field", "all"],
)
@pytest.mark.parametrize("count", [True, False])
def test_explain_shows_the_statements_that_are_run_in_their_order(
    sqlite_url: str, condition: dict[str, Any], count: bool
) -> None:
    engine, wanted, ran = open_engine(sqlite_url), parse(condition), list[str]()
    with writing(engine) as session:
        base_dir_id = add_base_dir(session)
        for number in range(5):
            add_job(session, StoredJob(f"./{number}", {"network": "A"}, {"m": number}), base_dir_id)
    with reading(engine) as session:
        explained = explain(session, wanted, want_of(wanted), None, count=count).statements
        driver: Any = session.connection.connection.dbapi_connection
        driver.set_trace_callback(ran.append)
        answer = filter_lineage(session, wanted, None, count=count)
        driver.set_trace_callback(None)
    engine.dispose()
    assert answer["count"] == (5 if count or "limit" not in condition else None)
    assert count or not any("count" in each.purpose for each in explained)
    patterns = [re.escape(each.sql).replace(r"\?", ".+?") for each in explained]
    shown = [number for each in ran for number, pattern in enumerate(patterns) if re.fullmatch(pattern, each)]
    may_be_left_out = {number for number, each in enumerate(explained) if "unless" in each.purpose}
    assert shown == sorted(set(shown))
    assert set(shown) >= set(range(len(explained))) - may_be_left_out
    others = [each for each in ran if not any(re.fullmatch(pattern, each) for pattern in patterns)]
    assert not [each for each in others if ("LIMIT" in each and "SELECT 1" not in each) or "count(" in each]
