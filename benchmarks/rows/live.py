"""How soon the appends of live jobs are visible, and what following them costs.

A daemon of the command line runs with default settings, while this process appends to every job once a second and asks
the database, twenty times a second, how far each series is; a latency is exact to that. Both share the machine's CPUs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, func, select

from benchmarks import corpora, events
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, cpu_seconds
from lineage_store import LineageStore
from lineage_store.store.schema.tables import series, train_job

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
    """Latencies of all appends in seconds, and the share of one core that the daemon took meanwhile."""
    base_dir = corpora.CACHE / "appended"
    shutil.rmtree(base_dir, ignore_errors=True)
    names = [f"run_{number:04d}" for number in range(sizes.live_jobs)]
    paths = [corpora.write_log(base_dir / name, "_MS", [events.version()]) for name in names]
    for path in paths:
        path.chmod(0o600)
        os.utime(path)
    with (
        fresh("sqlite") as url,
        LineageStore(url) as store,
        _daemon(url, base_dir, store.engine, len(names)) as daemon,
    ):
        began, before = time.monotonic(), cpu_of_daemon(daemon)
        latencies = _append_and_ask(paths, store.engine, sizes.live_seconds)
        cpu = (cpu_of_daemon(daemon) - before) / (time.monotonic() - began)
    shutil.rmtree(base_dir)
    return latencies, cpu


def _append_and_ask(paths: list[Path], engine: Engine, seconds: int) -> list[float]:
    """Append one event a second to each file, spread over the second, and wait until all are visible."""
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
            for train_id, last_step in _last_steps(engine):
                index = jobs[train_id]
                latencies += (time.monotonic() - appended[index, visible[index] : last_step]).tolist()
                visible[index] = last_step
        time.sleep(0.002)
    return latencies


def _last_steps(engine: Engine) -> list[tuple[str, int]]:
    query = select(train_job.c.train_id, series.c.last_step).join(series, series.c.job_id == train_job.c.id)
    with engine.connect() as connection:
        return [(row.train_id, row.last_step) for row in connection.execute(query)]


@contextmanager
def _daemon(url: str, base_dir: Path, engine: Engine, job_count: int) -> Iterator[int]:
    """The process id of a daemon that knows all the jobs."""
    environment = os.environ | {"LINEAGE_STORE_DATABASE_URL": url}
    script = "from lineage_store.cli import main; main()"
    command = [sys.executable, "-W", "ignore", "-c", script, "daemon", str(base_dir)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as daemon:
        try:
            deadline = time.monotonic() + 60
            while _job_count(engine) < job_count:
                if daemon.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("The daemon does not find the jobs.")
                time.sleep(0.1)
            time.sleep(2)
            yield daemon.pid
        finally:
            daemon.terminate()


def _job_count(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(train_job)).scalar_one()


def cpu_of_daemon(process: int) -> float:
    """CPU seconds of a daemon and its reading processes so far."""
    children = Path(f"/proc/{process}/task").glob("*/children")
    processes = [process, *(int(child) for path in children for child in path.read_text().split())]
    return sum(map(cpu_seconds, processes))


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
