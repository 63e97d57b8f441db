"""Questions that take long: a limited number run at once, and one stops when nobody waits for its answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from sqlalchemy import text

from helpers.log_writer import Log
from helpers.served import serving
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError
from lineage_store.server.asking import Ask, State
from lineage_store.server.mindinsight.routes import GETS, Endpoint
from lineage_store.store.database import connections

_ENDLESS = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"
router = APIRouter()


@router.get("/endless")
async def endless(ask: Ask) -> None:
    """Ask what no database ever answers."""
    await ask(endlessly, heavy=True)


def endlessly(store: LineageStore) -> None:
    with store.opened.read() as session:
        session.rows(text(_ENDLESS))


@router.get("/quick")
async def quick(ask: Ask) -> int:
    """Ask what is answered at once, when there is room."""
    return await ask(lambda store: len(list(store.base_dirs)), heavy=True)


@contextmanager
def one_at_a_time(url: str, **settings: float) -> Iterator[httpx.Client]:
    with serving(url, routers=[router], heavy_reads=1, **settings) as client:
        yield client


def give_up(ask: Callable[[], object]) -> None:
    with pytest.raises(httpx.ReadTimeout):
        ask()


@pytest.mark.slow
def test_who_waits_too_long_for_room_is_told_when_to_ask_again(database_url: str) -> None:
    with one_at_a_time(database_url) as client, ThreadPoolExecutor(1) as other:
        asked = other.submit(give_up, lambda: client.get("/endless", timeout=20.0))
        statuses = set()
        while 429 not in statuses:
            assert not asked.done(), "nobody was refused"
            answer = client.get("/quick")
            statuses.add(answer.status_code)
        assert answer.headers["retry-after"] == "1"
        assert answer.json()["kind"] == "too_many_reads"


def test_the_statement_of_a_client_that_has_gone_is_ended(database_url: str) -> None:
    with one_at_a_time(database_url) as client:
        give_up(lambda: client.get("/endless", timeout=0.5))
        wait_until(lambda: client.get("/quick").status_code != 429, what="end of the statement")


def test_a_monitor_is_answered_while_all_questions_are_under_way(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.5)
    ended = threading.Event()

    def question(store: LineageStore) -> None:
        with store.opened.read():
            ended.wait(60)

    async def measured() -> bool:
        state = State(replace(Settings(), database_url=database_url, pool_size=2))
        asked = [asyncio.create_task(state.ask(question)) for _ in range(4)]
        await asyncio.sleep(0.2)  # as many have begun as may
        try:
            return await asyncio.to_thread(lambda: state.store().health.measures().is_up)
        finally:
            ended.set()
            await asyncio.gather(*asked)
            await state.close()

    assert asyncio.run(measured())


def test_mindinsights_api_too_ends_the_statement_of_a_client_that_has_gone(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint(lambda site, query: endlessly(site.store), heavy=True, keeps=False)
    monkeypatch.setitem(GETS, "endless", endpoint)
    with one_at_a_time(database_url) as client:
        give_up(lambda: client.get("/v1/mindinsight/endless", timeout=0.5))
        wait_until(lambda: client.get("/quick").status_code != 429, what="end of the statement")


@pytest.mark.parametrize(
    "path",
    ["/api/v1/jobs/{base_dir}/a/annotation", "/v1/mindinsight/lineagemgr/lineages?train_id=./a"],
    ids=["own", "mindinsight"],
)
def test_a_remark_is_kept_of_a_client_that_has_gone(
    database_url: str, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Log().train(network="N").write_lineage(tmp_path / "a").chmod(0o400)
    annotation, gone, at_once = {"tag": 4, "remark": "good"}, threading.Event(), State.annotate

    def when_it_has_gone(state: State, *given: Any) -> None:
        assert gone.wait(60)
        time.sleep(0.5)  # the server notices it
        at_once(state, *given)

    monkeypatch.setattr(State, "annotate", when_it_has_gone)
    with (
        LineageStore(database_url, settings=Settings()) as store,
        serving(database_url, allow_remarks=True) as client,
    ):
        store.ingest(tmp_path)
        (base_dir,) = client.get("/api/v1/base-dirs").json()["base_dirs"]
        place = path.format(base_dir=base_dir["key"])
        give_up(lambda: client.put(place, json=annotation, timeout=1.0))
        gone.set()
        wait_until(lambda: store.lineage.filter({})["object"][0]["added_info"] == annotation, what="remark")


@pytest.mark.slow
def test_a_statement_that_takes_too_long_is_ended_and_told(database_url: str) -> None:
    with one_at_a_time(database_url, statement_timeout_s=0.2) as client:
        answer = client.get("/endless")
        assert (answer.status_code, answer.json()["kind"]) == (503, "database_timeout")
        assert client.get("/quick").status_code == 200


@pytest.mark.slow
def test_the_server_ends_though_a_question_is_under_way(database_url: str) -> None:
    with ThreadPoolExecutor(1) as other:
        with one_at_a_time(database_url) as client:
            asked = other.submit(httpx.get, client.base_url.join("/endless"), timeout=100)
            while client.get("/quick").status_code != 429:
                assert not asked.done(), "the question ended"
        assert asked.result(60).status_code == 500


def test_a_cancelled_question_begins_nothing_more(database_url: str) -> None:
    from lineage_store.api import Cancellation

    cancellation = Cancellation()
    with LineageStore(database_url) as store, cancellation.covers():
        assert list(store.base_dirs) == []
        cancellation.cancel()
        with pytest.raises(DatabaseUnavailableError, match="The client no longer waits"):
            list(store.base_dirs)
    with LineageStore(database_url) as store:
        assert list(store.base_dirs) == []


def test_a_question_that_is_cancelled_behind_its_last_statement_is_told_so(database_url: str) -> None:
    from lineage_store.api import Cancellation

    cancellation = Cancellation()
    with (
        LineageStore(database_url) as store,
        cancellation.covers(),
        pytest.raises(DatabaseUnavailableError, match="The client no longer waits"),
        store.opened.read(),
    ):
        cancellation.cancel()
