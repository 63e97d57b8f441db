"""A server on a primary with a hot standby: the standby answers, and the writer of a remark sees the remark."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers.event_stream import event_stream
from helpers.scraped import scraped
from helpers.served import serving
from helpers.standby import end_what_reads, held_up, impatient, on_standby, paused, wait_until_caught_up
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings

API, JOB = "/api/v1", "run_039"


@pytest.fixture
def writer(postgres_url: str, corpus: Path) -> Iterator[LineageStore]:
    with LineageStore(postgres_url, settings=Settings()) as store:
        store.ingest(corpus)
        yield store


@pytest.fixture
def standby_url(standby_server: str, writer: LineageStore, postgres_url: str) -> str:
    return on_standby(standby_server, postgres_url)


@pytest.fixture
def client(postgres_url: str, standby_url: str) -> Iterator[httpx.Client]:
    with serving(postgres_url, read_database_url=standby_url, allow_remarks=True) as client:
        yield client


def label(client: httpx.Client, etag: str = "") -> tuple[Any, str]:
    """The job's label, None where nothing is new, and what to ask with next time."""
    where = {"where": f"summary_dir=./{JOB}", "fields": "epoch"}
    answer = client.get(f"{API}/jobs", params=where, headers={"If-None-Match": etag})
    found = answer.json()["jobs"][0]["label"] if answer.status_code == 200 else answer.status_code
    return found, answer.headers["etag"]


@pytest.mark.slow
def test_who_puts_a_label_sees_it_and_others_are_told_when_the_standby_has_it(
    client: httpx.Client, writer: LineageStore, corpus: Path, postgres_url: str, standby_url: str
) -> None:
    (base_dir,) = client.get(f"{API}/base-dirs").json()["base_dirs"]
    unlabelled, etag = label(client)
    with event_stream(client) as events:
        assert next(events).kind == "begin"
        with paused(standby_url):
            writer.job((corpus, f"./{JOB}")).annotate(label=1)
            assert label(client, etag) == (304, etag)
            annotation = f"{API}/jobs/{base_dir['key']}/{JOB}/annotation"
            assert client.put(annotation, json={"tag": 2}).status_code == 204
            assert label(client, etag)[0] == 2
        wait_until_caught_up(postgres_url, standby_url)
        assert label(client, etag)[0] == 2
        writer.job((corpus, "./run_015")).annotate(label=3)
        told = []
        while ("changed", "./run_015") not in told:
            told += next(events).jobs
    assert set(told) == {("changed", f"./{JOB}"), ("changed", "./run_015")}
    assert unlabelled != 2


def test_a_request_that_the_standby_ended_is_answered(
    client: httpx.Client, postgres_url: str, standby_url: str
) -> None:
    assert client.get(f"{API}/jobs").status_code == 200
    with ThreadPoolExecutor() as threads, impatient(standby_url):
        with held_up(postgres_url, standby_url, "train_job"):
            asked = threads.submit(client.get, f"{API}/jobs", params={"limit": 1})
            end_what_reads(postgres_url, standby_url, "base_dir")
        assert len(asked.result().json()["jobs"]) == 1


def test_the_standbys_lag_is_told(
    client: httpx.Client, writer: LineageStore, corpus: Path, standby_url: str
) -> None:
    def told() -> dict[str, Any]:
        standby: dict[str, Any] = client.get(f"{API}/health").json()["standby"]
        return standby

    wait_until(lambda: told()["lag_bytes"] == 0)
    assert (told()["is_up"], set(told())) == (True, {"is_up", "lag_s", "lag_bytes", "shows"})
    with paused(standby_url):
        writer.job((corpus, f"./{JOB}")).annotate(label=1)
        assert told()["lag_bytes"] > 0
        found = scraped(client.get("/metrics").text)
    assert found.value("lineage_store_standby_up") == 1
    assert found.value("lineage_store_standby_lag_bytes") > 0
    assert found.value("lineage_store_standby_lag_seconds") > 0
