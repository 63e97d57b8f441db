"""The watchdog: clocks that are set, followers that make no progress, and what systemd is sent."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import apscheduler.schedulers.base
import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from helpers.following_daemon import following_here
from helpers.ingesting import visible_scalars
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import ExitCode
from lineage_store.ingest.daemon import scheduler, status_file, watchdog
from lineage_store.ingest.daemon.scheduler import notify
from lineage_store.ingest.daemon.watchdog import ClockWatch, Pulse, StandstillWatch
from lineage_store.store.database.db import identity

EAGER: dict[str, Any] = {"poll_interval_s": 0.05, "discovery_interval_s": 0.05, "lease_s": 1.0}
TWO_HOURS_S = 7200.0


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


# --- clocks ---


@pytest.mark.parametrize("step", [-TWO_HOURS_S, TWO_HOURS_S, -31_536_000.0])
def test_a_clock_that_was_set_is_seen_once(step: float) -> None:
    wall, monotonic = Hand(), Hand()
    watch = ClockWatch(1.0, wall, monotonic)
    wall.now += 10 + step
    monotonic.now += 10
    assert watch.moved_s() == step
    assert watch.moved_s() == 0.0


def test_a_clock_that_runs_a_little_wrong_is_left_alone() -> None:
    wall, monotonic = Hand(), Hand()
    watch = ClockWatch(1.0, wall, monotonic)
    wall.now += 10.5
    monotonic.now += 10
    assert watch.moved_s() == 0.0


class SteppedClock(datetime):
    """The clock that APScheduler looks at, as it was set."""

    step = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + cls.step


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the wall clock of APScheduler, of the daemon and of the guard."""
    monkeypatch.setattr(SteppedClock, "step", timedelta())
    monkeypatch.setattr(apscheduler.schedulers.base, "datetime", SteppedClock)
    monkeypatch.setattr(scheduler, "datetime", SteppedClock)
    watch = ClockWatch.__init__

    def stepped() -> float:
        return time.time() + SteppedClock.step.total_seconds()

    monkeypatch.setattr(ClockWatch, "__init__", lambda self, tolerance_s: watch(self, tolerance_s, stepped))
    monkeypatch.setattr(scheduler, "LOOK_EVERY_S", 0.1)

    def step(seconds: float) -> None:
        SteppedClock.step += timedelta(seconds=seconds)

    return step


@contextmanager
def following(url: str, base_dir: Path) -> Iterator[None]:
    with LineageStore(url, settings=Settings(**EAGER)) as store, following_here(store, base_dir):
        yield


@pytest.mark.parametrize("step", [-TWO_HOURS_S, TWO_HOURS_S])
def test_ingest_goes_on_when_the_clock_is_set(
    sqlite_engine: Engine, sqlite_url: str, base_dir: Path, set_clock: Callable[[float], None], step: float
) -> None:
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "job")
    with following(sqlite_url, base_dir):
        wait_until(lambda: visible_scalars(sqlite_engine) == {1: 0.5})
        set_clock(step)
        log.scalar(2, "loss", 0.25).write(path)
        wait_until(lambda: visible_scalars(sqlite_engine) == {1: 0.5, 2: 0.25})


def test_without_the_guard_a_clock_that_is_set_back_stops_ingest(
    sqlite_engine: Engine,
    sqlite_url: str,
    base_dir: Path,
    set_clock: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "_wake", lambda _: None)
    log = Log().scalar(1, "loss", 0.5)
    path = log.write_summary(base_dir / "job")
    with following(sqlite_url, base_dir):
        wait_until(lambda: visible_scalars(sqlite_engine) == {1: 0.5})
        set_clock(-TWO_HOURS_S)
        time.sleep(0.5)  # ticks that were due already
        log.scalar(2, "loss", 0.25).write(path)
        time.sleep(2.0)
        assert visible_scalars(sqlite_engine) == {1: 0.5}


def test_a_clock_set_forward_by_decades_makes_up_for_nothing() -> None:
    trigger, now = scheduler._Every(lambda: 0.05), datetime.now().astimezone()
    assert trigger.get_next_fire_time(now - timedelta(days=20_000), now) == now + timedelta(seconds=0.05)


# --- progress ---


