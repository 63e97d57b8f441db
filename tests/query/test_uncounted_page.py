"""A page without a count: the same answer, and jobs that are being removed are not in it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from helpers.log_writer import Log
from helpers.stored_jobs import StoredJob, add_base_dir, add_job
from lineage_store import LineageStore
from lineage_store.api.reports import CleanUp
from lineage_store.errors import LineageParamSummaryPathError
from lineage_store.query.jobs import database_plan
from lineage_store.store.catalog.registry import FIRST_JOB
from lineage_store.store.database.db import writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema.tables import base_dir

NUMBERED: list[Any] = [*range(6), "text", None, [1]]
LOOKED_UP = {
    "sqlite": r"SEARCH train_job USING COVERING INDEX \S+ \(base_dir_id=\?",
    "postgresql": r"Index Only Scan using \S+ on train_job .*\n *Index Cond: \(base_dir_id = ",
}
BY_METRIC = {"sorted_name": "metric/m", "sorted_type": "descending"}


@pytest.fixture
def store(database_url: str) -> Iterator[LineageStore]:
    with LineageStore(database_url) as store:
        yield store


def fill(store: LineageStore, path: str, prefix: str = "") -> None:
    """Nine jobs whose metric `m` is six numbers, a text, null and a list."""
    with writing(store.engine) as session:
        base_dir_id = add_base_dir(session, path)
        for number, value in enumerate(NUMBERED):
            job = StoredJob(f"./{prefix}{number}", {"epoch": number % 2}, {"m": value}, update_time=number)
            add_job(session, job, base_dir_id)


@pytest.mark.parametrize(
    "condition",
    [
        {},
        BY_METRIC,
        {**BY_METRIC, "sorted_type": "ascending"},
        {**BY_METRIC, "metric/m": {"gt": 0}},
        {"epoch": {"eq": 1}, "sorted_name": "epoch"},
        {"metric/m": {"gt": 100}},
        {"metric/m": {"not_in": [math.nan, 1]}},
        {"loss": {"not_in": ["NaN"]}},
        {"epoch": {"not_in": list(range(100, 200))}},
        {"metric/m": {"ge": 0}, "sorted_by": [["metric/m", "ascending"], ["tag", "descending"]]},
    ],
)
@pytest.mark.slow
def test_a_page_without_its_count_is_the_page(store: LineageStore, condition: dict[str, Any]) -> None:
    fill(store, "/logs")
    fill(store, "/other", prefix="other-")
    store.job(("/logs", "./3")).annotate(label=2, remark="the best")
    pages = [(limit, offset) for limit in (1, 2, 4, 9, 20) for offset in range(20 // limit + 1)]
    for path, (limit, offset) in product([None, "/logs"], pages):
        asked = {**condition, "limit": limit, "offset": offset}
        counted = store.lineage.filter(asked, base_dir=path)
        answer = store.lineage.filter(asked, base_dir=path, count=False)
        assert answer.pop("count") in (None, counted.pop("count"))
        assert answer == counted, (asked, path)


@pytest.mark.parametrize("leaving", ["/logs", "/other"])
def test_a_base_dir_that_is_being_removed_is_neither_shown_nor_counted_for_one(
    store: LineageStore, leaving: str
) -> None:
    fill(store, "/logs")
    fill(store, "/other", prefix="other-")
    with writing(store.engine) as session:
        session.change(update(base_dir).where(base_dir.c.path == leaving).values(leaving=True))
    asked = {**BY_METRIC, "metric/m": {"ge": 0}, "limit": 4}
    answer = store.lineage.filter(asked, count=False)
    assert answer | {"count": 6} == store.lineage.filter(asked)
    shown = [each["summary_dir"] for each in answer["object"]]
    assert shown == [f"./{'other-' if leaving == '/logs' else ''}{number}" for number in (5, 4, 3, 2)]
    assert not any("base_dir" in each for each in answer["object"])


def test_nothing_is_shown_of_a_base_dir_that_is_being_removed(store: LineageStore) -> None:
    fill(store, "/logs")
    fill(store, "/other", prefix="other-")
    with writing(store.engine) as session:
        session.change(update(base_dir).where(base_dir.c.path == "/logs").values(leaving=True))
    for count in (True, False):
        answer = store.lineage.filter({"limit": 4}, base_dir="/logs", count=count)
        assert answer == {"customized": {}, "object": [], "count": 0}


def test_a_base_dir_without_jobs_does_not_make_them_several(store: LineageStore) -> None:
    fill(store, "/logs")
    with writing(store.engine) as session:
        add_base_dir(session, "/empty")
    answer = store.lineage.filter({**BY_METRIC, "metric/m": {"ge": 0}, "limit": 4}, count=False)
    assert not any("base_dir" in each for each in answer["object"])


def test_that_base_dirs_have_jobs_is_looked_up_whatever_they_hold(store: LineageStore) -> None:
    fill(store, "/logs")
    with store.engine.connect() as connection:
        plan = database_plan(Session(connection), FIRST_JOB, asked=1)
    assert re.search(LOOKED_UP[store.engine.dialect.name], plan)


@pytest.mark.parametrize("count", [True, False])
def test_a_base_dir_whose_jobs_were_all_removed_counts_for_nothing(
    store: LineageStore, tmp_path: Path, count: bool
) -> None:
    for place in ("one/a", "other/b"):
        Log().train(network="N").write_lineage(tmp_path / place).chmod(0o400)
        store.ingest((tmp_path / place).parent)
    assert all("base_dir" in each for each in store.lineage.filter({}, count=count)["object"])
    assert store.removal.remove(CleanUp(condition={"summary_dir": {"eq": "./b"}})).jobs == 1
    (left,) = store.lineage.filter({}, count=count)["object"]
    assert left["summary_dir"] == "./a"
    assert "base_dir" not in left


def test_an_unknown_base_dir_is_an_error_with_and_without_the_count(store: LineageStore) -> None:
    fill(store, "/logs")
    for count in (True, False):
        with pytest.raises(LineageParamSummaryPathError, match="does not know the base dir /nowhere"):
            store.lineage.filter({}, base_dir="/nowhere", count=count)
