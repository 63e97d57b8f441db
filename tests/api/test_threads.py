"""One store used by a hundred threads: right answers, no error, and no more connections than the setting allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.store.database import connections

THREADS, JOBS, POOL_SIZE = 100, 20, 5


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    for number in range(JOBS):
        job = tmp_path / "base" / f"{number:02}"
        Log().train(network="A" if number % 2 else "B", epoch=number).write_lineage(job)
        Log().scalar(1, "loss", float(number)).scalar(2, "loss", number / 2).write_summary(job)
    return tmp_path / "base"


@pytest.fixture
def store(database_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LineageStore]:
    monkeypatch.setattr(
        connections, "WAIT_S", 600.0
    )  # a hundred want five connections, on however busy a machine
    with LineageStore(database_url, settings=Settings(pool_size=POOL_SIZE)) as store:
        store.ingest(base_dir)
        yield store


@pytest.mark.slow
def test_a_hundred_threads_share_a_store(store: LineageStore, base_dir: Path) -> None:
    opened: list[object] = []
    errors: list[BaseException] = []
    event.listen(store.engine, "connect", lambda connection, _: opened.append(connection))

    def work(number: int) -> None:
        try:
            ask(number)
        except BaseException as error:  # noqa: BLE001 - of a thread, which nobody would hear of
            errors.append(error)

    def ask(number: int) -> None:
        job = number % JOBS
        asking: list[Callable[[], None]] = [
            lambda: check_conditions(store),
            lambda: check_pages(store, base_dir),
            lambda: check_scalars(store, base_dir, job),
            lambda: store.job((base_dir, f"./{job:02}")).annotate(remark=f"{job}"),
        ]
        for each in range(len(asking)):
            asking[(number + each) % len(asking)]()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(opened) <= POOL_SIZE
    remarks = [found["added_info"]["remark"] for found in store.lineage.filter()["object"]]
    assert sorted(map(int, remarks)) == list(range(JOBS))


def check_conditions(store: LineageStore) -> None:
    answer = store.lineage.filter({"network": {"eq": "A"}, "epoch": {"ge": 10}, "limit": 3})
    assert (answer["count"], len(answer["object"])) == (5, 3)
    uncounted = store.lineage.filter({"epoch": {"lt": 4}, "limit": 10}, count=False)
    assert len(uncounted["object"]) == 4


def check_pages(store: LineageStore, base_dir: Path) -> None:
    pages = [store.lineage.jobs(base_dir, limit=7, page=number) for number in range(3)]
    assert len({job.train_id for page in pages for job in page}) == JOBS
    assert len(list(store.lineage.iterate({"network": {"eq": "B"}}))) == JOBS // 2


def check_scalars(store: LineageStore, base_dir: Path, job: int) -> None:
    assert store.job((base_dir, f"./{job:02}")).scalars("loss").values.tolist() == [job, job / 2]


def test_what_is_asked_of_a_closed_store_leaves_no_connection_open(store: LineageStore) -> None:
    opened: list[object] = []
    closed: list[object] = []
    store.close()
    event.listen(store.engine, "connect", lambda connection, _: opened.append(connection))
    event.listen(store.engine, "close", lambda connection, _: closed.append(connection))
    for _ in range(2):
        assert len(list(store.base_dirs)) == 1
    assert opened == closed != []
