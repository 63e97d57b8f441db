"""Limits of a process on its database: the number of connections, and the time of a statement."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from helpers.engines import opened
from helpers.following_daemon import following_here
from helpers.log_writer import write_small_job
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.api.reports import CleanUp
from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.database import connections
from lineage_store.store.database.db import open_engine, reading, writing
from lineage_store.store.database.sql import Session

NEVER_ENDING = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)"
    " SELECT max(i) FROM n"
)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds no free connection waits 50 ms."""
    monkeypatch.setattr(connections, "WAIT_S", 0.05)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """Of two connections at most."""
    with opened(database_url, pool_size=2) as engine:
        yield engine


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("way", [reading, writing])
def test_when_all_connections_are_in_use_the_error_names_the_setting(
    engine: Engine, way: Callable[[Engine], AbstractContextManager[object]]
) -> None:
    with reading(engine), reading(engine), pytest.raises(DatabaseUnavailableError) as refused, way(engine):
        pass
    assert refused.value.cause == "busy"
    assert refused.value.hint is not None
    assert "more than 2 with the limit pool_size" in refused.value.hint
    with way(engine):
        pass


def test_who_finds_no_connection_gets_the_next_that_comes_back(engine: Engine) -> None:
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(reading(engine))
        threading.Timer(0.2, held.pop_all().close).start()
        with reading(engine) as session:
            assert session.value(text("SELECT 1")) == 1


def run(session: Session, statement: str) -> object:
    return session.value(text(statement))


def test_a_statement_that_takes_too_long_is_ended_and_the_error_names_the_setting(database_url: str) -> None:
    engine = open_engine(database_url, statement_timeout_s=0.2)
    with pytest.raises(DatabaseUnavailableError) as ended, reading(engine) as session:
        run(session, NEVER_ENDING)
    assert ended.value.cause == "timeout"
    assert "statement_timeout_s" in str(ended.value.hint)
    with reading(engine) as session:
        assert run(session, "SELECT 1") == 1
    engine.dispose()


def test_the_time_is_each_statements_own(database_url: str) -> None:
    with opened(database_url, statement_timeout_s=1.0) as engine, reading(engine) as session:
        for _ in range(3):
            time.sleep(0.4)
            assert run(session, NEVER_ENDING.replace("1000000000", "50000")) == 50_000


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, "0"), (900.0, "15min"), (1e9, "2147483647ms")])
def test_the_server_is_told_the_time_of_a_statement(postgres_url: str, seconds: float, shown: str) -> None:
    with opened(postgres_url, statement_timeout_s=seconds) as engine, reading(engine) as session:
        assert run(session, "SHOW statement_timeout") == shown


@pytest.fixture
def heeded() -> Iterator[None]:
    """SIGINT interrupts, also where the shell that started the tests in its background lets them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded")
def test_a_signal_ends_a_statement_of_sqlite_as_a_signal(sqlite_engine: Engine) -> None:

    def interrupted() -> None:
        with reading(sqlite_engine) as session:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            run(session, NEVER_ENDING)

    with pytest.raises(KeyboardInterrupt):
        interrupted()


# --- what uses a store ---


@pytest.fixture
def base_dirs(tmp_path: Path) -> list[Path]:
    """Five base dirs of one job each."""
    paths = [tmp_path / f"base_{number}" for number in range(5)]
    for path in paths:
        write_small_job(path / "a")
    return paths


@pytest.mark.usefixtures("impatient")
def test_nothing_takes_a_second_connection_while_it_holds_one(
    database_url: str, base_dirs: list[Path]
) -> None:

    base_dir = base_dirs[0]
    with LineageStore(database_url, settings=Settings(pool_size=1)) as store:
        store.plan(base_dir)
        store.ingest(base_dir)
        assert store.lineage.filter({"limit": 1})["count"] == 1
        assert store.lineage.filter({"limit": 1}, base_dir=base_dir, count=False)["object"]
        assert len(list(store.lineage.iterate())) == 1
        assert store.job((base_dir, "./a")).lineage()
        assert store.explain()
        store.job((base_dir, "./a")).annotate(label=1)
        assert store.lineage.jobs()
        assert store.job((base_dir, "./a")).scalars("loss").values.tolist() == [0.5]
        assert store.health.status().base_dirs
        assert store.job((base_dir, "./a")).report().series
        assert store.repair.why(base_dir).verdict == "stored"
        assert store.repair.problems() == []
        store.health.findings()
        store.health.cycles()
        store.repair.verify()
        store.repair.retry()
        store.job((base_dir, "./a")).reingest()
        with writing(store.engine) as session:
            session.change(text("UPDATE train_job SET state = 'finished'"))
        rules = CleanUp(older_than_s=0.0)
        list(store.removal.find(rules))
        store.removal.remove(rules)
        assert store.removal.removed()
        store.removal.restore(base_dir, "./a")
        store.base_dirs.forget(base_dir)


@pytest.mark.slow
def test_a_daemon_without_a_free_connection_waits_and_goes_on(
    database_url: str,
    base_dirs: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.1)
    settings = Settings(pool_size=1, poll_interval_s=0.05, discovery_interval_s=0.05)
    with (
        LineageStore(database_url, settings=settings) as store,
        LineageStore(database_url) as other,
        ExitStack() as lifetime,
    ):
        with reading(store.engine):
            lifetime.enter_context(following_here(store, *base_dirs))
            wait_until(lambda: "database busy" in troubles(caplog))
        wait_until(lambda: len(other.lineage.jobs()) == len(base_dirs))
    assert troubles(caplog) <= {"", "database busy"}


def troubles(caplog: pytest.LogCaptureFixture) -> set[str]:
    return {getattr(record, "finding", "") for record in caplog.records}