def test_a_pulse_that_does_not_beat_is_seen_after_the_deadline() -> None:
    monotonic, lively, still = Hand(), Pulse("lively"), Pulse("still")
    watch = StandstillWatch([lively, still], 3.0, monotonic)
    seen = []
    for _ in range(5):
        monotonic.now += watchdog.LOOK_EVERY_S
        lively.beat()
        seen.append(watch.look())
    assert seen == [None, None, None, still, still]
    still.beat()
    assert watch.look() is None


def test_time_in_which_the_process_did_not_run_is_no_standstill() -> None:
    monotonic, pulse = Hand(), Pulse("stopped with the rest")
    watch = StandstillWatch([pulse], 60.0, monotonic)
    monotonic.now += TWO_HOURS_S
    assert watch.look() is None


def test_all_have_beaten_only_when_each_has_again() -> None:
    one, two = Pulse("one"), Pulse("two")
    watch = StandstillWatch([one, two], 60.0)
    one.beat()
    watch.look()
    assert not watch.all_have_beaten()
    two.beat()
    watch.look()
    assert watch.all_have_beaten()
    watch.look()
    assert not watch.all_have_beaten()


DAEMON = """
import os, sys, time
from functools import partial
from lineage_store import LineageStore, program
from lineage_store.config import Settings
from lineage_store.ingest.daemon import scheduler, watchdog
url, hung, *base_dirs = sys.argv[1:]
others = {base_dir for base_dir in base_dirs if base_dir != hung}
scandir, beat, now, beaten = os.scandir, watchdog.Pulse.beat, 0.0, set()

def hangs():
    return os.path.exists(os.path.join(hung, "hang"))

def hang(of):
    path = os.readlink(f"/proc/self/fd/{of}") if isinstance(of, int) else str(of)
    while hangs() and path.startswith(hung):
        time.sleep(0.05)
    return scandir(of)

def noted(pulse):
    beat(pulse)
    beaten.add(pulse.name)

def clock():
    global now
    if hangs() and others <= beaten:
        now += watchdog.LOOK_EVERY_S
        beaten.clear()
    return now

os.scandir, watchdog.Pulse.beat = hang, noted
scheduler.StandstillWatch = partial(watchdog.StandstillWatch, monotonic=clock)
scheduler.READING_ENDS_WITHIN_S = scheduler.STOPS_WITHIN_S = float(os.environ["STOPS_WITHIN_S"])
program.configure("info", "json")
patience_s = float(os.environ["PATIENCE_S"])
settings = Settings(poll_interval_s=0.05, discovery_interval_s=0.05, reading_deadline_s=patience_s,
    progress_deadline_s=patience_s)
LineageStore(url, settings=settings).run_daemon(base_dirs)
"""
"""A daemon for which listing a base dir hangs as long as the file `hang` is in it.

On a busy machine a thread may wait for its turn for as long as a base dir is given, so the watchdog's clock counts no
seconds: it runs only while the base dir hangs, and only as the other base dirs make progress.
"""


@contextmanager
def running(url: str, hung: Path, *base_dirs: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", DAEMON, url, str(hung), *map(str, base_dirs)]
    settings = {**os.environ, "PATIENCE_S": "5", "STOPS_WITHIN_S": "0.5", **environment}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=settings) as process:
        try:
            yield process
        finally:
            process.kill()


