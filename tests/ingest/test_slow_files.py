"""Only slow files wait: others are read meanwhile, and jobs that took more than their share of time are read last."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, open_problems, rows, tick_until
from helpers.known_files import unread
from helpers.log_writer import Log
from lineage_store.config import Settings
from lineage_store.eventlog.mindspore import filenames
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.ingest.read.batch import Cost, share_out
from lineage_store.ingest.read.queue import Turns
from lineage_store.store.records import KnownFile

EAGER: dict[str, Any] = {"poll_interval_s": 0.05, "discovery_interval_s": 0.05, "lease_s": 5.0}
NAME = filenames.compose("events", 1_700_000_000, 0, "host", "_MS")
HANGING = """
import os, time

def pread(descriptor, length, position, read=os.pread):
    while "hangs" in os.readlink(f"/proc/self/fd/{descriptor}"):
        time.sleep(3600)
    return read(descriptor, length, position)

os.pread = pread
"""
"""Lets a reading process hang in jobs of this name."""


@pytest.fixture
def follow(sqlite_engine: Engine, base_dir: Path) -> Iterator[Callable[..., Follower]]:
    """A follower of the base dir."""
    followers: list[Follower] = []

    def start(should_stop: Callable[[], bool] = lambda: False, **settings: Any) -> Follower:
        followers.append(Follower(sqlite_engine, base_dir, Settings(**EAGER, **settings), should_stop))
        return followers[-1]

    yield start
    for follower in followers:
        follower.close()


@pytest.fixture
def hanging_jobs(tmp_path: Path, base_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three jobs whose files hang whoever reads them."""
    (tmp_path / "sitecustomize.py").write_text(HANGING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    for number in range(3):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"hangs_{number}")


def steps_of(engine: Engine, job: str) -> int:
    (found,) = column(engine, "SELECT count(*) FROM v_scalar WHERE train_id = :job", job=job)
    return int(found)


@pytest.mark.usefixtures("hanging_jobs")
def test_jobs_grow_in_sql_while_files_hang_for_ever(
    follow: Callable[..., Follower], sqlite_engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "honest")
    follower = follow(slow_reading_s=0.5, reading_deadline_s=3600)
    for step in range(2, 6):
        tick_until(lambda: steps_of(sqlite_engine, "./honest") == step - 1, follower)  # noqa: B023
        log.scalar(step, "loss", 0.5).write(path)
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "later")
    tick_until(lambda: steps_of(sqlite_engine, "./honest") == 5, follower)
    tick_until(lambda: steps_of(sqlite_engine, "./later") == 1, follower)
    assert column(sqlite_engine, "SELECT DISTINCT failed_reads FROM log_file") == [0]


@pytest.mark.usefixtures("hanging_jobs")
@pytest.mark.slow
def test_files_that_exceed_the_deadline_are_told_by_name_one_after_the_other(
    follow: Callable[..., Follower], sqlite_engine: Engine, base_dir: Path
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "honest")
    follower = follow(slow_reading_s=0.3, reading_deadline_s=0.5)
    tick_until(lambda: len(open_problems(sqlite_engine)) == 3, follower)
    assert open_problems(sqlite_engine) == [
        ("quarantined_file", f"hangs_{number}/{NAME}") for number in range(3)
    ]
    reasons = {row.reason for row in rows(sqlite_engine, "SELECT reason FROM ingest_problem")}
    assert all("Reading took longer than 0.5 s." in reason for reason in reasons)
    assert steps_of(sqlite_engine, "./honest") == 1


@pytest.mark.slow
def test_growth_is_read_before_the_backlog_that_was_found_before_it(
    follow: Callable[..., Follower], sqlite_engine: Engine, base_dir: Path
) -> None:
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "honest")
    follower, asked = follow(), iter(range(10**6))
    tick_until(lambda: steps_of(sqlite_engine, "./honest") == 1, follower)
    follower.close()
    for number in range(300):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"backlog_{number}")

    def grow() -> bool:
        if next(asked) == 3:
            log.scalar(2, "loss", 0.5).write(path)
        return False

    follower = follow(should_stop=grow, batch_files=1)
    tick_until(lambda: len(column(sqlite_engine, "SELECT step FROM scalar_sample")) == 302, follower)
    by_revision = column(sqlite_engine, "SELECT train_id FROM train_job ORDER BY revision")
    assert by_revision.index("./honest") < 300


