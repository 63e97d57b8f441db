"""A leader that is stopped (SIGSTOP): another takes over, and the first one's writes are refused when it continues."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, text

from helpers.contents import natural_contents
from helpers.engines import opened
from helpers.ingesting import column, ingest, let_leases_expire, visible_scalars
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError, LeaseHeldError
from lineage_store.ingest import lease as base_dirs
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.store import leases
from lineage_store.store.database.db import writing
from lineage_store.store.leases import Lease, end_stopped_holder

LOG = Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25)
SETTINGS = Settings(poll_interval_s=0.05, discovery_interval_s=0.05, lease_s=1.0)
INGEST = """
import os, signal, sys
from pathlib import Path
import psycopg
from sqlalchemy import event
from lineage_store.config import Settings
from lineage_store.errors import MindInsightException
from lineage_store.ingest import refresh
from lineage_store.store.database.db import open_engine

url, base_dir, where = sys.argv[1:]
engine = open_engine(url)

once = iter([signal.SIGSTOP])

def stop():
    for number in once:
        os.kill(os.getpid(), number)

def stop_between_transactions():
    if where == "between":
        stop()
    return False

def stop_in_copy(copy, rows, write=psycopg.Copy.write):
    write(copy, rows)
    stop()

def stop_before(_connection, _cursor, statement, *_):
    if statement.startswith(where):
        stop()

event.listen(engine, "before_cursor_execute", stop_before)
if where == "COPY":
    psycopg.Copy.write = stop_in_copy
try:
    refresh.ingest(engine, Path(base_dir), Settings(lease_s=1.0), should_stop=stop_between_transactions)
except MindInsightException as error:
    sys.exit(type(error).__name__)
