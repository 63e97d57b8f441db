"""A busy machine does not make a file slow: time in which a reader is ready, and has no processor, does not count."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.ingesting import column
from helpers.log_writer import Log
from helpers.waiting import wait_until
from lineage_store import program
from lineage_store.config import Settings
from lineage_store.ingest import pipeline
from lineage_store.ingest.report import Progress
from lineage_store.program import STARVED, Limit, waited_for_cpu_s
from lineage_store.worker import ReadingFailedError, Worker

MEMORY = 500 << 20


@pytest.fixture
def starved(monkeypatch: pytest.MonkeyPatch) -> None:
    """All time is time without a processor."""
    monkeypatch.setattr(program, "waited_for_cpu_s", lambda _=None: time.monotonic())


@contextmanager
def busy_on_one_cpu(count: int) -> Iterator[list[int]]:
    """Processes that share one processor; yield their ids."""
    cpu = min(os.sched_getaffinity(0))
    loop = f"import os; os.sched_setaffinity(0, [{cpu}])\nwhile True: pass"
    with ExitStack() as stack:
        loops = [
            stack.enter_context(subprocess.Popen([sys.executable, "-S", "-c", loop])) for _ in range(count)
        ]
        for each in loops:
            stack.callback(each.kill)
        yield [each.pid for each in loops]


def test_a_process_that_shares_its_processor_waits_for_it() -> None:
    with busy_on_one_cpu(2) as (first, second):
        wait_until(lambda: min(waited_for_cpu_s(first), waited_for_cpu_s(second)) > 0.2)


def test_a_sleep_is_no_wait_for_a_processor() -> None:
    limit = Limit(0.01)
    time.sleep(0.1)
    assert limit.own_s() > 0.01
    assert limit.left_s() <= 0


def test_a_process_that_is_gone_waits_for_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    assert waited_for_cpu_s(gone.pid) == 0.0


def test_a_limit_that_is_starved_lasts_longer_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waited = 1000.0, 7.0
    monkeypatch.setattr("lineage_store.program.time.monotonic", lambda: now)
    monkeypatch.setattr(program, "waited_for_cpu_s", lambda _=None: waited)
    limit = Limit(2.0)
    now, waited = 1003.0, 9.5
    assert (limit.own_s(), limit.left_s()) == (0.5, 1.5)
    now, waited = 1004.0, 9.5
    assert limit.left_s() == 0.5
    now, waited = 1000.0 + 2.0 * STARVED, 7.0 + 2.0 * STARVED
    assert limit.left_s() <= 0


def test_a_batch_is_not_cut_because_others_had_the_processor(
    starved: None, engine: Engine, base_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_late(*arguments: Any, read: Callable[..., bytes] = os.pread) -> bytes:
        time.sleep(0.03)
        return read(*arguments)

    for number in range(4):
        Log().scalar(1, "loss", 0.5).write_summary(base_dir / f"{number}")
    seen = list[Progress]()
    monkeypatch.setattr(os, "pread", read_late)
    pipeline.ingest(engine, base_dir, Settings(reading_deadline_s=0.5), progress=seen.append)
    assert [progress.files_waiting for progress in seen] == [0]
    assert len(column(engine, "SELECT value FROM scalar_sample")) == 4


def test_a_reading_process_is_not_given_up_while_it_has_no_processor(starved: None) -> None:
    worker = Worker(0.2, MEMORY)
    assert worker.submit(time.sleep, 0.5).result() is None
    worker.close()


def test_a_reading_process_is_given_up_in_the_end_however_busy_the_machine_is(starved: None) -> None:
    worker = Worker(0.1, MEMORY, longest_s=0.3)
    with pytest.raises(ReadingFailedError, match=r"Reading took longer than 0\.1 s\."):
        worker.submit(time.sleep, 600).result()
    worker.close()
