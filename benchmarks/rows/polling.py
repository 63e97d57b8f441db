"""What following costs: a look at very many finished jobs, and how soon the appends of live ones are visible.

An idle cycle is the discovery that a daemon makes when nothing is new: a `Follower`'s tick with the discovery due.
The baseline lists the base dir and looks at each job's directory once. For `live` a daemon of the command line runs
with default settings, while this process appends to every job once a second and asks the database, twenty times a
second, how far each series is; a latency is exact to that.
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
from functools import cache, partial
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, select

from benchmarks import corpora, events
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, Timed, alternate, stopwatch, timed
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest.follower import Follower
from lineage_store.store.schema import series, train_job

_ASK_EVERY_S = 0.05


def _idle(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    with _following(base_dir) as tick:
        scan = timed(partial(_scan, base_dir))
        return alternate(tick, scan, 2 * sizes.repetitions + 1, f"{sizes.jobs:,} finished jobs")


def _idle_many(sizes: Sizes) -> Samples:
    """One job in a hundred is live: its files are open and were written to just now."""
    base_dir = corpora.CACHE / "live"
    shutil.rmtree(base_dir, ignore_errors=True)
    subprocess.run(["cp", "-al", str(corpora.jobs(sizes.many_jobs)), str(base_dir)], check=True)
    directories = sorted(base_dir.iterdir())
    for directory in directories[:: len(directories) // sizes.live_jobs]:
        for path in directory.iterdir():
            content = path.read_bytes()
            path.unlink()  # a link to the corpus, which stays as it is
            path.write_bytes(content)
    try:
        with _following(base_dir) as tick:
            ticks = tuple(tick() for _ in range(2 * sizes.repetitions + 1))
    finally:
        shutil.rmtree(base_dir)
    return Samples(ticks, note=f"{sizes.many_jobs:,} jobs, {sizes.live_jobs:,} of them live")


@contextmanager
def _following(base_dir: Path) -> Iterator[Timed]:
    """A run of one idle cycle, in a store that has everything."""
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        follower = Follower(store.engine, base_dir, Settings())

        def tick() -> float:
            follower._discovery_due = 0.0  # else it comes when it is due by the settings
            with stopwatch() as seconds:
                follower.tick()
            return seconds()

        tick()
        yield tick
        follower.close()


def _scan(base_dir: Path) -> None:
    with os.scandir(base_dir) as entries:
        for entry in entries:
            os.stat(entry.path)


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
        began, before = time.monotonic(), _cpu_seconds(daemon)
        latencies = _append_and_ask(paths, store.engine, sizes.live_seconds)
        cpu = (_cpu_seconds(daemon) - before) / (time.monotonic() - began)
    shutil.rmtree(base_dir)
    return latencies, cpu


def _append_and_ask(paths: list[Path], engine: Engine, seconds: int) -> list[float]:
    """Append one event a second to each file, spread over the second, and wait until all are visible."""
    step_frames = [events.summary(step, [events.scalar("loss", 1 / step)]) for step in range(1, seconds + 1)]
    due = [(step + index / len(paths), index, step) for step in range(seconds) for index in range(len(paths))]
    jobs = {f"./{path.parent.name}": index for index, path in enumerate(paths)}
    appended = np.zeros((len(paths), seconds + 1))
    visible = np.zeros(len(paths), np.int64)
    latencies: list[float] = []
    began, asked, position = time.monotonic(), 0.0, 0
    while len(latencies) < len(due):
        now = time.monotonic()
        while position < len(due) and due[position][0] <= now - began:
            _, index, step = due[position]
            with paths[index].open("ab", buffering=0) as stream:
                stream.write(step_frames[step])
            appended[index, step + 1] = time.monotonic()
            position += 1
        if now - asked >= _ASK_EVERY_S:
            asked = now
            for train_id, last_step in _last_steps(engine):
                index = jobs[train_id]
                seen = time.monotonic()
                latencies += (seen - appended[index, visible[index] + 1 : last_step + 1]).tolist()
                visible[index] = last_step
        if now - began > 4 * seconds + 60:
            raise TimeoutError(f"{len(due) - len(latencies)} of {len(due)} appends are still invisible.")
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
        return len(connection.execute(select(train_job.c.id)).all())


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


ROWS = [
    Row(
        "idle",
        "idle cycle of a daemon, against one scandir of the base dir and a stat of each job dir",
        _idle,
        Bound(1.2),
        Bound(0.5),
    ),
    Row(
        "idle-many",
        "idle cycle of a daemon, one job in a hundred live",
        _idle_many,
        Bound(2.0),
        Bound(0.5),
        shown="figure",
        unit="s",
        group="long",
    ),
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
