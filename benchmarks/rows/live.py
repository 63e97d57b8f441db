"""How soon the appends of live jobs are visible, and the CPU time of following them.

A daemon of the command line runs with default settings, while this process appends to every job once a second and
queries the last step of each series twenty times a second, which limits the precision. Both share the machine's CPUs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, func, select

from benchmarks import corpora, events
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, cpu_seconds
from lineage_store import LineageStore
from lineage_store.store.schema.tables import base_dir, series, train_job

_ASK_EVERY_S = 0.05


def _live_latency(sizes: Sizes) -> Samples:
    latencies, _ = _live(sizes)
    median, worst = statistics.median(latencies), max(latencies)
    note = f"{sizes.live_jobs:,} jobs, {len(latencies):,} appends; median {median:.2f} s, worst {worst:.2f} s"
    return Samples((float(np.percentile(latencies, 99)),), note=note)


def _live_cpu(sizes: Sizes) -> Samples:
    _, cpu = _live(sizes)
    return Samples((100 * cpu,), note=f"{sizes.live_jobs:,} jobs, {sizes.live_seconds} s")


@cache
def _live(sizes: Sizes) -> tuple[list[float], float]:
    """Return the latencies of all appends in seconds, and the share of one core that the daemon used meanwhile."""
    with (
        live_jobs("appended", sizes.live_jobs) as paths,
        fresh("sqlite") as url,
        LineageStore(url) as store,
        _daemon(url, paths[0].parents[1], store.engine, len(paths)) as daemon,
    ):
        began, before = time.monotonic(), cpu_of_daemon(daemon)
        latencies = append_and_ask(paths, store.engine, sizes.live_seconds)
        return latencies, (cpu_of_daemon(daemon) - before) / (time.monotonic() - began)


@contextmanager
def live_jobs(name: str, count: int) -> Iterator[list[Path]]:
    """Create a base dir of jobs that have only begun; yield their log files."""
    directory = corpora.CACHE / name
    shutil.rmtree(directory, ignore_errors=True)
    jobs = [directory / f"run_{number:04d}" for number in range(count)]
    paths = [corpora.write_log(job, "_MS", [events.version()]) for job in jobs]
    for path in paths:
        path.chmod(0o600)
        os.utime(path)
    yield paths
    shutil.rmtree(directory)


def append_and_ask(paths: list[Path], engine: Engine, seconds: int) -> list[float]:
    """Append one event per second to each file, spread over the second; return how long each took to be visible."""
    frames = [events.summary(step, [events.scalar("loss", 1 / step)]) for step in range(1, seconds + 1)]
    jobs = {f"./{path.parent.name}": index for index, path in enumerate(paths)}
    appended, visible = np.zeros((len(paths), seconds)), np.zeros(len(paths), np.int64)
    latencies: list[float] = []
    began, asked, position = time.monotonic(), 0.0, 0
    while len(latencies) < appended.size:
        now = time.monotonic()
        if now - began > 4 * seconds + 60:
            raise TimeoutError(
                f"{appended.size - len(latencies)} of {appended.size} appends are still invisible."
            )
        while position < min(appended.size, (now - began) * len(paths)):
            step_index, index = divmod(position, len(paths))
            with paths[index].open("ab", buffering=0) as stream:
                stream.write(frames[step_index])
            appended[index, step_index] = time.monotonic()
            position += 1
        if now - asked >= _ASK_EVERY_S:
            asked = now
            for train_id, last_step in _last_steps(engine, paths[0].parents[1]):
                index = jobs[train_id]
                latencies += (time.monotonic() - appended[index, visible[index] : last_step]).tolist()
                visible[index] = last_step
        time.sleep(0.002)
    return latencies


def _last_steps(engine: Engine, path: Path) -> list[tuple[str, int]]:
    here = select(base_dir.c.id).where(base_dir.c.path == str(path)).scalar_subquery()
    query = select(train_job.c.train_id, series.c.last_step).join(series, series.c.job_id == train_job.c.id)
    query = query.where(train_job.c.base_dir_id == here)
    with engine.connect() as connection:
        return [(row.train_id, row.last_step) for row in connection.execute(query)]


@contextmanager
def _daemon(url: str, base_dir: Path, engine: Engine, job_count: int) -> Iterator[int]:
    """Start a daemon, wait until it knows all jobs, and yield its process id."""
    environment = os.environ | {"LINEAGE_STORE_DATABASE_URL": url}
    script = "from lineage_store.cli import main; main()"
    command = [sys.executable, "-W", "ignore", "-c", script, "daemon", str(base_dir)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as daemon:
        try:
            await_jobs(engine, job_count, lambda: daemon.poll() is None)
            time.sleep(2)
            yield daemon.pid
        finally:
            daemon.terminate()


def await_jobs(engine: Engine, count: int, is_well: Callable[[], bool], within_s: float = 60) -> None:
    """Wait until a store has `count` jobs."""
    deadline, query = time.monotonic() + within_s, select(func.count()).select_from(train_job)
    while True:
        with engine.connect() as connection:
            if connection.execute(query).scalar_one() >= count:
                return
        if not is_well() or time.monotonic() > deadline:
            raise RuntimeError("The daemon does not find the jobs.")
        time.sleep(0.1)


def cpu_of_daemon(process: int) -> float:
    """Return the CPU seconds of a daemon and its reading processes so far."""
    return sum(map(cpu_seconds, processes(process)))


def processes(process: int) -> list[int]:
    """Return the ids of a process and its children."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    return [process, *(int(child) for path in children for child in path.read_text().split())]


ROWS = [
    Row(
        "live-latency",
        "append → visible in SQL, one event a second and job, p99",
        _live_latency,
        Bound(3.0),
        Bound(1.0),
        shown="figure",
        unit="s",
    ),
    Row(
        "live-cpu",
        "the daemon's CPU meanwhile, of one core",
        _live_cpu,
        Bound(35),
        Bound(15),
        shown="figure",
        unit="%",
    ),
]
