"""The rows of the result table, and how they are timed.

In: two runs, ours and a baseline, which time themselves. Out: `Samples`, the seconds of each, in the order of the runs.
Promises: runs alternate (baseline, ours, baseline, ours …), so that a machine that slows down slows both; a ratio is
always between neighbouring runs; garbage of earlier rows is collected first. Does not know what is measured.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Timed = Callable[[], float]
"""A run: a function that prepares, starts the clock, works, and returns the seconds."""
Shown = Literal["ratio", "speedup", "figure"]
"""ratio: ours / baseline, less is better. speedup: baseline / ours, more is better. figure: ours alone."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A target."""

    limit: float = math.inf
    """The limit of the figures; infinite if only `most_s` counts."""
    most_s: float | None = None
    """Maximum seconds of ours; None: no maximum."""
    at_least: bool = False
    """Whether figures must be at least `limit`; else at most."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the corpora, and the number of runs of a row."""

    events: int = 1_000_000
    scalar_events_of_ten: int = 100_000
    histogram_events: int = 20_000
    payload_events: int = 1_000
    real_jobs: int = 200
    jobs: int = 10_000
    many_jobs: int = 100_000
    backlog_jobs: int = 1_500
    backlog_runs: int = 1
    live_jobs: int = 1_000
    live_seconds: int = 30
    sharded_jobs: int = 10_000
    growing_jobs: int = 100
    idle_client_seconds: int = 10_000
    stored_jobs: int = 100_000
    many_stored_jobs: int = 1_000_000
    samples_of_a_job: int = 100
    new_jobs: int = 1_000
    removed_samples: int = 10_000_000
    copied_samples: int = 1_000_000
    vanished_jobs: int = 5_000
    partition_jobs: int = 1_000
    partition_samples: int = 1_000_000
    listed_files: int = 1_000_000
    analysed_jobs: int = 20_000
    analysed_steps: int = 167
    many_analysed_steps: int = 33
    huge_mebibytes: int = 4096
    peer_jobs: int = 10_000
    training_steps: int = 220
    repetitions: int = 5


QUICK = Sizes(
    events=50_000,
    scalar_events_of_ten=5_000,
    histogram_events=2_000,
    payload_events=50,
    real_jobs=32,
    jobs=300,
    many_jobs=5_000,
    backlog_jobs=100,
    live_jobs=50,
    live_seconds=6,
    sharded_jobs=200,
    growing_jobs=20,
    idle_client_seconds=1_000,
    stored_jobs=3_000,
    many_stored_jobs=10_000,
    samples_of_a_job=20,
    new_jobs=100,
    removed_samples=20_000,
    copied_samples=50_000,
    vanished_jobs=400,
    partition_jobs=50,
    partition_samples=20_000,
    listed_files=4_000,
    analysed_jobs=2_000,
    analysed_steps=20,
    many_analysed_steps=10,
    huge_mebibytes=512,
    peer_jobs=200,
    training_steps=60,
    repetitions=2,
)


@dataclass(frozen=True, slots=True)
class Samples:
    """Measurements of one row: in seconds if there is a baseline, else in the row's unit."""

    ours: tuple[float, ...]
    baseline: tuple[float, ...] | None = None
    note: str = ""
    floor: tuple[float, ...] | None = None
    """Measurements of the minimum that no implementation can beat, alternating with the runs."""

    def figures(self, shown: Shown) -> list[float]:
        """Return one figure for each run."""
        if shown == "figure" or self.baseline is None:
            return list(self.ours)
        pairs = zip(self.ours, self.baseline, strict=True)
        if shown == "speedup":
            return [baseline / ours for ours, baseline in pairs]
        return [ours / baseline for ours, baseline in pairs]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    name: str
    what: str
    measure: Callable[[Sizes], Samples]
    must: Bound | None
    aim: Bound | None = None
    was: str = ""
    """An earlier target, and why it was replaced."""
    shown: Shown = "ratio"
    unit: str = "x"
    group: Literal["default", "long", "peers", "page"] = "default"


def alternate(
    ours: Timed, baseline: Timed, repetitions: int, note: str = "", floor: Timed | None = None
) -> Samples:
    """Run ours and the baseline in turn, after one run of each that only warms up caches."""
    runs = [baseline, ours, *([floor] if floor else [])]
    rounds = [[run() for run in runs] for _ in range(repetitions + 1)][1:]
    of_baseline, of_ours, *of_floor = zip(*rounds, strict=True)
    return Samples(of_ours, of_baseline, note, of_floor[0] if of_floor else None)


@contextmanager
def stopwatch() -> Iterator[Callable[[], float]]:
    """Yield a function that returns, after the block, the seconds that the block took."""
    gc.collect()
    started = time.perf_counter()
    ended = started
    yield lambda: ended - started
    ended = time.perf_counter()


def timed(work: Callable[[], object], times: int = 1) -> Timed:
    """Return a run of `work`, repeated `times` times if one is too short for the clock; it returns seconds per call."""

    def run() -> float:
        with stopwatch() as seconds:
            for _ in range(times):
                work()
        return seconds() / times

    return run


def cpu_seconds(process: int) -> float:
    """Return the CPU seconds of a process so far, on all cores together."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def meets(bound: Bound, samples: Samples, shown: Shown) -> bool:
    """Return whether the medians meet the bound."""
    if bound.most_s is not None and statistics.median(samples.ours) > bound.most_s:
        return False
    median = statistics.median(samples.figures(shown))
    return median >= bound.limit if bound.at_least else median <= bound.limit
