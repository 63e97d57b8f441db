"""A backlog on a busy machine: a daemon against `ingest`, each beside two busy loops, which take both cores.

Both are processes of the command line with default settings and a new store. The jobs have histograms, so that reading
a file takes as long as it does for real trainings; they were written a moment ago and are not closed, so that the
daemon looks at them again and again while it reads. It has read the backlog when no byte is pending.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from sqlalchemy import Engine, func, select

from benchmarks import corpora
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes
from benchmarks.rows.live import cpu_of_daemon
from lineage_store import LineageStore
from lineage_store.store.schema.tables import log_file, train_job

BUSY_LOOPS = 2
_ASK_EVERY_S = 0.5
_LONGEST_S = 3600.0
_Spent = tuple[float, float]
"""Seconds by the clock on the wall, and of CPU."""


def _wall(sizes: Sizes) -> Samples:
    return _samples(sizes, 0)


def _cpu(sizes: Sizes) -> Samples:
    return _samples(sizes, 1)


def _samples(sizes: Sizes, which: int) -> Samples:
    runs = _runs(sizes)
    ours, baseline = (tuple(run[side][which] for run in runs) for side in (0, 1))
    return Samples(ours, baseline, f"{2 * sizes.backlog_jobs:,} files of {sizes.backlog_jobs:,} jobs")


@cache
def _runs(sizes: Sizes) -> list[tuple[_Spent, _Spent]]:
    """What the daemon and the ingest spent, run after run."""
    with _just_written(sizes.backlog_jobs) as base_dir, _busy_loops():
        rounds = [(_ingest(base_dir, sizes), _daemon(base_dir, sizes)) for _ in range(sizes.backlog_runs)]
    return [(ours, baseline) for baseline, ours in rounds]


@contextmanager
def _just_written(count: int) -> Iterator[Path]:
    base_dir = corpora.CACHE / "backlog"
    shutil.rmtree(base_dir, ignore_errors=True)
    shutil.copytree(corpora.monitored_jobs(count), base_dir, copy_function=shutil.copyfile)
    for path in base_dir.glob("*/*"):
        path.chmod(0o600)
    yield base_dir
    shutil.rmtree(base_dir)


@contextmanager
def _busy_loops() -> Iterator[None]:
    with ExitStack() as loops:
        for _ in range(BUSY_LOOPS):
            loop = loops.enter_context(subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]))
            loops.callback(loop.kill)
        yield


@contextmanager
def _program(url: str, verb: str, base_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"LINEAGE_STORE_DATABASE_URL": url}
    script = "from lineage_store.cli import main; main()"
    command = [sys.executable, "-W", "ignore", "-c", script, verb, str(base_dir)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as program:
        yield program


def _ingest(base_dir: Path, sizes: Sizes) -> _Spent:
    with fresh("sqlite") as url:
        began, before = time.monotonic(), _cpu_of_children()
        with _program(url, "ingest", base_dir) as program:
            program.wait()
        spent = time.monotonic() - began, _cpu_of_children() - before
        with LineageStore(url) as store:
            assert _is_read(store.engine, sizes)
    return spent


def _daemon(base_dir: Path, sizes: Sizes) -> _Spent:
    with fresh("sqlite") as url, LineageStore(url) as store:
        began = time.monotonic()
        with _program(url, "daemon", base_dir) as program:
            try:
                _await(lambda: _is_read(store.engine, sizes), program)
                return time.monotonic() - began, cpu_of_daemon(program.pid)
            finally:
                program.terminate()


def _await(is_read: Callable[[], bool], daemon: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _LONGEST_S
    while not is_read():
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("The daemon does not read the backlog.")
        time.sleep(_ASK_EVERY_S)


def _is_read(engine: Engine, sizes: Sizes) -> bool:
    jobs = select(func.count()).select_from(train_job)
    files = select(func.count()).select_from(log_file)
    read = log_file.c.stat_stamp.is_not(None) & (log_file.c.byte_offset == log_file.c.size_bytes)
    with engine.connect() as connection:
        counted = [connection.execute(query).scalar_one() for query in (jobs, files.where(read))]
    return counted == [sizes.backlog_jobs, 2 * sizes.backlog_jobs]


def _cpu_of_children() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


_WHAT = "a backlog read by a daemon beside two busy loops, against ingest beside them"

ROWS = [
    Row("backlog", f"{_WHAT}: on the wall", _wall, Bound(1.5), Bound(1.2)),
    Row("backlog-cpu", f"{_WHAT}: CPU", _cpu, Bound(1.5), Bound(1.2)),
]
