"""Files that hang, crash or exhaust the reading process affect only themselves; they are left after three failures."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine

from helpers.ingesting import column, ingest, rows, tick_until
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store.config import Settings
from lineage_store.eventlog import formats
from lineage_store.eventlog.values import Value
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.operations.repair import retry
from lineage_store.worker import ReaderStuckError, ReadingFailedError, Worker

MEBIBYTE = 2**20


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker(deadline_s=60, memory_bytes=500 * MEBIBYTE)
    yield worker
    worker.close()


def test_calls_are_answered_by_another_process(worker: Worker) -> None:
    assert worker.submit(os.getpid).result() != os.getpid()
    assert worker.submit(np.arange, 100_000).result().sum() == 4_999_950_000


def test_what_a_call_raises_is_raised_here(worker: Worker) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        worker.submit(int, "x").result()
    assert worker.submit(int, "7").result() == 7


@pytest.mark.parametrize(
    ("deadline_s", "call", "argument", "reason"),
    [
        (0.5, time.sleep, 60, r"Reading took longer than 0\.5 s\."),
        (30, np.ones, 10**9, r"Reading took more than 500 MiB of memory\."),
        (30, os._exit, 3, r"The reading process was ended: exit code 3\."),
        (30, signal.raise_signal, signal.SIGSEGV, r"The reading process was ended: signal SIGSEGV\."),
        (0.5, signal.raise_signal, signal.SIGSTOP, r"Reading took longer than 0\.5 s\."),
    ],
)
def test_a_call_that_fails_the_process_says_how_and_the_next_call_has_a_new_one(
    deadline_s: float, call: Callable[[Any], Any], argument: Any, reason: str
) -> None:
    worker = Worker(deadline_s, memory_bytes=500 * MEBIBYTE)
    with pytest.raises(ReadingFailedError, match=reason):
        worker.submit(call, argument).result()
    patient = Worker(deadline_s=60, memory_bytes=500 * MEBIBYTE)
    assert patient.submit(int, "7").result() == 7
    worker.close()
    patient.close()


SLOW = """
import os, time
if os.getpid() != {pid}:
    {before}

def answer():
    return 7
"""
"""A module that does something first when it is imported by another process."""


def imported(name: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """The function of a module of this name, which the reading process finds too."""
    (tmp_path / f"{name}.py").write_text(SLOW.format(pid=os.getpid(), before=before))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    call: Callable[[], object] = importlib.import_module(name).answer
    return call


def test_a_process_that_starts_slowly_has_its_deadline_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, ready = imported("slow_to_import", "time.sleep(1.5)", tmp_path, monkeypatch), list[bool]()
    worker = Worker(1.0, 500 * MEBIBYTE, lambda: ready.append(True))
    assert worker.submit(call).result() == 7
    assert ready == [True]
    worker.close()


def test_what_an_import_takes_for_a_moment_is_not_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody may write compiled modules, each process compiles them anew."""
    call = imported("compiled_anew", "bytearray(600 * 2**20)", tmp_path, monkeypatch)
    worker = Worker(60, 500 * MEBIBYTE)
    assert worker.submit(call).result() == 7
    worker.close()


@pytest.mark.parametrize(
    ("before", "how"),
    [("os._exit(3)", "did not start: exit code 3"), ("time.sleep(60)", r"was not ready after 0\.5 s")],
)
def test_a_process_that_does_not_start_is_nobodys_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: Worker, before: str, how: str
) -> None:
    monkeypatch.setattr("lineage_store.worker.STARTS_WITHIN_S", 0.5 if "sleep" in before else 60)
    call = imported(f"never_{before[:2]}", before, tmp_path, monkeypatch)
    with pytest.raises(ReaderStuckError, match=how):
        worker.submit(call)
    monkeypatch.undo()
    assert worker.submit(int, "7").result() == 7


def test_a_process_that_crashes_leaves_nothing_of_its_memory_behind(worker: Worker) -> None:
    assert worker.submit(resource.getrlimit, resource.RLIMIT_CORE).result() == (0, 0)


def test_an_answer_that_nobody_asked_for_is_dropped(worker: Worker) -> None:
    worker.submit(int, "1")
    assert worker.submit(int, "2").result() == 2


