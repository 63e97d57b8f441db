"""`status --check`: the behaviour that a monitor relies on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from sqlalchemy import text

from helpers.engines import opened
from helpers.log_writer import Log
from helpers.program import Run
from lineage_store.config import Settings
from lineage_store.ingest import pipeline
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import hold_lease, register
from lineage_store.store.database.db import open_engine, writing


def long_ago(url: str) -> None:
    """Let the last search be long ago."""
    with opened(url) as engine, writing(engine) as session:
        session.change(text("UPDATE base_dir SET discovered_at = '2020-01-01T00:00:00.000Z'"))


def test_all_is_well_after_an_ingest(run: Run, stored: Path) -> None:
    checked = run("status", "--check")
    assert (checked.code, checked.out) == (0, "All is well.\n")
    assert json.loads(run("status", stored, "--check", "--json").out) == {"well": True, "findings": []}


@pytest.mark.usefixtures("on_sqlite")
def test_an_empty_store_is_not_well(run: Run) -> None:
    checked = run("status", "--check")
    assert checked.code == 1
    assert "holds no base dir" in checked.out


def test_a_base_dir_that_nobody_leads_is_a_standstill(run: Run, on_sqlite: str, stored: Path) -> None:
    long_ago(on_sqlite)
    checked = run("status", "--check")
    assert checked.code == 1
    assert f"{stored}: No ingester holds the lease of it" in checked.out
    assert "Is the daemon running?" in checked.out
    assert run("status", "--check", "--within", "10000w").code == 0


def test_a_base_dir_that_is_led_is_well(run: Run, on_sqlite: str, stored: Path) -> None:
    engine = open_engine(on_sqlite)
    with hold_lease(engine, register(engine, stored), 60, mode="daemon"):
        assert run("status", "--check", "--within", "0s").code == 0
    assert run("status", "--check", "--within", "0s").code == 1
    engine.dispose()


def test_a_backlog_that_nobody_reads_is_not_well_and_one_that_is_read_is_told(
    run: Run, on_sqlite: str, base_dir: Path
) -> None:
    for number in range(4):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"{number}")
    with opened(on_sqlite) as engine:
        pipeline.ingest(engine, base_dir, Settings(), should_stop=lambda: True)
        checked = run("status", "--check")
        assert checked.code == 1
        assert f"{base_dir}: 7 log files wait to be read" in checked.out
        with hold_lease(engine, register(engine, base_dir), 60, mode="daemon"):
            checked = run("status", "--check")
            told = json.loads(run("status", "--check", "--json").out)
            (row,) = json.loads(run("status", "--json").out)["backlogs"]
    assert checked.code == 0
    assert "All is well" not in checked.out
    assert (told["well"], [each["kind"] for each in told["findings"]]) == (True, ["backlog"])
    assert (row["files"], row["bytes_per_s"], row["left_s"]) == (7, None, None)


def test_one_that_leads_and_never_gets_through_is_a_standstill(
    run: Run, on_sqlite: str, stored: Path
) -> None:
    long_ago(on_sqlite)
    with (
        opened(on_sqlite) as engine,
        hold_lease(engine, register(engine, stored), 60, mode="daemon") as lease,
    ):
        checked = run("status", "--check")
        assert checked.code == 1
        assert f"{lease.holder} holds its lease, but it was last searched" in checked.out


def test_a_base_dir_of_the_settings_that_was_never_read_is_a_standstill(
    run: Run, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(stored)
    monkeypatch.setenv("LINEAGE_STORE_BASE_DIRS", f"{tmp_path / 'link'}:{tmp_path / 'unread'}")
    checked = run("status", "--check")
    assert checked.code == 1
    assert checked.out.startswith(f"{tmp_path / 'unread'}: It is not in the store.")
    assert str(tmp_path / "link") not in checked.out


def test_a_base_dir_that_cannot_be_listed_is_a_standstill(run: Run, on_sqlite: str, stored: Path) -> None:
    engine = open_engine(on_sqlite)
    away = stored.rename(stored.with_name("away"))
    follower = Follower(engine, stored, Settings())
    follower.tick()
    follower.close()
    engine.dispose()
    checked = run("status", "--check")
    assert checked.code == 1
    assert f"{stored}: It cannot be listed: No such file or directory" in checked.out
    assert "Is the share mounted" in checked.out
    assert away.is_dir()


def test_files_with_problems_are_told_and_the_rest_is_well(run: Run, stored: Path) -> None:
    torn = Log().scalar(1, "loss", 0.5).torn(5).write_summary(stored / "torn")
    torn.chmod(0o400)
    (stored / "damaged").mkdir()
    (stored / "damaged" / torn.name).write_bytes(os.urandom(100))
    assert run("ingest", stored).code == 3
    checked = run("status", "--check")
    assert checked.code == 3
    assert "Files that end in the middle of a frame: 1, such as torn/" in checked.out
    assert "Files with bytes that make no frame: 1, such as damaged/" in checked.out


def test_what_keeps_the_store_from_being_written_is_told(run: Run, on_sqlite: str, stored: Path) -> None:
    long_ago(on_sqlite)
    with opened(on_sqlite) as engine, writing(engine):
        checked = run("status", "--check")
    assert checked.code == 1
    assert "the store: It is locked." in checked.out
    assert f"Process {os.getpid()} holds its write lock" in checked.out


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE series SET series_no = 1073741823 + series_no", "series of a job are used: 1,073,741,824"),
        ("UPDATE ingest_cycle SET id = 2000000000", "rows of ingest_cycle are used: 2,000,000,000"),
    ],
)
def test_numbers_that_come_to_an_end_are_told_in_time(
    run: Run, on_sqlite: str, stored: Path, statement: str, told: str
) -> None:
    with opened(on_sqlite) as engine, writing(engine) as session:
        session.change(text(statement))
    checked = run("status", "--check")
    assert checked.code == 0
    assert f"{told} of 2,147,483,648." in checked.out
    assert str(stored) not in checked.out


def test_a_database_that_is_down_exits_5(run: Run) -> None:
    checked = run("--database", "postgresql://me@127.0.0.1:1/db", "status", "--check")
    assert checked.code == 5
    assert "the store: The database" in checked.out
    assert "Is the server up" in checked.out
