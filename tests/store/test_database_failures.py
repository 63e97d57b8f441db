"""The error when the database refuses: who is in the way, and what to do."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError

from helpers.databases import end_all_sessions
from helpers.engines import opened
from lineage_store import LineageStore
from lineage_store.errors import ConfigError, DatabaseUnavailableError, LineageParamTypeError
from lineage_store.program import command_of
from lineage_store.store.database import db
from lineage_store.store.database.connections import reconnect
from lineage_store.store.database.db import open_engine, reading, writing
from lineage_store.store.database.failures import cause_of, writer_of

_LOCKING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(sqlite_url: str) -> Path:
    """A SQLite store in WAL mode, as every use leaves it."""
    with opened(sqlite_url) as engine, writing(engine):
        pass
    return Path(sqlite_url.removeprefix("sqlite:///"))


@contextmanager
def another_process_that_writes(path: Path) -> Iterator[int]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _LOCKING, str(path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()


BIG = 1_000_000


def write(engine: Engine, *statements: str) -> None:
    with writing(engine) as session:
        for statement in statements:
            session.change(text(statement))


@pytest.mark.parametrize("linked", [False, True])
def test_whoever_holds_the_write_lock_is_found(linked: bool, path: Path, tmp_path: Path) -> None:
    if linked:
        path = tmp_path / "link.sqlite3"
        path.symlink_to(tmp_path / "store.sqlite3")
    assert writer_of(path) is None
    with another_process_that_writes(path) as pid:
        assert writer_of(path) == pid
        assert str(path) in command_of(pid)
    assert writer_of(path) is None


def test_a_reader_holds_no_write_lock(path: Path, sqlite_engine: Engine) -> None:
    with db.reading(sqlite_engine) as session:
        session.rows(text("SELECT * FROM train_job"))
        assert writer_of(path) is None


def test_a_locked_store_names_the_process(
    path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_store.store.database.connections.BUSY_TIMEOUT_S", 0.05)
    engine = open_engine(sqlite_url)
    with (
        another_process_that_writes(path) as pid,
        pytest.raises(DatabaseUnavailableError) as refused,
        writing(engine),
    ):
        raise AssertionError("It was locked.")
    engine.dispose()
    assert "locked" in refused.value.message
    assert refused.value.cause == "locked"
    assert f"Process {pid} holds its write lock" in str(refused.value.hint)


def test_a_lock_that_nobody_lets_go_tells_where_to_look(postgres_url: str) -> None:
    holder, waiting = open_engine(postgres_url), open_engine(postgres_url)
    with writing(holder) as session:
        session.change(text("LOCK TABLE train_job"))
        with pytest.raises(DatabaseUnavailableError) as refused:
            write(waiting, "SET LOCAL lock_timeout = '50ms'", "LOCK TABLE train_job")
    holder.dispose()
    waiting.dispose()
    assert "lock timeout" in refused.value.message
    assert refused.value.cause == "locked"
    assert "pg_blocking_pids" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("before", "hint"),
    [
        ("SET LOCAL ROLE pg_read_all_data", "--ingest ROLE"),
        ("SET TRANSACTION READ ONLY", "only reads"),
    ],
)
def test_who_may_only_read_is_told_who_may_write(postgres_engine: Engine, before: str, hint: str) -> None:
    with pytest.raises(DatabaseUnavailableError) as refused:
        write(postgres_engine, before, "DELETE FROM train_job")
    assert hint in str(refused.value.hint)


def test_who_stood_still_in_a_transaction_is_told_and_may_try_again(postgres_engine: Engine) -> None:
    def stand_still() -> None:
        with reading(postgres_engine) as session:
            session.change(text("SET LOCAL idle_in_transaction_session_timeout = '20ms'"))
            time.sleep(0.5)
            session.change(text("SELECT 1"))

    with pytest.raises(DatabaseUnavailableError) as refused:
        stand_still()
    with reading(postgres_engine) as session:
        assert session.value(text("SELECT 1")) == 1
    assert "idle-in-transaction timeout" in refused.value.message
    assert "try again" in str(refused.value.hint)


def test_a_server_that_is_not_there_is_down() -> None:
    with (
        opened("postgresql://me@127.0.0.1:1/db") as engine,
        pytest.raises(DatabaseUnavailableError) as refused,
    ):
        write(engine)
    assert refused.value.cause == "down"


def test_a_full_disk_is_told_and_the_next_write_after_it_succeeds(sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:  # what a full disk does
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DatabaseUnavailableError) as refused:
        write(sqlite_engine, f"CREATE TABLE large AS SELECT randomblob({BIG}) AS bytes")
    assert refused.value.cause == "full"
    assert "Free some space" in str(refused.value.hint)
    with sqlite_engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {BIG}")
    write(sqlite_engine, "UPDATE base_dir SET path = path")


@pytest.mark.parametrize(
    ("words", "free_bytes", "cause"),
    [
        ("disk I/O error", 0, "full"),
        ("disk I/O error", BIG * 100, "failed"),
        ("no such table: x", 0, "failed"),
    ],
)
def test_an_error_that_tells_nothing_is_held_against_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch, words: str, free_bytes: int, cause: str
) -> None:
    disk = os.statvfs(path)
    shown = os.statvfs_result((1, 1, *tuple(disk)[2:4], free_bytes, *tuple(disk)[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: shown)
    found, remedy = cause_of(sqlite3.OperationalError(words), words, path)
    assert found == cause
    assert ("Free some space" in remedy) == (cause == "full")


def test_a_store_that_becomes_read_only_is_told(path: Path, sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(DatabaseUnavailableError) as refused:
        write(sqlite_engine, "UPDATE base_dir SET path = path")
    assert refused.value.cause == "read-only"


def test_a_connection_in_use_while_its_pool_is_given_up_is_closed_when_it_comes_back(
    database_url: str,
) -> None:
    engine = open_engine(database_url)
    closed: list[object] = []
    event.listen(engine, "close", lambda connection, _: closed.append(connection))
    with reading(engine) as session:
        in_use: Any = session.connection.connection.dbapi_connection
        engine.dispose()
        assert session.value(text("SELECT 1")) == 1
    assert closed == [in_use]
    with reading(engine) as session:
        kept: Any = session.connection.connection.dbapi_connection
    assert closed == [in_use]
    engine.dispose()
    assert closed == [in_use, kept]


def test_a_pool_given_up_while_a_connection_is_made_anew_for_it_loses_none(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_store.store.database.connections._RESTED_AFTER_S", 0.0)
    engine = open_engine(postgres_url)
    with reading(engine):
        pass
    end_all_sessions(postgres_url)
    # As another thread may at the very moment:
    event.listen(engine, "close", lambda *_: engine.dispose(), once=True)
    with reading(engine) as session:
        made_anew: Any = session.connection.connection.dbapi_connection
    assert made_anew.closed
    engine.dispose()


def test_renewed_connections_are_made_anew_for_their_next_use(engine: Engine) -> None:
    closed: list[object] = []
    event.listen(engine, "close", lambda connection, _: closed.append(connection))
    with reading(engine) as session:
        rested: Any = session.connection.connection.dbapi_connection
    with reading(engine) as session:
        in_use: Any = session.connection.connection.dbapi_connection
        assert in_use is rested
        with reading(engine) as another:
            made_late: Any = another.connection.connection.dbapi_connection
            reconnect(engine)
        assert session.value(text("SELECT 1")) == 1
    assert closed == []
    with reading(engine) as session, reading(engine) as another:
        renewed = {id(each.connection.connection.dbapi_connection) for each in (session, another)}
    assert renewed.isdisjoint({id(in_use), id(made_late)})
    assert {id(each) for each in closed} == {id(in_use), id(made_late)}
    with reading(engine) as session:
        assert id(session.connection.connection.dbapi_connection) in renewed


def test_renewing_closes_at_once_what_waits(database_url: str) -> None:
    """A disk can be mounted read-only, or taken away, while its daemon waits for room."""
    engine = open_engine(database_url)
    closed: list[object] = []
    event.listen(engine, "close", lambda connection, _: closed.append(connection))
    with reading(engine) as session:
        waits: Any = session.connection.connection.dbapi_connection
    reconnect(engine)
    assert closed == [waits]


def test_a_connection_renewed_while_it_is_made_is_used_all_the_same(engine: Engine) -> None:
    event.listen(engine, "connect", lambda *_: reconnect(engine))
    for _ in range(3):
        with reading(engine) as session:
            assert session.value(text("SELECT 1")) == 1


def test_a_connection_whose_commit_failed_is_dropped(engine: Engine) -> None:
    driver, do_commit = engine.dialect.loaded_dbapi, engine.dialect.do_commit
    connections: list[object] = []

    def fail(connection: Any) -> None:
        connections.append(connection.dbapi_connection)
        raise driver.OperationalError("nobody knows whether it was committed")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine.dialect, "do_commit", fail)
        with pytest.raises(DatabaseUnavailableError):
            write(engine, "UPDATE base_dir SET path = path")
    assert engine.dialect.do_commit == do_commit
    with writing(engine) as session:
        assert session.connection.connection.dbapi_connection not in connections


def test_a_process_that_is_gone_has_no_command() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert command_of(ended.pid) == ""


def test_a_url_that_is_none_is_refused_without_its_password() -> None:
    with pytest.raises(
        ConfigError, match=r"postgresql//me:\*\*\*@host/name' is not a database URL"
    ) as caught:
        open_engine("postgresql//me:canary@host/name")
    assert "canary" not in str(caught.value)


def test_connections_that_a_server_dropped_while_they_rested_are_replaced(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_store.store.database.connections._RESTED_AFTER_S", 0.0)
    engine = open_engine(postgres_url)
    with ExitStack() as several:
        for _ in range(4):
            several.enter_context(reading(engine))
    end_all_sessions(postgres_url)
    with reading(engine) as session:
        assert session.value(text("SELECT 1")) == 1
    engine.dispose()


@pytest.mark.parametrize("name", ["it's", "x?no_such_option=1"])
def test_a_url_that_the_driver_cannot_read_is_said_to_be_one(name: str) -> None:
    with (
        pytest.raises(DatabaseUnavailableError, match="failed: "),
        reading(open_engine(f"postgresql://h/{name}")),
    ):
        pass


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://host/\udcfe",
        "postgresql://host:port/name",
        "postgresql://[::1/name",
        "sqlite://:memory:",
        "sqlite:store.db",
        "sqlite:///store\0.db",
        "/var/lib/store.db",
    ],
)
def test_text_that_is_no_url_is_refused_with_the_right_spellings(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a database URL") as caught:
        open_engine(url)
    assert "sqlite:////absolute/path/to/file or postgresql://user@host:5432/name" in str(caught.value)


@pytest.mark.parametrize("url", [7, Path("store.db"), b"sqlite://"])
def test_what_is_no_text_is_refused_as_a_url(url: Any) -> None:
    with pytest.raises(LineageParamTypeError, match="url must be a text, not") as caught:
        LineageStore(url)
    assert "sqlite:////" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "right"),
    [
        ("sqlite://store.db", "sqlite:///store.db "),
        ("sqlite://data/store.db", "sqlite:///data/store.db "),
        ("sqlite+pysqlite://me@/store.db", "sqlite:///me@/store.db "),
        ("sqlite:///store.db?timeout=soon", "sqlite:///store.db "),
        ("sqlite:////var/lib/store.db?cache=shared", "sqlite:////var/lib/store.db "),
        ("sqlite://:5432/store.db", "sqlite:///:5432/store.db "),
    ],
)
def test_a_sqlite_url_with_more_than_a_file_is_refused_with_the_right_spelling(url: str, right: str) -> None:
    with pytest.raises(ConfigError, match="SQLite") as caught:
        open_engine(url)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f"Write {right}")


@pytest.mark.parametrize("url", ["mysql://host/name", "postgresql+psycopg2://host/name", "file:///store.db"])
def test_another_kind_of_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"is not supported\. Use sqlite or postgresql"):
        open_engine(url)


def test_a_missing_driver_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=r"lineage-store\[postgresql\]"):
        open_engine("postgresql://host/name")


def test_a_stream_on_a_connection_that_is_lost_leaves_no_cursor_open(postgres_url: str) -> None:
    with opened(postgres_url) as engine, engine.connect() as connection:
        connection.exec_driver_sql("SELECT 1")
        end_all_sessions(postgres_url)
        with pytest.raises(DBAPIError):
            connection.execute(text("SELECT 1"), execution_options={"yield_per": 10})
    gc.collect()  # a cursor left open would warn, which fails the test