def test_a_process_ends_with_the_one_that_started_it_though_it_is_at_work(tmp_path: Path) -> None:
    script = (
        "import os, time\nfrom lineage_store.worker import Worker\nworker = Worker(600, 500 * 2**20)\n"
        "print(worker.submit(os.getpid).result(), flush=True)\nworker.submit(sum, range(10**12))\ntime.sleep(600)"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with other:
        assert other.stdout is not None
        pid = int(other.stdout.readline())
        other.kill()
    wait_until(lambda: state_of(pid) in ("", "Z"), what="end of the reading process")


def state_of(pid: int) -> str:
    """R, S, D, T (stopped), Z (ended, and nobody has asked how); empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def test_a_process_that_cannot_be_ended_is_left_alone_and_has_no_second_beside_it(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in an uninterruptible wait looks like one that has not ended yet."""
    monkeypatch.setattr("lineage_store.worker._ENDS_WITHIN_S", 0.1)
    worker.submit(int, "7")
    process = worker._process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(process.pid) == "T")
    monkeypatch.setattr(process, "kill", lambda: None)
    with pytest.raises(ReaderStuckError, match=f"The reading process {process.pid} waits for a disk"):
        worker.close()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert worker.submit(int, "7").result() == 7


# --- a daemon with a file that fails its reader ---

SETTINGS = Settings(
    poll_interval_s=0.05, discovery_interval_s=0.05, reading_memory_bytes=100 * MEBIBYTE, lease_s=5.0
)
GOOD = Log().version().scalar(1, "loss", 0.5)


@pytest.mark.slow
def test_a_file_that_fails_its_reader_three_times_is_quarantined_and_the_others_are_read(
    sqlite_engine: Engine, base_dir: Path
) -> None:
    engine = sqlite_engine
    takes_more_memory_than_there_is = np.zeros(15 * MEBIBYTE, np.float32)
    Log().tensor(1, "weights", takes_more_memory_than_there_is).write_summary(base_dir / "glutton")
    for name in ("a", "z"):
        GOOD.write_summary(base_dir / name)
    follower = Follower(engine, base_dir, SETTINGS)
    tick_until(lambda: "quarantined" in column(engine, "SELECT state FROM log_file"), follower)
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [2]
    (problem,) = rows(
        engine, "SELECT kind, path, reason, remedy FROM ingest_problem WHERE resolved_at IS NULL"
    )
    assert (problem.kind, problem.path.split("/")[0]) == ("quarantined_file", "glutton")
    assert problem.reason == "Reading took more than 100 MiB of memory. Times in a row: 3."
    assert "lineage-store retry" in problem.remedy
    GOOD.write_summary(base_dir / "later")
    tick_until(lambda: column(engine, "SELECT count(*) FROM scalar_sample") == [3], follower)
    assert column(engine, "SELECT failed_reads FROM log_file WHERE state = 'quarantined'") == [3]
    follower.close()
    (base_dir_id,) = column(engine, "SELECT id FROM base_dir")
    retry(engine, base_dir, base_dir_id, Settings(), None)
    assert column(engine, "SELECT DISTINCT failed_reads FROM log_file") == [0]
    assert column(engine, "SELECT count(*) FROM payload_sample") == [1]
    assert column(engine, "SELECT count(*) FROM ingest_problem WHERE resolved_at IS NULL") == [0]


def test_a_file_that_the_decoder_cannot_bear_costs_itself(
    engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def decode(payload: bytes, kind: str) -> Sequence[Value]:
        if b"unbearable" in payload:
            raise ZeroDivisionError("division by zero")
        return mindspore.decode(payload, kind)

    (mindspore,) = formats.FORMATS
    monkeypatch.setattr(formats, "FORMATS", (replace(mindspore, decode=decode),))
    for name in ("a", "z"):
        GOOD.write_summary(base_dir / name)
    bad = Log().version().scalar(1, "unbearable", 1.0).write_summary(base_dir / "b")
    for _ in range(4):
        ingest(engine, base_dir)
    assert column(engine, "SELECT count(*) FROM scalar_sample") == [2]
    assert column(engine, "SELECT state FROM log_file WHERE failed_reads = 3") == ["quarantined"]
    (reason,) = column(engine, "SELECT reason FROM ingest_problem WHERE resolved_at IS NULL")
    assert reason == "Reading failed with ZeroDivisionError: division by zero. Times in a row: 3."
    assert bad.name in {getattr(record, "file", None) for record in caplog.records}


def test_a_reading_process_that_is_killed_costs_a_failed_read_at_most(engine: Engine, base_dir: Path) -> None:
    GOOD.write_summary(base_dir / "job")
    follower = Follower(engine, base_dir, SETTINGS)
    follower.tick()
    process = follower._reader._process
    assert process is not None
    stopper = threading.Thread(target=os.kill, args=(process.pid, signal.SIGKILL))
    stopper.start()
    stopper.join()
    Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25).write(
        next((base_dir / "job").glob("*_MS"))
    )
    tick_until(lambda: column(engine, "SELECT count(*) FROM scalar_sample") == [2], follower)
    assert column(engine, "SELECT failed_reads FROM log_file") == [0]
    follower.close()
