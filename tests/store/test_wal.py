"""The write-ahead log of a SQLite store: watched, explained, and cut back."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest
from sqlalchemy import Engine, text

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.store.admin.obstacles import read_wal
from lineage_store.store.database import connections
from lineage_store.store.database.db import open_engine, sqlite_path, writing
from lineage_store.store.schema.upgrade import upgrade

READ = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN")
database.execute("SELECT count(*) FROM train_job").fetchone()
print(flush=True)
input()
"""


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Engine:
    return open_engine(sqlite_url)


def test_a_new_file_that_another_is_writing_is_waited_for(empty_sqlite_url: str) -> None:
    path = sqlite_path(empty_sqlite_url)
    assert path is not None
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    soon = Timer(0.3, other.execute, ("COMMIT",))
    soon.start()
    upgrade(empty_sqlite_url)
    soon.join()
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()


def test_a_new_file_that_another_does_not_let_go_is_named(
    empty_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_TIMEOUT_S", 0.2)
    path = sqlite_path(empty_sqlite_url)
    assert path is not None
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseUnavailableError, match="database is locked"):
        upgrade(empty_sqlite_url)
    other.close()


def write_much(engine: Engine) -> None:
    for number in range(60):
        with writing(engine) as session:
            insert = "INSERT INTO base_dir (path, path_key, created_at) VALUES (:path, :key, '2026')"
            session.change(text(insert), {"path": "x" * 100_000, "key": number})


def test_a_long_reader_is_named(sqlite_engine: Engine, sqlite_url: str) -> None:
    path = sqlite_path(sqlite_url)
    with subprocess.Popen(
        [sys.executable, "-c", READ, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        write_much(sqlite_engine)
        found = read_wal(sqlite_engine, large_bytes=1_000_000)
        reader.communicate(b"\n")
    assert found is not None
    assert found.size_bytes > 1_000_000
    assert found.finding is not None
    assert f"process {reader.pid} " in found.finding.what
    assert "reader" in found.finding.remedy
    sqlite_engine.dispose()


def test_a_small_log_is_no_worry(sqlite_engine: Engine) -> None:
    write_much(sqlite_engine)
    found = read_wal(sqlite_engine)
    assert found is not None
    assert found.finding is None
    sqlite_engine.dispose()
    assert read_wal(sqlite_engine) is None


def test_it_is_cut_back_when_the_reader_has_ended(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lineage_store.store.database.connections.WAL_KEPT_BYTES", 500_000)
    engine, path = open_engine(sqlite_url), sqlite_path(sqlite_url)
    with engine.connect() as reader:
        reader.execute(text("SELECT count(*) FROM train_job"))
        write_much(engine)
        assert Path(f"{path}-wal").stat().st_size > 5_000_000
    for number in (-1, -2):
        with writing(engine) as session:
            insert = "INSERT INTO base_dir (path, path_key, created_at) VALUES ('y', :key, '2026')"
            session.change(text(insert), {"key": number})
    assert Path(f"{path}-wal").stat().st_size <= 500_000
    engine.dispose()


def test_postgresql_has_none_of_ours(postgres_engine: Engine) -> None:
    assert read_wal(postgres_engine) is None
