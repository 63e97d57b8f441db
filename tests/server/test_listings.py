"""A page of payloads, tags and the like reads from the database what it shows, however much there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from helpers.log_writer import Log
from helpers.served import serving
from lineage_store import LineageStore
from lineage_store.server.mindinsight.routes import BEGIN
from lineage_store.server.mindinsight.site import SAMPLES

API = "/api/v1"
MANY = 3000
Fetched = Callable[[Callable[[], object]], int]


@pytest.fixture
def fetched() -> Iterator[Fetched]:
    """A function that returns how many cells the database hands out meanwhile; SQLite counts them as they are made."""
    cells = Counter[str]()

    def counting(connection: Any, *_: object) -> None:
        def row(_cursor: object, values: tuple[Any, ...]) -> tuple[Any, ...]:
            cells["all"] += len(values)
            return values

        connection.row_factory = row

    event.listen(Engine, "connect", counting)

    def count(ask: Callable[[], object]) -> int:
        before = cells["all"]
        ask()
        return cells["all"] - before

    yield count
    event.remove(Engine, "connect", counting)


@pytest.fixture
def url(sqlite_url: str, tmp_path: Path) -> str:
    """A store of a job with many tags, and then many steps of some others, in two log files that overlap."""
    many_tags = Log().scalars(0, {f"s{tag}": 0.0 for tag in range(MANY)})
    many_tags.write_summary(tmp_path / "a", 1_600_000_000)
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path)
    for number, steps in enumerate((range(MANY), range(MANY - 10, MANY + 10))):
        log = Log()
        for step in steps:
            log.histogram(step, "h", [0.0, 1.0]).tensor(step, "t", [1.0])
        log.image(1, "i", np.zeros((1, 1, 3), np.uint8)).write_summary(tmp_path / "a", 1_700_000_000 + number)
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path)
    return sqlite_url


@pytest.fixture
def client(url: str, fetched: Fetched) -> Iterator[httpx.Client]:
    with serving(url) as client:
        client.get(f"{API}/base-dirs")
        yield client


def got(client: httpx.Client, path: str, **asked: Any) -> Any:
    answer = client.get(path, params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def key_of(client: httpx.Client) -> str:
    key: str = got(client, f"{API}/base-dirs")["base_dirs"][0]["key"]
    return key


def test_a_page_of_payloads_reads_its_own_rows(client: httpx.Client, fetched: Fetched) -> None:
    place = f"{API}/payloads/{key_of(client)}/a"
    asked: dict[str, Any] = {"plugin": "histogram", "tag": "h"}
    page = got(client, place, **asked, limit=1)
    assert (page["count"], [each["step"] for each in page["payloads"]]) == (MANY + 10, [0])
    assert fetched(lambda: client.get(place, params={**asked, "limit": 2})) < 500
    latest = got(client, place, **asked, limit=30, start=MANY - 15)
    assert latest["count"] == 25
    assert [each["step"] for each in latest["payloads"]] == list(range(MANY - 15, MANY + 10))
    newer = {each["step"] for each in latest["payloads"] if "1700000001" in each["log_file"]}
    assert newer == set(range(MANY - 10, MANY + 10))
    assert got(client, place, **asked, limit=1, stop=10)["count"] == 10
    assert got(client, place, **asked, limit=10, stop=10)["count"] == 10


@pytest.mark.parametrize("plugin", ["histogram", "tensor"])
def test_mindinsights_sample_reads_the_steps_and_what_it_keeps(
    client: httpx.Client, fetched: Fetched, plugin: str
) -> None:
    asked = {"train_id": "./a", "tag": f"{plugin[0]}/{plugin}"}
    kept = SAMPLES[plugin]
    found = got(client, f"{BEGIN}datavisual/{plugin}s", **asked)
    shown = found["histograms"] if plugin == "histogram" else found["tensors"][0]["values"]
    assert len(shown) == kept
    narrow = 2 * (MANY + 20)
    assert fetched(lambda: client.get(f"{BEGIN}datavisual/{plugin}s", params={**asked, "_": 1})) < (
        narrow + 30 * kept + 10 * 300 + 500
    )


def test_of_a_job_only_what_is_shown_is_read(client: httpx.Client, fetched: Fetched) -> None:
    job = f"{API}/jobs/{key_of(client)}/a"
    assert got(client, job)["job"]["state"]
    assert len(got(client, f"{job}/files")["files"]) == 3
    assert len(got(client, f"{job}/tags", series=False)["tags"]["scalar"]) == MANY
    with httpx.Client(base_url=client.base_url) as other:
        assert fetched(lambda: other.get(f"{job}?")) < 500
        assert fetched(lambda: other.get(f"{job}/files?")) < 500


def test_mindinsights_list_of_jobs_reads_the_tags_that_it_shows(
    client: httpx.Client, fetched: Fetched
) -> None:
    page = f"{BEGIN}datavisual/train-jobs"
    (job,) = got(client, page)["train_jobs"]
    assert len(job["plugins"]["scalar"]) == 297
    assert job["plugins"]["histogram"] == ["h/histogram"]
    assert fetched(lambda: client.get(page, params={"offset": 0})) < 3 * 400 + 500
