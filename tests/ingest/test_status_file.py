"""The status files of daemons: who may write and read them, and when they are removed."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from lineage_store.errors import Cause
from lineage_store.findings import of_database
from lineage_store.ingest.daemon import status_file
from lineage_store.ingest.daemon.status_file import ACTIVE, ENDED, STOPPED, DaemonStatus, StatusFile
from lineage_store.store.database.db import identity

STORE = "postgresql://host:5432/lineage"
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
LEADING = DaemonStatus("/runs/\udcff", "host:1:a", ACTIVE)
FULL = of_database(Cause.FULL, LEADING.base_dir, what="No space left.", remedy="Free some.", since=SINCE)
KEPT = DaemonStatus(LEADING.base_dir, LEADING.holder, ACTIVE, FULL)
WRITING = """
import os, sys
from pathlib import Path
from lineage_store.ingest.daemon import status_file
status_file.MEMORY = Path(sys.argv[1])
file = status_file.StatusFile(sys.argv[2])
file.write([status_file.DaemonStatus("/runs", "host:1:a", "active")], ended=sys.argv[3])
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory of our own."""
    monkeypatch.setattr(status_file, "MEMORY", tmp_path)
    return tmp_path


def home(memory: Path) -> Path:
    return memory / f"lineage-store-{os.getuid()}"


def write_and_die(memory: Path, ended: str = "") -> None:
    subprocess.run([sys.executable, "-c", WRITING, str(memory), STORE, ended], check=False)


def test_what_is_written_is_read_by_those_who_ask_for_the_store() -> None:
    file = StatusFile(STORE)
    file.write([LEADING, KEPT])
    assert status_file.read_statuses(STORE) == [LEADING, KEPT]
    assert [each.title for each in status_file.read_statuses(STORE)] == ["active", "database full"]
    assert status_file.read_statuses("postgresql://host:5432/other") == []
    file.write([LEADING])
    assert status_file.read_statuses(STORE) == [LEADING]
    file.remove()
    assert status_file.read_statuses(STORE) == []


def test_nobody_else_can_read_a_status_file(memory: Path) -> None:
    StatusFile(STORE).write([LEADING])
    (path,) = home(memory).iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_status_file_that_was_cleared_away_is_written_again(memory: Path) -> None:
    file = StatusFile(STORE)
    file.write([LEADING])
    (path,) = home(memory).iterdir()
    path.unlink()
    file.write([LEADING])
    assert status_file.read_statuses(STORE) == [LEADING]


@pytest.mark.parametrize(
    ("ended", "told"), [("", "without a message"), ("no progress in /runs", "no progress")]
)
def test_a_daemon_that_is_gone_is_told_until_another_starts(memory: Path, ended: str, told: str) -> None:
    write_and_die(memory, ended)
    (status,) = status_file.read_statuses(STORE)
    assert status.finding is not None
    assert status.finding.kind == ENDED
    assert told in status.finding.what
    StatusFile("of another store")
    assert status_file.read_statuses(STORE)
    StatusFile(STORE)
    assert status_file.read_statuses(STORE) == []


def test_what_ended_a_week_ago_is_removed_by_any_daemon(memory: Path) -> None:
    write_and_die(memory)
    (path,) = home(memory).iterdir()
    StatusFile("of another store")
    assert path.exists()
    os.utime(path, (0, 0))
    StatusFile("of another store")
    assert not path.exists()


def test_a_process_that_has_the_number_of_a_daemon_that_is_gone_is_not_taken_for_it(memory: Path) -> None:
    StatusFile(STORE).write([LEADING])
    (path,) = home(memory).iterdir()
    path.write_text(json.dumps({**json.loads(path.read_text()), "begun": "1"}))
    assert [each.title for each in status_file.read_statuses(STORE)] == ["ended"]


def test_a_daemon_that_is_stopped_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    StatusFile(STORE).write([LEADING])
    monkeypatch.setattr(status_file, "is_stopped", lambda pid: pid == os.getpid())
    (status,) = status_file.read_statuses(STORE)
    assert status.finding is not None
    assert (status.finding.kind, status.finding.remedy) == (
        STOPPED,
        f"Resume it (kill -CONT {os.getpid()}), or end it (kill -KILL {os.getpid()}).",
    )


def test_a_directory_that_is_open_to_others_is_neither_written_nor_read(
    memory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home(memory).mkdir(mode=0o755)
    file = StatusFile(STORE)
    file.write([LEADING])
    file.write([KEPT])
    assert caplog.messages == ["status file not written; `status` cannot show this daemon"]
    assert list(home(memory).iterdir()) == []


FIELDS = f'"store": "{STORE}", "pid": 1, "begun": "", "ended": ""'


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        f'{{"store": "{STORE}"}}',
        f'{{{FIELDS}, "base_dirs": [{{"x": 1}}]}}',
        f'{{{FIELDS}, "base_dirs": ["x"]}}',
        f'{{{FIELDS}, "base_dirs": [{{"base_dir": 1, "holder": "h", "state": "active", "finding": null}}]}}',
        f'{{{FIELDS}, "base_dirs": [{{"base_dir": "/", "holder": "h", "state": "active", "finding": {{"kind": 1}}}}]}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_status_file_is_passed_over(memory: Path, content: str) -> None:
    StatusFile(STORE).write([LEADING])
    (home(memory) / "0.json").write_text(content)
    os.mkfifo(home(memory) / "1.json")
    (home(memory) / "2.json").symlink_to("/etc/hostname")
    assert status_file.read_statuses(STORE) == [LEADING]
    StatusFile(STORE)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql+psycopg://me:secret@host/lineage", "postgresql://host:5432/lineage"),
        ("postgresql+psycopg://you@/lineage?host=/run/pg&port=5433", "postgresql:///run/pg:5433/lineage"),
        ("sqlite:////tmp/../tmp/store.db", "sqlite:////tmp/store.db"),
    ],
)
def test_a_store_has_one_name_whoever_connects(url: str, name: str) -> None:
    assert identity(make_url(url)) == name
