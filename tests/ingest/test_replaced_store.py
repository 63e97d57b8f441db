"""A store that is removed, or replaced by an older copy, while it is in use."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from helpers.databases import needs_databases
from helpers.ingesting import column, ledger_is_closed, tick_until, visible_scalars
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.errors import DatabaseUnavailableError
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.scan import directory_cache
from lineage_store.ingest.scan.directory_cache import DirectoryCache
from lineage_store.operations.backup import backup
from lineage_store.store.database import connections
from lineage_store.store.database.db import open_engine, reading, sqlite_path

SETTINGS = Settings(poll_interval_s=0.05, discovery_interval_s=0.05, lease_s=1.0)


@contextmanager
def following(engine: Engine, base_dir: Path) -> Iterator[Callable[[Callable[[], object]], None]]:
    """A daemon's follower that ticks until something is so."""
    this = Follower(engine, base_dir, SETTINGS)

    yield lambda condition: tick_until(condition, this)
    this.close()


def back_up(url: str) -> None:
    """Copy a store beside itself, as its database recommends."""
    path = sqlite_path(url)
    if path is not None:
        with closing(sqlite3.connect(path)) as store, closing(sqlite3.connect(f"{path}.backup")) as backup:
            store.backup(backup)
        return
    needs_databases(url)
    _execute(url, "DROP DATABASE IF EXISTS {backup}", "CREATE DATABASE {backup} TEMPLATE {store}")


def restore(url: str) -> None:
    """Put the copy in the place of the store."""
    path = sqlite_path(url)
    if path is not None:
        for name in ("-wal", "-shm"):
            Path(f"{path}{name}").unlink(missing_ok=True)
        os.replace(f"{path}.backup", path)
        return
    _execute(url, "DROP DATABASE {store} WITH (FORCE)", "ALTER DATABASE {backup} RENAME TO {store}")


def _execute(url: str, *statements: str) -> None:
    store = make_url(url).database or ""
    names = {"store": Identifier(store), "backup": Identifier(f"{store}_backup")}
    server = make_url(url).set(drivername="postgresql", database="postgres")
    with psycopg.connect(server.render_as_string(hide_password=False), autocommit=True) as connection:
        for statement in statements:
            connection.execute(SQL(statement).format(**names))


@pytest.mark.parametrize("rested_after_s", [1.0, 0.0], ids=["in use", "at rest"])
def test_a_backup_that_is_put_back_is_brought_up_to_date(
    engine: Engine,
    database_url: str,
    base_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rested_after_s: float,
) -> None:
    """As is a standby that lacks the last commits, when it takes over from its primary."""
    monkeypatch.setattr(
        connections, "_RESTED_AFTER_S", rested_after_s
    )  # then whether it broke is asked before it is used
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job", 100).chmod(0o400)
    with following(engine, base_dir) as until:
        until(lambda: visible_scalars(engine) == {1: 0.5})
        engine.dispose()
        back_up(database_url)
        Log().scalar(2, "loss", 0.25).write_summary(base_dir / "job", 200).chmod(0o400)
        until(lambda: visible_scalars(engine) == {1: 0.5, 2: 0.25})
        until(iter((False, True)).__next__)  # it has seen what it wrote last
        restore(database_url)
        caplog.clear()
        caplog.set_level(logging.INFO)
        until(lambda: len(_stored(database_url)) == 2)
        assert _stored(database_url) == [0.5, 0.25]
        assert ledger_is_closed(engine)
    told = {record.message: record.__dict__ for record in caplog.records}
    assert told["store went back in time"]["changed_at"] <= told["store went back in time"]["was"]
    assert told["catching up"]["new_files"] == 1


