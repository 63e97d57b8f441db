"""A follower whose database fails: what it reports, and that it goes on when the cause has ended."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from helpers.databases import needs_databases
from helpers.engines import opened
from helpers.ingesting import column, ingest, let_leases_expire, tick_until, visible_scalars
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.errors import LeaseHeldError
from lineage_store.ingest import commit
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest.daemon.follower import Backoff, Follower
from lineage_store.ingest.lease import hold_lease
from lineage_store.ingest.problems import unreadable_file
from lineage_store.ingest.read.batch import Batch
from lineage_store.store import leases
from lineage_store.store.catalog import registry
from lineage_store.store.database.db import open_engine, reading, writing

EAGER: dict[str, Any] = {"poll_interval_s": 0.05, "discovery_interval_s": 0.05, "lease_s": 1.0}


class Followed:
    """A follower of a base dir with a log that grows."""

    def __init__(self, url: str, base_dir: Path) -> None:
        self.log = Log().scalar(0, "loss", 0.5)
        self.path = self.log.write_summary(base_dir / "job")
        self.engine = open_engine(url)
        self.follower = Follower(self.engine, base_dir, Settings(**EAGER))
        self.expected = {0: 0.5}
        self.catches_up()

    def grows(self) -> None:
        step = len(self.expected)
        self.log.scalar(step, "loss", 0.5).write(self.path)
        self.expected[step] = 0.5

    def until(self, condition: Callable[[], object]) -> None:
        tick_until(condition, self.follower)

    def is_in(self, state: str) -> None:
        self.until(lambda: self.follower.status.title == state)

    def catches_up(self) -> None:
        self.until(
            lambda: self.follower.status.title == "active" and visible_scalars(self.engine) == self.expected
        )


@contextmanager
def followed(url: str, base_dir: Path) -> Iterator[Followed]:
    this = Followed(url, base_dir)
    try:
        yield this
    finally:
        this.follower.close()
        this.engine.dispose()


def test_a_locked_store_is_waited_for(
    sqlite_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("lineage_store.store.database.connections.BUSY_TIMEOUT_S", 0.05)
    with opened(sqlite_url) as other, followed(sqlite_url, base_dir) as this:
        with writing(other):
            this.grows()
            this.is_in("database locked")
        this.catches_up()
    (failed,) = (line for line in caplog.records if line.message == "pass failed")
    assert f"Process {os.getpid()} holds its write lock" in failed.__dict__["reason"]
    assert "recovered" in caplog.messages


@contextmanager
def every_connection(engine: Engine, *pragmas: str) -> Iterator[None]:
    """Let all connections of an engine be opened with these pragmas."""

    def set_up(connection: Any, _: Any) -> None:
        for pragma in pragmas:
            connection.execute(pragma)

    event.listen(engine, "connect", set_up)
    engine.dispose()
    try:
        yield
    finally:
        event.remove(engine, "connect", set_up)


def test_a_full_disk_is_waited_for(sqlite_url: str, base_dir: Path) -> None:
    with followed(sqlite_url, base_dir) as this:
        (pages,) = column(this.engine, "PRAGMA page_count")
        with every_connection(this.engine, f"PRAGMA max_page_count = {pages}"):
            for step in range(1, 5000):
                this.log.scalar(step, "loss", 0.5)
                this.expected[step] = 0.5
            this.log.write(this.path)
            this.is_in("database full")
        this.catches_up()


def test_a_store_that_is_read_only_for_a_while_is_waited_for(sqlite_url: str, base_dir: Path) -> None:
    with followed(sqlite_url, base_dir) as this:
        with every_connection(this.engine, "PRAGMA query_only = ON"):
            this.grows()
            this.is_in("database read-only")
        this.catches_up()


def test_a_store_that_was_write_protected_when_it_was_opened_is_written_when_it_is_not(
    sqlite_url: str, base_dir: Path
) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    file.chmod(0o400)
    engine = open_engine(sqlite_url)
    follower = Follower(engine, base_dir, Settings(**EAGER))
    follower.tick()
    assert follower.status.title == "database read-only"
    file.chmod(0o600)
    tick_until(lambda: visible_scalars(engine) == {1: 0.5}, follower)
    follower.close()
    engine.dispose()


def test_a_server_that_is_away_is_waited_for(
    postgres_server: str, empty_postgres_url: str, base_dir: Path
) -> None:
    from lineage_store.store.schema.upgrade import upgrade

    needs_databases(postgres_server)
    upgrade(empty_postgres_url)
    administrator = create_engine(postgres_server, isolation_level="AUTOCOMMIT")
    with followed(empty_postgres_url, base_dir) as this:
        name = this.engine.url.database
        with administrator.connect() as connection:
            connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
            ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = :name"
            connection.execute(text(ended), {"name": name})
            this.grows()
            this.is_in("database down")
            connection.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))
        this.catches_up()
    administrator.dispose()


def test_a_trouble_that_lasts_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    backoff = Backoff("/runs")
    for _ in range(5):
        backoff.fail(OSError("away"), expected=True)
    assert caplog.messages == ["pass failed"]
    backoff.fail(OSError("something else"), expected=True)
    assert caplog.messages == ["pass failed"] * 2


@pytest.mark.parametrize("reading", [True, False])
def test_a_tick_keeps_the_lead_while_it_makes_progress_or_the_readers_deadline_runs(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch, reading: bool
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    follower = Follower(engine, base_dir, Settings(**{**EAGER, "lease_s": 30.0}))
    led: list[bool] = []

    def is_renewed() -> bool:
        let_leases_expire(engine)
        follower.renew()
        return column(engine, "SELECT leader FROM v_base_dir") != [None]

    def take_long(*_: object) -> None:
        led.append(is_renewed())  # the directory was searched before
        monkeypatch.setattr(follower._reader, "is_awaited", reading)
        led.append(is_renewed())

    monkeypatch.setattr(commit, "refresh_quiet_jobs", take_long)
    follower.tick()
    led.append(is_renewed())
    follower.close()
    assert led == [True, reading, False]


def test_the_lead_is_kept_while_every_connection_of_the_process_is_in_use(
    engine: Engine, database_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    follower = Follower(engine, base_dir, Settings(**{**EAGER, "lease_s": 30.0}))
    watching = open_engine(database_url)
    led: list[bool] = []

    def take_long(*_: object) -> None:
        let_leases_expire(watching)
        with ExitStack() as held:
            with suppress(PoolTimeoutError):
                while True:
                    held.enter_context(engine.connect())
            follower.renew()
        led.append(column(watching, "SELECT leader FROM v_base_dir") != [None])

    monkeypatch.setattr(engine.pool, "_timeout", 0.1)
    monkeypatch.setattr(commit, "refresh_quiet_jobs", take_long)
    follower.tick()
    follower.close()
    watching.dispose()
    assert led == [True]


def test_renewing_does_not_wait_for_the_holders_own_transaction(postgres_url: str, base_dir: Path) -> None:
    with followed(postgres_url, base_dir) as this:
        lease = this.follower._lease
        assert lease is not None
        with writing(this.engine) as session:
            leases.confirm(session, lease)
            at_work = pytest.raises(LeaseHeldError, match="its transaction is still running")
            with at_work, writing(this.engine) as renewing:
                leases.renew(renewing, lease)
        with writing(this.engine) as session:
            leases.renew(session, lease)


def test_several_files_that_cannot_be_read_at_once_cost_themselves(engine: Engine, base_dir: Path) -> None:
    for name in ("a", "b", "c"):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / name)
    ingest(engine, base_dir)
    base_dir_id = base_dirs.register(engine, base_dir)
    with reading(engine) as session:
        one, other, _ = registry.known_files(session, base_dir_id)
    with hold_lease(engine, base_dir_id, 15.0, mode="once") as lease:
        gone = [unreadable_file(base_dir, file.train_id, file.name, OSError()) for file in (one, other)]
        batch = Batch(failures=list(zip((one, other), gone, strict=True)))
        commit.write_batch(engine, lease, batch, Settings())
    found = column(engine, "SELECT last_problem FROM log_file ORDER BY job_id")
    assert found == [gone[0].what, gone[1].what, None]
