"""Questions without an open store: the process keeps one open, and notices when it is no longer the right one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from helpers.databases import end_all_sessions
from helpers.log_writer import Log
from lineage_store import DatabaseUnavailableError, LineageStore, filter_summary_lineage, get_summary_lineage
from lineage_store.api import mindinsight


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Away from anybody's settings; nothing is left open."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    yield
    mindinsight._close_all()


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    path = tmp_path / "base"
    Log().train(network="A").write_lineage(path / "a")
    return path


@contextmanager
def connections() -> Iterator[list[str]]:
    """What is opened and closed meanwhile, by any engine."""
    seen: list[str] = []

    def opened(*_: object) -> None:
        seen.append("opened")

    def closed(*_: object) -> None:
        seen.append("closed")

    event.listen(Engine, "connect", opened)
    event.listen(Engine, "close", closed)
    yield seen
    event.remove(Engine, "connect", opened)
    event.remove(Engine, "close", closed)


def count(base_dir: Path, url: str) -> int:
    found: int = filter_summary_lineage(base_dir, store=url)["count"]
    return found


def test_the_second_question_opens_nothing(database_url: str, base_dir: Path) -> None:
    assert count(base_dir, database_url) == 1
    with connections() as seen:
        for _ in range(3):
            assert count(base_dir, database_url) == 1
            get_summary_lineage(base_dir / "a", store=database_url)
    assert seen == []


def test_other_settings_are_another_store(
    sqlite_url: str, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", sqlite_url)
    assert filter_summary_lineage(base_dir)["count"] == 1
    monkeypatch.setenv("LINEAGE_STORE_RECURSIVE", "true")
    Log().train(network="B").write_lineage(base_dir / "deep" / "b")
    assert filter_summary_lineage(base_dir)["count"] == 2


def test_a_file_that_was_replaced_is_the_one_that_is_asked(
    sqlite_url: str, base_dir: Path, tmp_path: Path, sqlite_template: Path
) -> None:
    assert count(base_dir, sqlite_url) == 1
    other = tmp_path / "other.db"
    with LineageStore(f"sqlite:///{other}") as store:
        Log().train(network="B").write_lineage(base_dir / "b")
        store.ingest(base_dir)
        Log().train(network="C").write_lineage(base_dir / "c")
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    for beside in ("-wal", "-shm"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    os.replace(other, path)
    assert filter_summary_lineage(base_dir, store=sqlite_url, refresh=False)["count"] == 2


def test_a_file_that_is_gone_is_made_anew(sqlite_url: str, base_dir: Path) -> None:
    assert count(base_dir, sqlite_url) == 1
    for path in Path(sqlite_url.removeprefix("sqlite:///")).parent.glob("store.sqlite3*"):
        path.unlink()
    assert count(base_dir, sqlite_url) == 1


def test_only_so_many_stay_open_and_those_in_use_are_not_closed(tmp_path: Path, base_dir: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(mindinsight.MOST + 3)]
    with mindinsight.kept_store(urls[0]) as first:
        for url in urls:
            assert count(base_dir, url) == 1
        assert len(mindinsight._KEPT) == mindinsight.MOST
        assert first.lineage.filter()["count"] == 1
    with connections() as seen:
        assert count(base_dir, urls[-1]) == 1
        assert seen == []
        assert count(base_dir, urls[0]) == 1
        assert "opened" in seen


def test_a_store_that_failed_is_not_kept(postgres_url: str, base_dir: Path) -> None:
    assert count(base_dir, postgres_url) == 1
    end_all_sessions(postgres_url)
    with pytest.raises(DatabaseUnavailableError):
        filter_summary_lineage(base_dir, store=postgres_url, refresh=False)
    assert mindinsight._KEPT == {}
    assert count(base_dir, postgres_url) == 1


def test_threads_share_one(database_url: str, base_dir: Path) -> None:
    assert count(base_dir, database_url) == 1
    mindinsight._close_all()
    answers: list[int] = []

    def ask() -> None:
        answers.extend(count(base_dir, database_url) for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 40
    assert len(mindinsight._KEPT) == 1


_FORKS = """
import logging, os, sys
from pathlib import Path
from lineage_store import filter_summary_lineage
logging.getLogger("lineage_store").setLevel(logging.ERROR)  # how long reading took is told on a slow machine
base_dir, url = Path(sys.argv[1]), sys.argv[2]
ask = lambda: filter_summary_lineage(base_dir, store=url, refresh=False)["count"]
filter_summary_lineage(base_dir, store=url)
if child := os.fork():
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert ask() == 1
else:
    assert ask() == 1
    sys.exit(0)
"""


@pytest.mark.slow
def test_a_child_and_its_parent_both_ask_on_and_leave_nothing_open(database_url: str, base_dir: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", _FORKS, str(base_dir), database_url]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