def test_a_standby_that_lacks_the_last_commits_and_takes_over_at_rest_is_brought_up_to_date(
    postgres_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No error tells of it: connections that wait are seen to be broken, and are made anew."""
    monkeypatch.setattr(connections, "_RESTED_AFTER_S", 0.0)
    monkeypatch.setattr(directory_cache, "DirectoryCache", partial(DirectoryCache, settled_after_ns=-1))
    engine = open_engine(postgres_url)
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "one", 100).chmod(0o400)
    with following(engine, base_dir) as until:
        until(lambda: visible_scalars(engine) == {1: 0.5})
        engine.dispose()
        back_up(postgres_url)
        Log().scalar(2, "loss", 0.25).write_summary(base_dir / "two", 200).chmod(0o400)
        until(lambda: len(_stored(postgres_url)) == 2)
        looks = iter(range(10))
        until(lambda: next(looks, None) is None)  # by now nothing changes any more
        restore(postgres_url)
        until(lambda: _stored(postgres_url) == [0.5, 0.25])
    engine.dispose()


def _stored(url: str) -> list[float]:
    """What somebody else finds who opens the store now."""
    engine = open_engine(url)
    try:
        return column(engine, "SELECT value FROM scalar_sample ORDER BY step")
    except DatabaseUnavailableError:
        return []
    finally:
        engine.dispose()


def test_a_store_that_is_removed_is_missed_and_no_empty_one_is_made(sqlite_engine: Engine) -> None:
    path = sqlite_path(str(sqlite_engine.url))
    assert path is not None
    with reading(sqlite_engine):
        pass
    path.unlink()
    for _ in range(2):
        with (
            pytest.raises(DatabaseUnavailableError, match="was removed while it was in use") as caught,
            reading(sqlite_engine),
        ):
            pass
        assert caught.value.cause == "gone"
    assert not path.exists()


def test_the_log_of_the_old_store_is_not_taken_for_the_new_ones(
    sqlite_url: str, sqlite_engine: Engine
) -> None:
    path = sqlite_path(sqlite_url)
    assert path is not None
    back_up(sqlite_url)
    with sqlite_engine.begin() as connection:
        connection.exec_driver_sql("PRAGMA application_id = 7")
    os.replace(f"{path}.backup", path)
    for _ in range(2):
        with (
            pytest.raises(DatabaseUnavailableError, match="was replaced by another file") as caught,
            reading(sqlite_engine),
        ):
            pass
    assert f"Remove {path.name}-wal and {path.name}-shm" in str(caught.value.hint)
    for name in ("-wal", "-shm"):
        Path(f"{path}{name}").unlink()
    assert column(sqlite_engine, "SELECT count(*) FROM train_job") == [0]


@pytest.mark.parametrize("removed", [["-wal"], ["-wal", "-shm"]], ids=" and ".join)
def test_a_store_that_loses_its_log_while_it_is_open_is_brought_up_to_date(
    sqlite_engine: Engine, sqlite_url: str, base_dir: Path, removed: list[str]
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job", 100).chmod(0o400)
    with following(sqlite_engine, base_dir) as until:
        until(lambda: visible_scalars(sqlite_engine) == {1: 0.5})
        for name in removed:
            Path(f"{sqlite_path(sqlite_url)}{name}").unlink()
        with (
            pytest.raises(DatabaseUnavailableError, match="lost its write-ahead log") as caught,
            reading(sqlite_engine),
        ):
            pass
        assert caught.value.cause == "replaced"
        Log().scalar(2, "loss", 0.25).write_summary(base_dir / "job", 200).chmod(0o400)
        until(lambda: _stored(sqlite_url) == [0.5, 0.25])
    assert column(sqlite_engine, "PRAGMA integrity_check") == ["ok"]


def test_a_snapshot_that_is_written_anew_is_read_without_a_word(
    sqlite_engine: Engine, base_dir: Path, tmp_path: Path
) -> None:
    snapshot = tmp_path / "snapshot.sqlite3"
    backup(sqlite_engine, snapshot, mode=0o444)
    reader = open_engine(f"sqlite:///{snapshot}", read_only=True)
    assert column(reader, "SELECT count(*) FROM train_job") == [0]
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    with following(sqlite_engine, base_dir) as until:
        until(lambda: column(sqlite_engine, "SELECT count(*) FROM train_job") == [1])
    backup(sqlite_engine, snapshot, mode=0o444)
    assert column(reader, "SELECT count(*) FROM train_job") == [1]
    reader.dispose()