"""
"""Ingests a base dir and stops by itself: between transactions, before a statement, or at a row of a COPY."""


@pytest.fixture
def base_dir(base_dir: Path) -> Path:
    LOG.write_summary(base_dir / "job")
    return base_dir


@pytest.fixture
def expired(postgres_engine: Engine, base_dir: Path) -> Lease:
    """A lease that has run out and that nobody has taken over."""
    base_dir_id = base_dirs.register(postgres_engine, base_dir)
    with writing(postgres_engine) as session:
        lease = leases.acquire(session, base_dir_id, "host:1:a", 15.0, "daemon")
    let_leases_expire(postgres_engine)
    return lease


@contextmanager
def stopped(url: str, base_dir: Path, where: str) -> Iterator[subprocess.Popen[str]]:
    """An ingester in a process of its own that has stopped there."""
    command = [sys.executable, "-c", INGEST, url, str(base_dir), where]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: process_state(process) == "T")
            yield process
        finally:
            process.kill()


def process_state(process: subprocess.Popen[str]) -> str:
    assert process.poll() is None, "it did not stop there"
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def take_over(engine: Engine, base_dir: Path) -> None:
    """Try as a daemon does that stands by, until the store has everything."""
    follower = Follower(engine, base_dir, SETTINGS)

    def has_everything() -> bool:
        follower.tick()
        return visible_scalars(engine) == {1: 0.5, 2: 0.25}

    try:
        wait_until(has_everything)
    finally:
        follower.close()


def goes_on(process: subprocess.Popen[str]) -> str:
    """Let it go on; the error that it ends with."""
    process.send_signal(signal.SIGCONT)
    assert process.stderr is not None
    return process.stderr.read().strip()


@pytest.mark.slow
def test_one_that_stopped_between_transactions_is_refused(
    engine: Engine, database_url: str, base_dir: Path
) -> None:
    with stopped(database_url, base_dir, "between") as process:
        take_over(engine, base_dir)
        before = natural_contents(engine)
        assert goes_on(process) == "LeaseLostError"
    assert natural_contents(engine) == before
    assert column(engine, "SELECT epoch FROM ingest_lease") == [2]


@pytest.mark.parametrize("where", ["INSERT INTO series", "COPY", "UPDATE train_job"])
@pytest.mark.slow
def test_a_session_that_stopped_inside_a_transaction_is_ended(
    postgres_engine: Engine, postgres_url: str, base_dir: Path, where: str
) -> None:
    engine = postgres_engine
    with stopped(postgres_url, base_dir, where) as process:
        take_over(engine, base_dir)
        before = natural_contents(engine)
        assert goes_on(process) == "DatabaseUnavailableError"
    assert natural_contents(engine) == before
    assert column(engine, "SELECT epoch FROM ingest_lease") == [2]


def test_on_sqlite_one_that_stopped_inside_a_transaction_is_reported_by_pid(
    sqlite_engine: Engine, sqlite_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped(sqlite_url, base_dir, "INSERT INTO series") as process:
        monkeypatch.setattr("lineage_store.store.database.connections.BUSY_TIMEOUT_S", 0.05)
        with opened(sqlite_url) as impatient, pytest.raises(DatabaseUnavailableError) as refused:
            ingest(impatient, base_dir)
        assert f"Process {process.pid} holds its write lock and is stopped" in str(refused.value.hint)
        assert f"kill -CONT {process.pid}" in str(refused.value.hint)
        goes_on(process)
    assert visible_scalars(sqlite_engine) == {1: 0.5, 2: 0.25}


def test_a_session_at_work_is_left_alone_however_long_it_takes(
    postgres_engine: Engine, expired: Lease
) -> None:
    with writing(postgres_engine) as working:
        leases.confirm(working, expired)
        session = working.connection.connection.cursor().connection.pgconn
        session.send_query(b"SELECT pg_sleep(5)")
        with (
            writing(postgres_engine) as other,
            pytest.raises(LeaseHeldError, match="its transaction is still running"),
        ):
            leases.acquire(other, expired.base_dir_id, "host:2:b", 0.0, "daemon")
        while session.get_result():
            pass
        leases.confirm(working, expired)


def test_a_session_that_stopped_while_it_renewed_the_lease_is_ended(
    postgres_engine: Engine, expired: Lease
) -> None:
    def take_over(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE ingest_lease"):
            event.remove(postgres_engine, "before_cursor_execute", take_over)
            with writing(postgres_engine) as other:
                taken.append(leases.acquire(other, expired.base_dir_id, "host:2:b", 0.0, "daemon").epoch)

    taken: list[int] = []
    event.listen(postgres_engine, "before_cursor_execute", take_over)
    with pytest.raises(DatabaseUnavailableError), writing(postgres_engine) as stalled:
        leases.renew(stalled, expired)
    assert taken == [expired.epoch + 1]


def test_a_session_that_stopped_while_it_took_the_lease_is_ended(
    postgres_engine: Engine, expired: Lease
) -> None:
    def take(holder: str, then: Callable[[], object]) -> None:
        with writing(postgres_engine) as session:
            taken[holder] = leases.acquire(session, expired.base_dir_id, holder, 0.0, "daemon").epoch
            then()

    taken: dict[str, int] = {}
    with pytest.raises(DatabaseUnavailableError):
        take("host:2:b", lambda: take("host:3:c", lambda: None))
    assert taken == {"host:2:b": expired.epoch + 1, "host:3:c": expired.epoch + 1}


def test_a_session_that_is_done_with_the_lease_is_left_alone_whatever_it_does_next(
    postgres_engine: Engine, expired: Lease
) -> None:
    with writing(postgres_engine) as session:
        leases.confirm(session, expired)
        name = text("SELECT current_setting('application_name')")
        assert session.value(name) == expired.session_name
    let_leases_expire(postgres_engine)
    with writing(postgres_engine) as same_session:
        assert same_session.value(name) != expired.session_name
        with writing(postgres_engine) as other:
            leases.acquire(other, expired.base_dir_id, "host:2:b", 0.0, "daemon")
        same_session.change(name)


def test_a_role_that_may_not_end_the_session_is_told_what_to_do(
    postgres_engine: Engine, expired: Lease
) -> None:
    with writing(postgres_engine) as stalled:
        leases.confirm(stalled, expired)
        with writing(postgres_engine) as other:
            other.change(text("SET LOCAL ROLE pg_read_all_data"))
            with pytest.raises(LeaseHeldError, match="may not end") as refused:
                end_stopped_holder(other, expired.session_name, 0.0)
    assert "pg_signal_backend" in str(refused.value.hint)
