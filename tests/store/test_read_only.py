"""A store opened for reading only: nothing is written or created, and everybody who may read it can."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from helpers.databases import plain_role
from helpers.engines import url_of
from helpers.log_writer import Log, write_small_job
from helpers.users import another_user, needs_root, open_elsewhere
from lineage_store import LineageStore, filter_summary_lineage
from lineage_store.api.reports import CleanUp
from lineage_store.config import Settings
from lineage_store.errors import (
    DatabaseUnavailableError,
    PermissionDeniedError,
    ReadOnlyStoreError,
    SchemaTooOldError,
)
from lineage_store.store import opened as default_location


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    path = tmp_path / "base"
    write_small_job(path / "a")
    return path


@pytest.fixture
def store(database_url: str, base_dir: Path) -> Iterator[LineageStore]:
    """Holds a job, open for reading only."""
    with LineageStore(database_url, settings=Settings()) as writer:
        writer.ingest(base_dir)
    with LineageStore(database_url, settings=Settings(), read_only=True) as store:
        yield store


def test_every_method_that_writes_says_that_the_store_is_open_for_reading_only(
    store: LineageStore, base_dir: Path
) -> None:
    rules = CleanUp(older_than_s=0.0)
    writing: list[Callable[[], object]] = [
        lambda: store.ingest(base_dir),
        lambda: store.run_daemon([base_dir]),
        lambda: store.job((base_dir, "./a")).annotate(label=1),
        lambda: store.repair.retry(),
        lambda: store.job((base_dir, "./a")).reingest(),
        lambda: store.removal.remove(rules),
        lambda: store.removal.restore(base_dir, "./a"),
        lambda: store.base_dirs.forget(base_dir),
    ]
    for write in writing:
        with pytest.raises(ReadOnlyStoreError, match="is open read-only"):
            write()


def test_every_question_is_answered(store: LineageStore, base_dir: Path) -> None:
    assert store.lineage.filter({"limit": 1}, count=False)["object"]
    assert len(list(store.lineage.iterate())) == 1
    assert store.job((base_dir, "./a")).scalars("loss").values.tolist() == [0.5]
    assert store.health.status().base_dirs
    assert store.repair.verify()


def test_sql_is_answered(store: LineageStore, base_dir: Path) -> None:
    url = url_of(store.engine)
    with ExitStack() as lifetime:
        asker = url if url.startswith("sqlite") else lifetime.enter_context(plain_role(url))
        opened = lifetime.enter_context(LineageStore(asker, settings=Settings(), read_only=True))
        answer = lifetime.enter_context(opened.sql("SELECT train_id FROM v_job"))
        assert list(answer.rows) == [("./a",)]


@pytest.mark.parametrize("refresh", [None, True, False])
def test_a_question_reads_no_log_files_and_is_answered(
    store: LineageStore, base_dir: Path, refresh: bool | None
) -> None:
    Log().train(network="B").write_lineage(base_dir / "b")
    assert filter_summary_lineage(base_dir, store=store, refresh=refresh)["count"] == 1


def test_an_empty_database_stays_empty(empty_database_url: str) -> None:
    with pytest.raises((SchemaTooOldError, DatabaseUnavailableError), match="no lineage store"):
        LineageStore(empty_database_url, settings=Settings(), read_only=True)
    if empty_database_url.startswith("sqlite"):
        assert not Path(empty_database_url.removeprefix("sqlite:///")).exists()


def test_a_file_that_a_killed_process_has_half_made_is_told_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    killed = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('CREATE TABLE t (x)'); c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN');"
        "c.executemany('INSERT INTO t VALUES (zeroblob(4000))', [()] * 100); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", killed, str(path)], check=False).returncode == 9
    with pytest.raises(DatabaseUnavailableError, match="was killed while it made this file"):
        LineageStore(f"sqlite:///{path}", settings=Settings(), read_only=True)


def test_no_directory_is_made_for_the_default_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(default_location, "FALLBACK", tmp_path / "fallback")
    with pytest.raises((SchemaTooOldError, DatabaseUnavailableError), match="no lineage store"):
        LineageStore(settings=Settings(), read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [False, True])
def test_a_default_store_in_a_directory_that_somebody_planted_is_not_used(
    read_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").touch()  # so that none can be made there
    (tmp_path / "open_to_all").mkdir()
    LineageStore(f"sqlite:///{tmp_path}/open_to_all/store.db").close()
    (tmp_path / "planted").symlink_to("open_to_all")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(default_location, "FALLBACK", tmp_path / "planted")
    with pytest.raises(DatabaseUnavailableError):
        LineageStore(settings=Settings(), read_only=read_only)


def test_not_even_sql_of_ones_own_writes(store: LineageStore) -> None:
    with store.engine.connect() as connection, pytest.raises(Exception, match=r"read-?only"):
        connection.exec_driver_sql("DELETE FROM train_job")


# --- SQLite files of another user ---


@pytest.fixture
def foreign(base_dir: Path) -> Iterator[Path]:
    """A store that others may read, in a directory that they may only look into."""
    directory = Path(tempfile.mkdtemp(dir="/tmp"))  # pytest closes its own to others
    directory.chmod(0o755)
    path = directory / "store.db"
    with LineageStore(f"sqlite:///{path}", settings=Settings()) as store:
        store.ingest(base_dir)
    path.chmod(0o644)
    yield path
    shutil.rmtree(directory)


def jobs(path: Path) -> list[str]:
    with LineageStore(f"sqlite:///{path}", settings=Settings(), read_only=True) as store:
        return [job.train_id for job in store.lineage.jobs()]


@needs_root
def test_a_user_who_may_only_read_reads_while_the_store_is_in_use(foreign: Path) -> None:
    with open_elsewhere(foreign):
        files = set(foreign.parent.iterdir())
        with another_user():
            assert jobs(foreign) == ["./a"]
        assert set(foreign.parent.iterdir()) == files


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_where_sqlite_cannot_read_the_error_says_why_and_nothing_is_made(foreign: Path, mode: int) -> None:
    foreign.parent.chmod(mode)
    with (
        another_user(),
        pytest.raises(DatabaseUnavailableError, match="write-ahead log, no process has it") as refused,
    ):
        jobs(foreign)
    assert refused.value.cause == "closed"
    assert "lineage-store backup FILE --mode 444" in str(refused.value.hint)
    assert list(foreign.parent.iterdir()) == [foreign]


@needs_root
def test_a_user_who_may_not_read_is_told_so(foreign: Path) -> None:
    foreign.chmod(0o600)
    with another_user(), pytest.raises(PermissionDeniedError, match="unable to open") as denied:
        jobs(foreign)
    assert "chmod g+r" in str(denied.value.hint)
    assert denied.value.exit_code == 1


@needs_root
def test_a_backup_for_readers_is_read_by_anybody(foreign: Path) -> None:
    with LineageStore(f"sqlite:///{foreign}", settings=Settings()) as store:
        store.backup(foreign.parent / "snapshot.db", mode=0o444)
    with another_user():
        assert jobs(foreign.parent / "snapshot.db") == ["./a"]
