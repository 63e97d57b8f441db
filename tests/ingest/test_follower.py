"""Following a base dir, tick by tick: what is seen when, who leads, and that no failure ends it."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, update

from helpers.base_dirs import path_meant
from helpers.ingesting import (
    column,
    let_leases_expire,
    open_problems,
    rows,
    search_at_next_tick,
    tick_until,
    visible_scalars,
)
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.lease import register
from lineage_store.operations.base_dirs import forget
from lineage_store.store import leases
from lineage_store.store.database.db import open_engine, writing
from lineage_store.store.schema.tables import log_file, train_job

EAGER: dict[str, Any] = {
    "poll_interval_s": 0.05,
    "discovery_interval_s": 0.05,
    "lease_s": 1.0,
    "slow_reading_s": 30.0,
}
RARELY_SEARCHING: dict[str, Any] = {**EAGER, "discovery_interval_s": 3600}


@pytest.fixture
def engine(sqlite_engine: Engine) -> Engine:
    """SQLite only: what depends on the database is tested with leases and with the daemon."""
    return sqlite_engine


@pytest.fixture
def follow(engine: Engine, base_dir: Path) -> Iterator[Callable[..., Follower]]:
    followers: list[Follower] = []

    def start(**settings: Any) -> Follower:
        followers.append(Follower(engine, base_dir, Settings(**(settings or EAGER))))
        return followers[-1]

    yield start
    for follower in followers:
        follower.close()


def test_a_new_job_is_found(follow: Callable[..., Follower], engine: Engine, base_dir: Path) -> None:
    follower = follow()
    follower.tick()
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    tick_until(lambda: visible_scalars(engine) == {1: 0.5}, follower)


def test_a_live_jobs_new_sample_is_seen_without_a_search(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "live")
    follower = follow(**RARELY_SEARCHING)
    follower.tick()
    log.scalar(2, "loss", 0.25).write(path)
    Log().scalar(1, "other", 0.5).write_summary(base_dir / "new")
    follower.tick()
    assert visible_scalars(engine) == {1: 0.5, 2: 0.25}
    assert column(engine, "SELECT train_id FROM train_job") == ["./live"]


def test_a_new_file_of_a_live_job_is_seen_without_a_search(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "live", 100)
    follower = follow(**RARELY_SEARCHING)
    follower.tick()
    Log().scalar(2, "loss", 0.25).write_summary(base_dir / "live", 200)
    follower.tick()
    assert visible_scalars(engine) == {1: 0.5, 2: 0.25}


def test_a_quiet_job_becomes_stalled_and_live_again_when_it_grows(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "job")
    follower = follow()
    tick_until(lambda: column(engine, "SELECT state FROM train_job") == ["live"], follower)
    with writing(engine) as session:  # what time does
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        session.change(update(log_file).values(grown_at=long_ago))
        session.change(update(train_job).values(last_grown_at=long_ago))
    tick_until(lambda: column(engine, "SELECT state FROM train_job") == ["stalled"], follower)
    log.scalar(2, "loss", 0.5).write(path)
    tick_until(lambda: column(engine, "SELECT state FROM train_job") == ["live"], follower)


def test_an_old_unfinished_job_is_stalled_from_the_first_look_on(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    os.utime(Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job"), (1_700_000_000, 1_700_000_000))
    follow().tick()
    assert column(engine, "SELECT state FROM train_job") == ["stalled"]


def test_a_job_is_finished_when_its_files_are_closed_or_a_newer_one_took_over(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    Log().scalar(1, "loss", 0.5).scalar(2, "loss", 0.5).torn(5).write_summary(base_dir / "job", 100)
    newest = Log().scalar(2, "loss", 0.5).write_summary(base_dir / "job", 200)
    follower = follow()
    follower.tick()
    assert column(engine, "SELECT state FROM train_job") == ["live"]
    newest.chmod(0o400)
    tick_until(lambda: column(engine, "SELECT state FROM train_job") == ["finished"], follower)


def test_finished_directories_are_not_listed_again_until_they_change(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "done", 100).chmod(0o400)
    follower = follow()
    follower.tick()
    listed, scandir = Counter[str](), os.scandir

    def counted(of: int) -> Any:
        listed[path_meant(of)] += 1
        return scandir(of)

    def nothing_is_listed() -> bool:
        listed.clear()
        search_at_next_tick(follower)
        follower.tick()
        return not listed

    monkeypatch.setattr(os, "scandir", counted)
    tick_until(nothing_is_listed, follower)
    assert nothing_is_listed()
    Log().scalar(2, "loss", 0.25).write_summary(base_dir / "done", 200).chmod(0o400)
    tick_until(lambda: visible_scalars(engine) == {1: 0.5, 2: 0.25}, follower)


def test_a_finished_job_that_vanishes_is_missing(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path, tmp_path: Path
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "done").chmod(0o400)
    follower = follow()
    follower.tick()
    (base_dir / "done").rename(tmp_path / "away")
    tick_until(lambda: column(engine, "SELECT state FROM train_job") == ["missing"], follower)


# --- who leads ---


def test_one_stands_by_and_takes_over_at_once_when_the_leader_ends(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    leader, standby = (follow(**{**EAGER, "lease_s": 6.0}) for _ in range(2))
    leader.tick()
    standby.tick()
    (before,) = column(engine, "SELECT holder FROM ingest_lease")
    leader.close()
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    tick_until(lambda: visible_scalars(engine) == {1: 0.5}, standby)
    (lease,) = rows(engine, "SELECT holder, epoch FROM ingest_lease")
    assert lease.holder != before
    assert lease.epoch == 2


def test_who_stands_by_looks_again_when_the_lead_may_have_ended(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    base_dir_id = register(engine, base_dir)
    with writing(engine) as session:
        leases.acquire(session, base_dir_id, "killed", 3.0, "daemon")
    standby = follow(**{**EAGER, "lease_s": 90.0})  # a third of which is too long to wait for here
    standby.tick()
    assert standby.status.title == "standby"
    tick_until(lambda: standby.status.title == "active", standby)


def test_one_that_was_away_finds_out_and_stands_by(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    away, other = (follow(**{**EAGER, "lease_s": 6.0}) for _ in range(2))
    away.tick()
    let_leases_expire(engine)
    other.tick()
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    tick_until(lambda: "lease lost" in caplog.messages, away)
    tick_until(lambda: "standby" in caplog.messages, away)
    tick_until(lambda: visible_scalars(engine) == {1: 0.5}, other)
    assert column(engine, "SELECT epoch FROM ingest_lease") == [2]


def test_one_that_leads_again_trusts_nothing_of_before(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job").chmod(0o400)
    away = follow()
    away.tick()
    let_leases_expire(engine)
    forget(engine, base_dir, Settings())
    assert column(engine, "SELECT count(*) FROM train_job") == [0]
    tick_until(lambda: visible_scalars(engine) == {1: 0.5}, away)


# --- failures ---


def test_an_unlistable_base_dir_is_a_problem_until_it_is_back(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path, tmp_path: Path
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    follower = follow()
    follower.tick()
    base_dir.rename(tmp_path / "unmounted")
    tick_until(lambda: open_problems(engine) == [("unlistable_base_dir", ".")], follower)
    assert column(engine, "SELECT state FROM train_job") == ["live"]
    (tmp_path / "unmounted").rename(base_dir)
    tick_until(lambda: open_problems(engine) == [], follower)
    assert column(engine, "SELECT state FROM log_file") == ["open"]


def test_a_base_dir_that_comes_into_being_later_is_followed(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    base_dir.rmdir()
    follower = follow()
    follower.tick()
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    tick_until(lambda: visible_scalars(engine) == {1: 0.5}, follower)


def test_a_database_that_is_away_is_waited_for(sqlite_url: str, base_dir: Path) -> None:
    engine = open_engine(sqlite_url)
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    follower = Follower(engine, base_dir, Settings(**EAGER))
    store = Path(sqlite_url.removeprefix("sqlite:///"))
    store.rename(store.with_suffix(".away"))
    follower.tick()
    engine.dispose()
    store.with_suffix(".away").replace(store)
    tick_until(lambda: visible_scalars(engine) == {1: 0.5}, follower)
    follower.close()
    engine.dispose()


def test_a_surprise_is_logged_with_its_traceback_and_waited_out(
    follow: Callable[..., Follower],
    engine: Engine,
    base_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    follower = follow()
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", lambda _: 1 / 0)
        follower.tick()
    (failure,) = (line for line in caplog.records if line.message == "pass failed")
    assert failure.exc_info is not None
    tick_until(lambda: visible_scalars(engine) == {1: 0.5}, follower)


def test_the_history_of_passes_is_kept_in_bounds(
    follow: Callable[..., Follower], engine: Engine, base_dir: Path
) -> None:
    log = Log()
    path = log.write_summary(base_dir / "job")
    follower = follow(**EAGER, cycle_history=3)
    for step in range(6):
        log.scalar(step, "loss", 0.5).write(path)
        tick_until(lambda step=step: step in visible_scalars(engine), follower)  # type: ignore[misc]
    cycles = rows(engine, "SELECT events, files_read, samples FROM ingest_cycle")
    assert [tuple(cycle) for cycle in cycles] == [(1, 1, 1)] * 3