def test_several_files_that_are_damaged_everywhere_are_told_together(engine: Engine, base_dir: Path) -> None:
    for number in range(3):
        log = Log()
        for step in range(9):
            log.frame(b"\xff").scalar(step, "loss", 0.5)
        log.write_summary(base_dir / f"riddled_{number}")
    ingest(engine, base_dir, most_damages=5)
    assert column(engine, "SELECT state FROM log_file") == ["quarantined"] * 3
    assert [kind for kind, _ in open_problems(engine)].count("heavily_damaged_file") == 3


# --- whose turn it is ---


def file_of(job: str, number: int = 0) -> KnownFile:
    name = filenames.compose("events", 1_700_000_000 + number, 0, "host", "_MS")
    return unread(name, train_id=job, number=number + 1, job_id=hash(job) % 2**31)


def order_of(turns: Turns) -> list[str]:
    taken = []
    while batch := turns.take(100):
        taken += [each.file.train_id for each in batch]
    return taken


def test_little_is_read_before_much_and_equal_ones_in_turn() -> None:
    turns = Turns(Settings(), fair=True)
    for job, pending in (("./vast", 2**40), ("./b", 100), ("./large", 2**24), ("./a", 500)):
        turns.add(file_of(job), pending)
    assert [each.file.train_id for each in turns.take(10)] == ["./b", "./a"]
    assert order_of(turns) == ["./large", "./vast"]


def test_who_took_more_than_their_time_waits_for_all_others_and_the_least_of_those_first() -> None:
    turns = Turns(Settings(job_reading_s=2.0), fair=True)
    for job, seconds in (("./most", 30.0), ("./much", 9.0), ("./little", 1.0)):
        turns.charge(job, Cost(2**20, seconds))
    for job in ("./most", "./much", "./little", "./unknown"):
        turns.add(file_of(job), 100 if job == "./most" else 2**30)
    assert order_of(turns) == ["./little", "./unknown", "./much", "./most"]


def test_of_who_is_slow_less_is_taken_at_once() -> None:
    turns = Turns(Settings(job_reading_s=100.0), fair=True)
    turns.charge("./slow", Cost(2**20, 10.0))
    turns.charge("./quick", Cost(2**20, 0.01))
    for job in ("./slow", "./quick", "./unknown"):
        turns.add(file_of(job), 100)
    most = {each.file.train_id: each.most_bytes for each in turns.take(10)}
    assert most["./slow"] < most["./unknown"] < most["./quick"] == Settings().chunk_bytes


def test_without_shares_files_go_as_they_came_a_chunk_each() -> None:
    turns = Turns(Settings(), fair=False)
    turns.charge("./a", Cost(2**20, 1000.0))
    for job, pending in (("./a", 2**40), ("./b", 1)):
        turns.add(file_of(job), pending)
    taken = turns.take(10)
    assert [(each.file.train_id, each.most_bytes) for each in taken] == [
        ("./a", Settings().chunk_bytes),
        ("./b", Settings().chunk_bytes),
    ]


@given(st.integers(0, 2**32))
def test_no_file_is_lost_or_has_two_turns(seed: int) -> None:
    chance, turns = random.Random(seed), Turns(Settings(), fair=True)
    files = [file_of(f"./{number % 7}", number) for number in range(30)]
    for file in files:
        turns.add(file, chance.randrange(2**20))
    seen: list[KnownFile] = []
    while taken := turns.take(chance.randrange(1, 9)):
        kept = chance.randrange(len(taken) + 1)
        turns.put_back(taken[kept:])
        seen += [each.file for each in taken[:kept]]
        turns.done(each.file for each in taken[:kept])
        turns.charge(f"./{chance.randrange(7)}", Cost(chance.randrange(2**20), chance.random() * 9))
    assert sorted(seen) == sorted(files)
    assert not any((file.train_id, file.name) in turns for file in files)


def test_what_reading_together_took_is_shared_out_by_bytes() -> None:
    costs: dict[str, Cost] = {}
    share_out(costs, [("./c", 0)], 4.0)
    share_out(costs, [("./a", 30), ("./b", 10), ("./a", 0)], 4.0)
    share_out(costs, [("./b", 10)], 4.0)
    assert costs == {"./a": Cost(30, 3.0), "./b": Cost(20, 5.0), "./c": Cost(0, 0.0)}
