"""What was found and not read counts: sizes, the state `reading`, `status --check`, and the rate and time left."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, update

from helpers.ingesting import column, ingest, let_leases_expire, rows, tick_until
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.ingest import pipeline
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.pipeline import PART_S
from lineage_store.query import status
from lineage_store.store.database.db import reading, writing
from lineage_store.store.schema.tables import ingest_cycle, ingest_lease, log_file

EAGER: dict[str, Any] = {"poll_interval_s": 0.05, "discovery_interval_s": 0.05}


def curve(steps: int = 40) -> Log:
    log = Log().version()
    for step in range(steps):
        log.scalar(step, "loss", 1 / (step + 1))
    return log


def write_jobs(base_dir: Path, count: int) -> list[Path]:
    return [curve().write_summary(base_dir / f"{number}") for number in range(count)]


def read_some(engine: Engine, base_dir: Path, batches: int = 1, **settings: Any) -> None:
    """Ingest, and stop after some batches."""
    asked, few = iter(range(10**6)), Settings(batch_files=1, **settings)
    pipeline.ingest(engine, base_dir, few, should_stop=lambda: next(asked) > 2 * batches + 9)


def base_dir_row(engine: Engine) -> dict[str, Any]:
    (row,) = rows(engine, "SELECT * FROM v_base_dir")
    return dict(row._mapping)


def kinds(engine: Engine) -> list[str]:
    with reading(engine) as session:
        return [each.finding.kind for each in status.read_status(session).backlogs]


def test_the_ledger_and_states_are_true_for_files_not_yet_opened(engine: Engine, base_dir: Path) -> None:
    sizes = sum(path.stat().st_size for path in write_jobs(base_dir, 10))
    seen: list[dict[str, Any]] = []

    def stop() -> bool:
        seen.append(base_dir_row(engine))
        return False

    pipeline.ingest(engine, base_dir, Settings(batch_files=4), should_stop=stop)
    most = max(seen, key=lambda row: row["waiting_files"])
    assert (most["jobs"], most["reading_jobs"], most["waiting_files"]) == (10, 10, 10)
    assert most["waiting_bytes"] == most["pending_bytes"] == most["log_bytes"] == sizes
    assert any(0 < row["waiting_files"] < 10 and row["live_jobs"] for row in seen)
    after = base_dir_row(engine)
    assert [after[name] for name in ("reading_jobs", "live_jobs", "waiting_files", "pending_bytes")] == [
        0,
        10,
        0,
        0,
    ]
    assert kinds(engine) == []


def test_a_job_of_which_a_file_is_half_read_is_reading_and_has_no_outcome(
    engine: Engine, base_dir: Path
) -> None:
    curve(2000).write_summary(base_dir / "job").chmod(0o400)
    Log().train(network="Net").write_lineage(base_dir / "job").chmod(0o400)
    read_some(engine, base_dir, batches=0, chunk_bytes=4096, batch_rows=50)
    (file,) = rows(engine, "SELECT * FROM v_log_file WHERE kind = 'summary'")
    assert 0 < file.bookmark_bytes < file.size_bytes
    assert file.is_waiting
    assert rows(engine, "SELECT state, outcome FROM v_job") == [("reading", None)]
    ingest(engine, base_dir)
    assert rows(engine, "SELECT state, outcome FROM v_job") == [("finished", "completed")]


def test_a_finished_job_that_gets_a_file_is_reading_until_it_is_read(engine: Engine, base_dir: Path) -> None:
    curve().write_summary(base_dir / "0").chmod(0o400)
    ingest(engine, base_dir)
    assert column(engine, "SELECT state FROM v_job") == ["finished"]
    curve().write_summary(base_dir / "0", 1_700_000_500).chmod(0o400)
    pipeline.ingest(engine, base_dir, Settings(), should_stop=lambda: True)
    assert column(engine, "SELECT state FROM v_job") == ["reading"]
    ingest(engine, base_dir)
    assert column(engine, "SELECT state FROM v_job") == ["finished"]


def test_a_live_job_that_is_followed_is_never_reading_again(engine: Engine, base_dir: Path) -> None:
    log = curve(3)
    path = log.write_summary(base_dir / "job")
    seen = set[str]()

    def look() -> bool:
        seen.update(column(engine, "SELECT state FROM v_job"))
        return False

    follower = Follower(engine, base_dir, Settings(**EAGER, chunk_bytes=4096), look)
    tick_until(lambda: column(engine, "SELECT state FROM v_job") == ["live"], follower)
    seen.clear()
    for step in range(1, 4):
        for part in range(400):
            log.scalar(step * 1000 + part, "loss", 0.5)
        log.write(path)
        samples = 3 + 400 * step
        tick_until(lambda: column(engine, "SELECT count(*) FROM v_scalar") == [samples], follower)  # noqa: B023
    assert seen == {"live"}
    follower.close()


def test_growth_that_waits_longer_than_a_pass_counts(engine: Engine, base_dir: Path) -> None:
    paths = write_jobs(base_dir, 3)
    ingest(engine, base_dir)
    for path in paths:
        path.write_bytes(curve(80).content)
    asked = iter(range(10**6))
    few = Settings(batch_files=1, poll_interval_s=0.05)
    pipeline.ingest(
        engine, base_dir, few, progress=lambda _: time.sleep(0.1), should_stop=lambda: next(asked) > 0
    )
    row = base_dir_row(engine)
    assert (row["waiting_files"], row["live_jobs"]) == (1, 3)
    assert row["pending_bytes"] == row["waiting_bytes"] > 0
    ingest(engine, base_dir)
    assert base_dir_row(engine)["pending_bytes"] == 0


def test_a_file_that_cannot_be_read_keeps_no_job_reading(engine: Engine, base_dir: Path) -> None:
    (base_dir / "job").mkdir(parents=True)
    path = curve().write_summary(base_dir / "job")
    path.rename(path.with_suffix(".away"))
    path.symlink_to(path.with_suffix(".away"))
    path.unlink()
    path.mkdir()
    ingest(engine, base_dir)
    assert column(engine, "SELECT count(*) FROM v_job WHERE state = 'reading'") == [0]


# --- whether a backlog is read, stands or grows ---


@pytest.fixture
def backlog(engine: Engine, base_dir: Path) -> Engine:
    """A store that has found ten files and read some of them; nobody leads."""
    write_jobs(base_dir, 10)
    read_some(engine, base_dir)
    assert 0 < base_dir_row(engine)["waiting_files"] < 10
    return engine


def led(engine: Engine, *, since_s: float = 0) -> None:
    """Let a daemon lead all base dirs, for `since_s` seconds already."""
    with writing(engine) as session:
        now = session.now()
        times = {"acquired_at": now - timedelta(seconds=since_s), "expires_at": now + timedelta(days=1)}
        session.change(update(ingest_lease).values(mode="daemon", **times))


def passed(engine: Engine, seconds: float) -> None:
    """Let everything have happened `seconds` earlier."""
    earlier = timedelta(seconds=seconds)
    with writing(engine) as session:
        for table, names in (
            (ingest_cycle, ("started_at", "finished_at")),
            (log_file, ("created_at", "grown_at")),
        ):
            for row in session.rows(table.select()):
                of_row = [column == row._mapping[column.name] for column in table.primary_key]
                values = {name: row._mapping[name] and row._mapping[name] - earlier for name in names}
                session.change(update(table).where(*of_row).values(values))


def test_a_backlog_that_nobody_reads_is_not_well(backlog: Engine) -> None:
    let_leases_expire(backlog)
    assert kinds(backlog) == ["backlog_stands"]


def test_a_backlog_that_is_read_tells_its_rate_and_the_time_left(backlog: Engine) -> None:
    led(backlog)
    with reading(backlog) as session:
        (found,) = status.read_status(session).backlogs
    assert found.finding.kind == "backlog"
    assert found.bytes_per_s is not None
    assert found.left_s == found.bytes / found.bytes_per_s
    assert "bytes/s, about " in found.finding.what


def test_a_backlog_that_was_just_found_has_an_unknown_time_left(engine: Engine, base_dir: Path) -> None:
    write_jobs(base_dir, 3)
    pipeline.ingest(engine, base_dir, Settings(batch_files=1), should_stop=lambda: True)
    led(engine)
    with reading(engine) as session:
        (found,) = status.read_status(session).backlogs
    assert (found.finding.kind, found.bytes_per_s, found.left_s) == ("backlog", None, None)
    assert "the time left is unknown" in found.finding.what


def test_a_backlog_of_which_nothing_is_read_for_a_minute_stands(backlog: Engine) -> None:
    led(backlog, since_s=300)
    assert kinds(backlog) == ["backlog"]
    passed(backlog, 300)
    assert kinds(backlog) == ["backlog_stands"]
    led(backlog, since_s=0)
    assert kinds(backlog) == ["backlog"]


def test_a_backlog_that_becomes_more_grows(backlog: Engine) -> None:
    passed(backlog, 90)
    led(backlog, since_s=300)
    with writing(backlog) as session:
        session.change(update(ingest_cycle).values(bytes_read=1, waiting_bytes=1))
        (row,) = session.rows(ingest_cycle.select().limit(1))
        now = row.finished_at + timedelta(seconds=89)
        again = {**row._mapping, "started_at": now, "finished_at": now, "waiting_bytes": 2}
        del again["id"]
        session.change(ingest_cycle.insert().values(again))
    assert kinds(backlog) == ["backlog_grows"]
    with writing(backlog) as session:
        session.change(update(ingest_cycle).values(waiting_bytes=10**9))
    assert kinds(backlog) == ["backlog"]


def test_a_long_ingest_leaves_rows_while_it_reads(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PART_S > 0
    monkeypatch.setattr("lineage_store.ingest.pipeline.PART_S", 0.0)
    write_jobs(base_dir, 5)
    ingest(engine, base_dir, batch_files=1)
    parts = rows(engine, "SELECT files_read, waiting_files, bytes_read FROM ingest_cycle ORDER BY id")
    assert sum(part.files_read for part in parts) == 5
    assert [part.waiting_files for part in parts][:5] == [4, 3, 2, 1, 0]
    total = column(engine, "SELECT bytes_read FROM ingest_total")
    assert total == [sum(part.bytes_read for part in parts)]
