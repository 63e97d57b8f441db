"""Backups that others may read: of SQLite, a store that needs no other files."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.stored_jobs import add_bare_job, add_base_dir
from lineage_store.errors import LineageStoreError
from lineage_store.operations.backup import backup
from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.schema import upgrade


def jobs_in(path: Path) -> int:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    count: int = connection.execute("SELECT count(*) FROM v_job").fetchone()[0]
    connection.close()
    return count


def test_a_snapshot_is_the_store_at_one_moment_and_needs_no_side_files(
    sqlite_engine: Engine, tmp_path: Path
) -> None:
    target = tmp_path / "shared" / "snapshot.db"
    target.parent.mkdir()
    with writing(sqlite_engine) as session:
        base_dir = add_base_dir(session)
        add_bare_job(session, "./one", base_dir)
    size = backup(sqlite_engine, target, mode=0o444)
    with writing(sqlite_engine) as session:
        add_bare_job(session, "./two", base_dir)
    assert jobs_in(target) == 1
    backup(sqlite_engine, target, mode=0o444)
    assert jobs_in(target) == 2
    assert size > 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o444
    assert list(target.parent.iterdir()) == [target]
    with target.open("rb") as stream:
        assert stream.read(20)[18:20] == b"\x01\x01", "read and write version 1: no write-ahead log"
    upgrade.check(f"sqlite:///{target}")


def test_a_snapshot_can_be_taken_while_somebody_writes(sqlite_engine: Engine, tmp_path: Path) -> None:
    with writing(sqlite_engine) as session:
        add_base_dir(session)
        backup(sqlite_engine, tmp_path / "snapshot.db", mode=0o444)
    assert jobs_in(tmp_path / "snapshot.db") == 0


def test_what_cannot_be_written_is_refused_and_leaves_nothing_behind(
    sqlite_engine: Engine, tmp_path: Path
) -> None:
    store = tmp_path / "store.sqlite3"
    with pytest.raises(LineageStoreError, match="store itself"):
        backup(sqlite_engine, store, mode=0o444)
    (tmp_path / "directory").mkdir()
    with pytest.raises(LineageStoreError, match="cannot be written"):
        backup(sqlite_engine, tmp_path / "directory", mode=0o444)
    assert {path.name for path in tmp_path.iterdir()} <= {"store.sqlite3", "directory"}


def test_a_snapshot_stays_a_snapshot_when_root_opens_it(sqlite_engine: Engine, tmp_path: Path) -> None:
    target = tmp_path / "snapshot.db"
    backup(sqlite_engine, target, mode=0o444)
    opened = open_engine(f"sqlite:///{target}")
    upgrade.check(opened)
    opened.dispose()
    assert target.read_bytes()[18:20] == b"\x01\x01", "still without a write-ahead log"
    assert [path.name for path in tmp_path.glob("snapshot.db*")] == ["snapshot.db"]