def log_lines(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    assert process.stderr is not None
    return [json.loads(line) for line in process.stderr if line.startswith("{")]


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    """A base dir that cannot be listed for as long as `hang` is in it."""
    (tmp_path / "hung").mkdir()
    (tmp_path / "hung" / "hang").touch()
    return tmp_path / "hung"


@pytest.mark.slow
def test_a_base_dir_that_hangs_ends_the_process_and_the_others_were_read(
    sqlite_engine: Engine, sqlite_url: str, base_dir: Path, hung: Path
) -> None:
    Log().scalar(1, "loss", 0.5).write_summary(base_dir / "job")
    Log().scalar(1, "other", 0.5).write_summary(hung / "job")
    with running(sqlite_url, hung, hung, base_dir) as process:
        lines = log_lines(process)
        assert process.wait() == ExitCode.STANDSTILL
    assert visible_scalars(sqlite_engine) == {1: 0.5}
    (end,) = (line for line in lines if line["message"] == "standstill")
    assert end["base_dir"] == str(hung)
    assert f"no progress in {hung} since " in end["reason"]
    with running(sqlite_url, hung, hung, base_dir, PATIENCE_S="600"):
        (hung / "hang").unlink()
        wait_until(lambda: visible_scalars(sqlite_engine, "other") == {1: 0.5})


@pytest.mark.slow
def test_a_base_dir_that_hangs_is_in_the_daemons_status_file_before_and_after_its_end(
    sqlite_url: str, base_dir: Path, hung: Path
) -> None:
    def told() -> dict[str, str]:
        statuses = status_file.read_statuses(identity(make_url(sqlite_url)))
        return {
            each.base_dir: f"{each.title}: {each.finding.what if each.finding else ''}" for each in statuses
        }

    with running(sqlite_url, hung, hung, base_dir) as process:
        wait_until(lambda: told().get(str(hung), "").startswith("no progress: "))
        assert told()[str(base_dir)] == "active: "
        assert process.wait() == ExitCode.STANDSTILL
    reason = (
        f"ended: The daemon that followed it, process {process.pid}, has ended: no progress in {hung} since "
    )
    assert all(each.startswith(reason) for each in told().values())
    with running(sqlite_url, hung, base_dir):
        wait_until(lambda: told() == {str(base_dir): "active: "})


def test_what_hangs_when_it_is_told_to_stop_is_not_waited_for_for_ever(
    sqlite_url: str, base_dir: Path, hung: Path
) -> None:
    with running(sqlite_url, hung, hung) as process:
        assert process.stderr is not None
        while '"lease acquired"' not in process.stderr.readline():
            assert process.poll() is None
        process.terminate()
        assert process.wait() == ExitCode.STANDSTILL


# --- systemd ---


@pytest.fixture(params=["path", "abstract"])
def service_manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    """The name of a socket as $NOTIFY_SOCKET has it, and the socket."""
    path = str(tmp_path / "notify")
    name = path if request.param == "path" else f"@lineage_store_test_{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0", 1))
        listening.settimeout(60)
        yield name, listening


def test_systemd_is_told_in_one_datagram(service_manager: tuple[str, socket.socket]) -> None:
    name, listening = service_manager
    assert notify("READY=1", "STATUS=one\ntwo", environment={"NOTIFY_SOCKET": name})
    assert listening.recv(1000) == b"READY=1\nSTATUS=one two"


def test_without_systemd_nothing_is_told(tmp_path: Path) -> None:
    assert not notify("READY=1", environment={})
    assert not notify("READY=1", environment={"NOTIFY_SOCKET": str(tmp_path / "none")})


@pytest.mark.parametrize("service_manager", ["path"], indirect=True)
def test_the_daemon_tells_systemd_what_it_does(
    sqlite_url: str, base_dir: Path, hung: Path, service_manager: tuple[str, socket.socket]
) -> None:
    name, listening = service_manager
    (hung / "hang").unlink()
    with running(sqlite_url, hung, hung, NOTIFY_SOCKET=name) as process:
        told = [listening.recv(1000).decode()]
        while told.count("WATCHDOG=1") < 2:
            told.append(listening.recv(1000).decode())
        assert told[0] == "READY=1"
        assert "STATUS=1 active" in told
        (hung / "hang").touch()  # no progress, no watchdog
        Log().scalar(1, "loss", 0.5).write_summary(hung / "job")
        last = ""
        while not last.startswith("STATUS=Ended"):
            told.append(last)
            last = listening.recv(1000).decode()
        assert f"no progress in {hung}" in last
        assert process.wait() == ExitCode.STANDSTILL


@pytest.mark.parametrize("service_manager", ["path"], indirect=True)
def test_the_daemon_tells_systemd_that_it_stops(
    sqlite_url: str, base_dir: Path, hung: Path, service_manager: tuple[str, socket.socket]
) -> None:
    name, listening = service_manager
    with running(sqlite_url, hung, base_dir, NOTIFY_SOCKET=name, STOPS_WITHIN_S="60") as process:
        assert listening.recv(1000) == b"READY=1"
        process.terminate()
        while listening.recv(1000) != b"STOPPING=1":
            pass
        assert process.wait() == 0
