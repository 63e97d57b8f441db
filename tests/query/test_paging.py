"""Pages of jobs, problems and removed jobs: together they are the list, newest first, and each is a short query."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from sqlalchemy import Engine, event, insert, text

from helpers.stored_jobs import NOW, add_base_dir
from lineage_store import LineageStore
from lineage_store.api.store import LISTED_JOBS
from lineage_store.config import Settings
from lineage_store.errors import LineageParamTypeError, LineageParamValueError
from lineage_store.query.jobs import newest
from lineage_store.query.status import read_problems
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import Page, open_engine, reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import tables

ROWS = 3_000
Ask = Callable[[Session, int | None, Page], Sequence[Any]]
LISTS: dict[str, Ask] = {
    "train_job": lambda session, base_dir_id, page: newest(
        session, None if base_dir_id is None else [base_dir_id], page=page
    ),
    "ingest_problem": lambda session, base_dir_id, page: read_problems(
        session, None if base_dir_id is None else f"/logs_{base_dir_id}", page=page
    ),
    "tombstone": lambda session, base_dir_id, page: registry.latest(session, base_dir_id, page=page),
}


@pytest.fixture(scope="module")
def engine(module_database_url: str) -> Iterator[Engine]:
    """Two base dirs, with jobs, problems and removed jobs; ten of each happened at once."""
    engine = open_engine(module_database_url)
    with writing(engine) as session:
        ids = [add_base_dir(session, f"/logs_{number}") for number in (1, 2)]
        assert ids == [1, 2]
        session.change(insert(tables.train_job), [_job(ids[number % 2], number) for number in range(ROWS)])
        removed = [_tombstone(ids[number % 2], number) for number in range(ROWS)]
        session.change(insert(tables.tombstone), removed)
        session.change(insert(tables.ingest_problem), [_problem(ids[n % 2], n) for n in range(ROWS)])
        session.change(text("ANALYZE"))
    yield engine
    engine.dispose()


def _job(base_dir_id: int, number: int) -> dict[str, object]:
    return {
        "base_dir_id": base_dir_id,
        "train_id": f"./{number}",
        "state": "finished",
        "source_present": True,
        "update_time": number // 10,
        "log_bytes": 0,
        "created_at": NOW,
    }


def _tombstone(base_dir_id: int, number: int) -> dict[str, object]:
    at = NOW + timedelta(seconds=number // 10)
    return {
        "base_dir_id": base_dir_id,
        "train_id": f"./{number}",
        "removed_at": at,
        "reason": "missing",
        "last_file_time": 0,
    }


def _problem(base_dir_id: int, number: int) -> dict[str, object]:
    at = NOW + timedelta(seconds=number // 10)
    return {
        "base_dir_id": base_dir_id,
        "path": f"{number}",
        "kind": "torn_file",
        "reason": "torn",
        "remedy": "none",
        "first_seen_at": at,
        "last_seen_at": at,
        "resolved_at": at if number % 3 == 0 else None,
    }


def test_pages_together_are_the_list(engine: Engine) -> None:
    for ask, base_dir_id in product(LISTS.values(), (None, 2)):
        with reading(engine) as session:
            whole = list(ask(session, base_dir_id, Page()))
            pages = [ask(session, base_dir_id, Page(197, number)) for number in range(ROWS // 197 + 2)]
        assert len(whole) >= 1000
        assert [row for page in pages for row in page] == whole
        assert list(pages[-1]) == []


@pytest.mark.parametrize("name", LISTS)
def test_a_page_is_one_statement_that_goes_by_an_index(engine: Engine, name: str) -> None:
    # In the view, SQLite does not know that a path is one base dir's.
    alias, base_dir_ids = ("p", (None,)) if name == "ingest_problem" else (name, (None, 2))
    for base_dir_id in base_dir_ids:
        plan = plan_of_page(engine, LISTS[name], base_dir_id)
        assert not re.search(rf"Seq Scan on {name}\b|SCAN {alias}(?! USING INDEX)", plan), plan
        assert not re.search(r"USE TEMP B-TREE FOR ORDER BY|(?<!Incremental )\bSort  ?\(", plan), plan


def plan_of_page(engine: Engine, ask: Ask, base_dir_id: int | None) -> str:
    asked: list[tuple[str, Any]] = []
    with reading(engine) as session:
        event.listen(session.connection, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
        ask(session, base_dir_id, Page(20, 1))
        ((statement, parameters),) = [each for each in asked if each[0].startswith("SELECT")]
        explain = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
        return "\n".join(str(row[-1]) for row in session.rows(explain + statement, parameters))


def test_the_newest_come_first(engine: Engine) -> None:
    with reading(engine) as session:
        assert [job.train_id for job in newest(session, None, page=Page(2))] == ["./2990", "./2991"]
        problems = read_problems(session, page=Page(2))
        assert [each.subject.rpartition("/")[2] for each in problems] == ["2990", "2992"]
        first = registry.latest(session, page=Page(1))[0]
    assert (first.base_dir, first.train_id) == ("/logs_1", "./2990")


@pytest.mark.parametrize("base_dir", [None, "/logs_2"])
def test_by_cursor_the_pages_of_jobs_are_the_list(
    module_database_url: str, engine: Engine, base_dir: str | None
) -> None:
    with LineageStore(module_database_url, settings=Settings()) as store:
        found, after = [], None
        while page := store.lineage.jobs(base_dir, limit=197, after=after):
            found += page
            after = page[-1].cursor
        assert found == store.lineage.jobs(base_dir, limit=ROWS)
        assert len(store.lineage.jobs()) == LISTED_JOBS


def test_a_page_by_cursor_goes_by_an_index_however_far_down(engine: Engine) -> None:
    with reading(engine) as session:
        far_down = newest(session, [2], page=Page(1_400))[-1].cursor

    def ask(session: Session, base_dir_id: int | None, page: Page) -> Sequence[Any]:
        ids = None if base_dir_id is None else [base_dir_id]
        return newest(session, ids, after=far_down, page=page)

    for base_dir_id in (None, 2):
        plan = plan_of_page(engine, ask, base_dir_id)
        bound = (
            r"SEARCH train_job USING INDEX ix_train_job_\w+ \(.*update_time<\?\)|Index Cond: .*update_time <="
        )
        assert re.search(bound, plan), plan


@pytest.mark.parametrize("wrong", ["", "x", "WzEsMl0=", "WyIxIiwyLDNd", "e30="])
def test_what_is_no_cursor_is_refused(wrong: str, sqlite_url: str) -> None:
    no_cursor = pytest.raises(LineageParamValueError, match="is no cursor of a list of jobs")
    with LineageStore(sqlite_url, settings=Settings()) as store, no_cursor:
        store.lineage.jobs(after=wrong)


@pytest.mark.parametrize(
    "forged",
    [
        [True, "./a", 1],
        [0, "./a", True],
        [1.5, "./a", 1],
        [math.inf, "./a", 1],
        [0, "./a", "1"],
        [2**63, "./a", 1],
        [0, "./a", 2**31],
        [0, "\ud800", 1],
        [0, "a\0b", 1],
        [0, None, 1],
        {"a": 1, "b": 2, "c": 3},
    ],
)
def test_a_cursor_with_values_that_no_database_holds_is_refused(
    engine: Engine, module_database_url: str, forged: object
) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(forged).encode()).decode()
    no_cursor = pytest.raises(LineageParamValueError, match="is no cursor of a list of jobs")
    with LineageStore(module_database_url, settings=Settings()) as store, no_cursor:
        store.lineage.jobs(after=cursor)


def test_what_is_no_text_is_no_cursor(sqlite_url: str) -> None:
    no_cursor = pytest.raises(LineageParamValueError, match="after = 5 is no cursor of a list of jobs")
    with LineageStore(sqlite_url, settings=Settings()) as store, no_cursor:
        store.lineage.jobs(after=5)  # type: ignore[arg-type]


def test_the_store_gives_pages(engine: Engine, module_database_url: str) -> None:
    with LineageStore(module_database_url, settings=Settings()) as store:
        for ask in (store.lineage.jobs, lambda **page: store.repair.problems(**page)):
            assert list(ask(limit=7, page=2)) == list(ask())[14:21]
        assert store.removal.removed(limit=7, page=2) == store.removal.removed()[14:21]
        assert store.lineage.jobs(state="live") == []
        assert len(store.lineage.jobs(state="finished", limit=5)) == 5


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"page": -1, "limit": 1}, {"limit": 1 << 60}, {"limit": 10**5000}]
)
def test_what_is_no_page_is_refused(wrong: dict[str, int], sqlite_url: str) -> None:
    with LineageStore(sqlite_url, settings=Settings()) as store, pytest.raises(LineageParamValueError):
        store.lineage.jobs(**wrong)  # type: ignore[arg-type]


def test_a_page_that_is_no_number_is_refused() -> None:
    with pytest.raises(LineageParamTypeError, match="limit = '5' must be a whole number"):
        Page("5")  # type: ignore[arg-type]
