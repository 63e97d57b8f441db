"""Metrics: they report the contents of the store, add up over passes, and are served while the database is away."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import Connection, event, update

from helpers import faults
from helpers.log_writer import Log
from helpers.scraped import Scraped, scraped
from lineage_store import LineageStore
from lineage_store.api.metrics import collector
from lineage_store.config import Settings
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest.lease import hold_lease
from lineage_store.operations import monitoring
from lineage_store.operations.health import Measures, measure
from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.schema.tables import ingest_problem

OLDER = 1_600_000_000


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """A job that is whole, and one with bytes that make no frame."""
    base_dir = tmp_path / "base"
    Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25).write_summary(base_dir / "good")
    Log().version().scalar(1, "loss", 0.5).raw(bytes(64)).write_summary(base_dir / "bad")
    return base_dir


@pytest.fixture
def store(database_url: str, base_dir: Path) -> Iterator[LineageStore]:
    with LineageStore(database_url, settings=Settings(cycle_history=1)) as store:
        store.ingest(base_dir)
        yield store


def scrape(store: LineageStore) -> Scraped:
    registry = CollectorRegistry()
    registry.register(collector(store.measures))
    return scraped(generate_latest(registry).decode())


def test_a_store_is_told_in_numbers(store: LineageStore, base_dir: Path) -> None:
    found = scrape(store)
    assert found.value("lineage_store_database_up") == 1
    assert found.value("lineage_store_jobs", base_dir=base_dir, state="live") == 2
    assert found.value("lineage_store_jobs", base_dir=base_dir, state="missing") == 0
    assert found.value("lineage_store_pending_bytes", base_dir=base_dir) == 64
    assert found.value("lineage_store_problems", base_dir=base_dir, kind="suspect_bytes") == 1
    assert found.value("lineage_store_findings", kind="suspect_bytes", severity="some files") == 1
    assert found.value("lineage_store_lag_seconds", base_dir=base_dir) >= 0
    assert found.value("lineage_store_leader", base_dir=base_dir, holder="") == 0
    assert found.value("lineage_store_store_bytes") > 0


def test_findings_are_of_the_same_moment_as_the_numbers(store: LineageStore, database_url: str) -> None:
    other, ended = open_engine(database_url), list[bool]()

    def solve_once(_: Connection) -> None:
        if not ended:
            ended.append(True)
            with writing(other) as session:
                session.change(update(ingest_problem).values(resolved_at=session.now()))

    event.listen(store.engine, "commit", solve_once)
    found = measure(store.engine, [], within_s=60)
    event.remove(store.engine, "commit", solve_once)
    other.dispose()
    assert ended
    assert [kind for _, kind, _ in found.problems] == ["suspect_bytes"]
    assert "suspect_bytes" in {each.kind for each in found.findings}


def test_counters_go_on_when_the_history_of_passes_is_cut(store: LineageStore, base_dir: Path) -> None:
    Log().version().scalar(1, "lr", 0.5).write_summary(base_dir / "good", timestamp=OLDER)
    store.ingest(base_dir)
    assert len(store.cycles()) == 1
    found = scrape(store)
    sizes = sum(path.stat().st_size for path in base_dir.glob("*/*"))
    assert found.value("lineage_store_ingested_bytes_total", base_dir=base_dir) == sizes - 64
    assert found.value("lineage_store_ingested_samples_total", base_dir=base_dir) == 4
    assert found.value("lineage_store_cycle_duration_seconds_count", base_dir=base_dir) == 2
    assert found.value("lineage_store_batch_duration_seconds_count", base_dir=base_dir) == 2
    took_s = found.value("lineage_store_cycle_duration_seconds_sum", base_dir=base_dir)
    assert 0 < found.value("lineage_store_batch_duration_seconds_sum", base_dir=base_dir) < took_s


def test_who_leads_is_told(store: LineageStore, base_dir: Path) -> None:
    base_dir_id = base_dirs.register(store.engine, base_dir)
    with hold_lease(store.engine, base_dir_id, 600.0, mode="once") as lease:
        assert scrape(store).value("lineage_store_leader", base_dir=base_dir, holder=lease.holder) == 1


def test_a_database_that_is_away_is_told(store: LineageStore) -> None:
    with faults.down(store.engine):
        found = scrape(store)
    assert found.value("lineage_store_database_up") == 0
    assert found.value("lineage_store_findings", subject="the store", severity="standstill") == 1
    assert "lineage_store_jobs" not in found.labels()


def test_where_a_sqlite_store_lies_its_disk_is_told(sqlite_url: str) -> None:
    with LineageStore(sqlite_url, settings=Settings()) as store:
        found = scrape(store)
    assert 0 < found.value("lineage_store_disk_free_bytes") <= found.value("lineage_store_disk_bytes")


def test_names_that_are_no_text_can_be_told(sqlite_url: str, tmp_path: Path) -> None:
    base_dir = tmp_path / os.fsdecode(b'b\xe9\n"')
    Log().train(network="N").write_lineage(base_dir / "a")
    with LineageStore(sqlite_url, settings=Settings()) as store:
        store.ingest(base_dir)
        found = scrape(store)
    assert found.value("lineage_store_jobs", base_dir=f'{tmp_path}/b\\xe9\n"', state="finished") == 1


def test_measuring_takes_its_share_however_often_it_is_asked() -> None:
    measured = list[float]()

    def measure() -> Measures:
        measured.append(time.monotonic())
        time.sleep(2.0)
        return Measures(is_up=False)

    asked = collector(measure)
    assert list(asked.collect()) == list(asked.collect())
    assert len(measured) == 1


def test_a_database_that_hangs_keeps_one_scrape_waiting_and_is_told_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(monitoring, "LONGEST_WAIT_S", 0.01)
    asked, answers = threading.Event(), threading.Event()

    def measure() -> Measures:
        asked.set()
        answers.wait()
        return Measures(is_up=True)

    registry = CollectorRegistry()
    registry.register(collector(measure))
    first = threading.Thread(target=generate_latest, args=[registry])
    first.start()
    asked.wait()
    while_it_hangs = scraped(generate_latest(registry).decode())
    answers.set()
    first.join()
    assert while_it_hangs.value("lineage_store_database_up") == 0
    assert scraped(generate_latest(registry).decode()).value("lineage_store_database_up") == 1
