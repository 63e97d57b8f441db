"""A page of jobs: rows that have what was asked for and nothing else, by few statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from helpers.engines import opened
from helpers.stored_jobs import StoredJob, add_bare_job, add_base_dir, add_job
from lineage_store import LineageStore
from lineage_store.query import jobs
from lineage_store.query.condition_dict import parse, read_subject
from lineage_store.query.job_sql import Want
from lineage_store.query.vocabulary import require_known
from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session

FIELDS = {"network": "LeNet5", "epoch": 3, "loss": 0.5}
OWN = {"state", "outcome", "host", "log_bytes", "updated_at", "first_started_at", "last_event_at"}


def _named(*names: str) -> tuple[tuple[str, Any], ...]:
    return tuple((name, read_subject(name)) for name in names)


def test_a_row_has_what_was_wanted_and_nothing_else(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    add_job(session, StoredJob("./a", FIELDS, {"acc": 0.5}, {"team": "x"}, label=3), base_dir_id)
    (bare,) = jobs.page(session, parse({}), Want(notes=False), None).rows
    assert (bare.base_dir, bare.train_id) == ("/logs", "./a")
    assert {bare.label, bare.model_lineage, bare.dataset_graph, *(getattr(bare, each) for each in OWN)} == {
        None
    }
    assert bare.values == {}
    names = _named("metric/acc", "user_defined/team", "metric/none", "loss", "state", "tag")
    (row,) = jobs.page(session, parse({}), Want(own=True, lineage=True, dataset=True, names=names), None).rows
    assert row.values == {
        "metric/acc": 0.5,
        "user_defined/team": "x",
        "metric/none": None,
        "loss": 0.5,
        "state": row.state,
        "tag": 3,
    }
    assert (row.label, row.dataset_graph, row.path.as_posix()) == (3, {}, "/logs/a")
    assert row.model_lineage is not None
    assert row.model_lineage["metric"] == {"acc": 0.5}
    assert jobs.newest(session, None) == [row._replace(model_lineage=None, dataset_graph=None, values={})]


@pytest.mark.parametrize("condition", [{}, {"limit": 2}, {"limit": 2, "sorted_name": "metric/m20"}])
def test_more_values_than_a_statement_joins_are_of_the_same_jobs(
    session: Session, condition: dict[str, Any]
) -> None:
    base_dir_id, names = add_base_dir(session), [f"metric/m{number}" for number in range(40)]
    for job in range(3):
        metrics = {f"m{number}": number + job / 10 for number in range(40) if (number + job) % 3}
        add_job(session, StoredJob(f"./{job}", metrics=metrics, update_time=job), base_dir_id)
    wanted, want = parse(condition), Want(lineage=True, names=_named(*names))
    rows = jobs.page(session, wanted, want, None).rows
    assert len(rows) == condition.get("limit", 3)
    for row in rows:
        assert row.model_lineage is not None
        known = row.model_lineage["metric"]
        assert row.values == {name: known.get(name.removeprefix("metric/")) for name in names}
    columns = jobs.columns(session, wanted, want, None)
    assert columns.rows()[: len(rows)] == rows


def test_jobs_by_their_ids_come_in_the_order_of_these_with_and_without_lineage(
    session: Session,
) -> None:
    base_dir_id = add_base_dir(session)
    ids = [add_job(session, StoredJob(name), base_dir_id) for name in ("./a", "./b")]
    ids.insert(1, add_bare_job(session, "./bare", base_dir_id))
    found = jobs.jobs_of_ids(session, ids[::-1], Want(lineage=True))
    assert [row.train_id for row in found] == ["./b", "./bare", "./a"]
    assert [row.model_lineage is None for row in found] == [False, True, False]


@contextmanager
def _selects(url: str) -> Iterator[tuple[Session, list[str]]]:
    """A transaction on a store of 30 jobs, and the SELECTs that are run in it."""
    ran: list[str] = []
    with opened(url) as engine:
        with writing(engine) as session:
            base_dir_id = add_base_dir(session)
            for number in range(30):
                add_job(session, StoredJob(f"./{number}", FIELDS, {"acc": number}, label=1), base_dir_id)
        with reading(engine) as session:
            driver: Any = session.connection.connection.dbapi_connection
            driver.set_trace_callback(ran.append)
            yield session, ran
            driver.set_trace_callback(None)


ALL = Want(own=True, lineage=True, dataset=True, names=_named("metric/acc", "metric_best/acc", "state"))


@pytest.mark.parametrize("want", [Want(notes=False), ALL], ids=["nothing", "everything"])
def test_a_page_and_its_count_are_three_statements_whatever_is_wanted(sqlite_url: str, want: Want) -> None:
    with _selects(sqlite_url) as (session, ran):
        found = jobs.page(session, parse({"limit": 20}), want, None)
    assert (len(found.rows), found.count) == (20, 30)
    assert len(ran) == 3, ran


def test_a_page_whose_names_are_checked_is_one_statement_more_for_each_name(sqlite_url: str) -> None:
    with _selects(sqlite_url) as (session, ran):
        condition = parse({"limit": 20, "metric/acc": {"gt": 4}, "sorted_name": "metric/acc"})
        require_known(
            session, [read_subject("metric/acc"), *(subject for _, subject in _named("metric/acc"))]
        )
        found = jobs.page(session, condition, ALL, None)
    assert (len(found.rows), found.count) == (20, 25)
    assert len(ran) == 4, ran


def test_all_jobs_as_columns_are_two_statements(sqlite_url: str) -> None:
    with _selects(sqlite_url) as (session, ran):
        found = jobs.columns(session, parse({}), ALL, None)
    assert len(found.train_id) == 30
    assert len(ran) == 2, ran


def test_a_page_of_a_store_without_jobs_is_empty(database_url: str, tmp_path: Path) -> None:
    with LineageStore(database_url) as store:
        found = store.lineage.page(None, ["metric_best/acc", "state"])
    assert (found.rows, found.count, found.several) == ([], 0, False)
