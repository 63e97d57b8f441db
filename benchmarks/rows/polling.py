"""The cost of polling very many finished jobs.

An idle cycle is a daemon's discovery when nothing is new: a `Follower`'s tick with the discovery due. The baseline
lists the base dir and stats each job's directory once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import corpora
from benchmarks.databases import fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, Timed, alternate, stopwatch, timed
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.ingest.daemon.follower import Follower


def _idle(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    with _following(base_dir) as tick:
        scan = timed(partial(_scan, base_dir))
        return alternate(tick, scan, 2 * sizes.repetitions + 1, f"{sizes.jobs:,} finished jobs")


def _idle_many(sizes: Sizes) -> Samples:
    """Measure idle cycles with one job in a hundred live: its files are open and were just written to."""
    base_dir = corpora.CACHE / "live"
    shutil.rmtree(base_dir, ignore_errors=True)
    subprocess.run(["cp", "-al", str(corpora.jobs(sizes.many_jobs)), str(base_dir)], check=True)
    directories = sorted(base_dir.iterdir())
    for directory in directories[:: len(directories) // sizes.live_jobs]:
        for path in directory.iterdir():
            content = path.read_bytes()
            path.unlink()  # it is a link to the corpus, which must not change
            path.write_bytes(content)
    try:
        with _following(base_dir) as tick:
            ticks = tuple(tick() for _ in range(2 * sizes.repetitions + 1))
    finally:
        shutil.rmtree(base_dir)
    return Samples(ticks, note=f"{sizes.many_jobs:,} jobs, {sizes.live_jobs:,} of them live")


@contextmanager
def _following(base_dir: Path) -> Iterator[Timed]:
    """Yield a run of one idle cycle, in a store that has ingested everything."""
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        follower = Follower(store.engine, base_dir, Settings())

        def tick() -> float:
            if follower._passes is not None:
                follower._passes.discovery_due = 0.0  # otherwise discovery_interval_s decides
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
]
