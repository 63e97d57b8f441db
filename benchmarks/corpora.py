"""The corpora: base dirs of log files, generated once from fixed seeds and cached under build/bench/.

In: a size. Out: the path of a base dir whose files are finished (mode 0400), as after a training.
Promises: the same size gives the same bytes; an interrupted generation leaves nothing behind.

c1: one scalar per event. c2: ten scalars per event. c5: four tags in turn, an event each. c6: loss and three
histograms, as SummaryCollector writes them. c4: image, tensor, four histograms and a scalar. runs: one given scalar
each. jobs: four lineage events and 50 steps of four scalars each. real: log files of real trainings (tests/golden),
copied under new names.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from benchmarks import events

ROOT = Path(__file__).parent.parent
CACHE = ROOT / "build" / "bench"
GOLDEN = ROOT / "tests" / "golden" / "summary_base"
FILE_TIME = 1_700_000_000
LONG_AGO = 1_710_000_000
"""Modification time of every file, so that none looks as if it were still being written."""

TAGS = ("loss", "accuracy", "learning_rate", "grad_norm")
"""The scalars of a job."""
_LAYERS = (("conv1.weight", 150), ("conv1.bias", 10), ("fc1.weight", 500))


def c1(count: int) -> Path:
    losses = np.exp(-np.arange(count) / (count / 4)) + np.random.default_rng(1).normal(0, 0.01, count)
    return _single(
        f"c1-{count}",
        (events.summary(step, [events.scalar("loss", loss)]) for step, loss in enumerate(losses, 1)),
    )


def c2(count: int) -> Path:
    values = np.random.default_rng(2).random((count, 10))

    def frame(step: int) -> bytes:
        return events.summary(
            step, [events.scalar(f"head_{n}/loss", value) for n, value in enumerate(values[step - 1])]
        )

    return _single(f"c2-{count}", map(frame, range(1, count + 1)))


def c5(count: int) -> Path:
    values = np.random.default_rng(5).random(count)
    return _single(
        f"c5-{count}",
        (events.summary(n // 4 + 1, [events.scalar(TAGS[n % 4], value)]) for n, value in enumerate(values)),
    )


def c6(count: int) -> Path:
    random = np.random.default_rng(6)

    def frame(step: int) -> bytes:
        weights = [events.histogram(f"{name}/auto", random.normal(0, 0.1, n)) for name, n in _LAYERS]
        return events.summary(step, [events.scalar("loss/auto", 1 / step), *weights])

    return _single(f"c6-{count}", map(frame, range(1, count + 1)))


def c4(count: int) -> Path:
    random = np.random.default_rng(4)

    def frame(step: int) -> bytes:
        large = [
            events.image("input_data/auto", random, 150_000),
            events.tensor("features", random.random((88, 1000), np.float32)),
        ]
        weights = [events.histogram(f"layer{n}.weight/auto", random.normal(0, 1, 900)) for n in range(4)]
        return events.summary(step, [*large, events.scalar("loss/auto", 1 / step), *weights])

    return _single(f"c4-{count}", map(frame, range(1, count + 1)))


def huge(mebibytes: int) -> Path:
    """Return a corpus of frames of nearly 64 MiB, the longest that are accepted, with one tensor each."""
    value = events.tensor("weights", np.random.default_rng(7).random((1000, 16_500), np.float32))
    frames = (events.summary(step, [value]) for step in range(1, mebibytes // 63 + 2))
    return _single(f"huge-{mebibytes}", frames)


def jobs(count: int) -> Path:
    def write(base_dir: Path) -> None:
        random = np.random.default_rng(8)
        for job in range(count):
            directory = base_dir / f"run_{job:06d}"
            write_log(directory, "_lineage", events.lineage(job, random), FILE_TIME + job)
            write_log(directory, "_MS", _four_scalars(random.random((50, 4))), FILE_TIME + job)

    return _cached(f"jobs-{count}", write)


def monitored_jobs(count: int) -> Path:
    """Return a corpus of jobs with four lineage events and 100 steps of loss and three histograms each."""

    def write(base_dir: Path) -> None:
        random = np.random.default_rng(9)
        weights = [events.histogram(f"{name}/auto", random.normal(0, 0.1, n)) for name, n in _LAYERS]
        steps = [
            events.summary(step, [events.scalar("loss/auto", 1 / step), *weights]) for step in range(1, 101)
        ]
        for job in range(count):
            directory = base_dir / f"run_{job:06d}"
            write_log(directory, "_lineage", events.lineage(job, random), FILE_TIME + job)
            write_log(directory, "_MS", [events.version(), *steps], FILE_TIME + job)

    return _cached(f"monitored-{count}", write)


def empty_files(jobs: int, files: int) -> Path:
    """Return a corpus of `jobs` directories with `files` empty log files each, to be listed, not read."""

    def write(base_dir: Path) -> None:
        for job in range(jobs):
            for number in range(files):
                write_log(base_dir / f"run_{job:07d}", "_MS", (), FILE_TIME + number)

    return _cached(f"empty-{jobs}-{files}", write)


def runs(values: np.ndarray) -> Path:
    """Return a corpus with the scalar `loss`: a job per row of `values`, a step per column."""

    def write(base_dir: Path) -> None:
        for run, row in enumerate(values):
            frames = (
                events.summary(step, [events.scalar("loss", value)]) for step, value in enumerate(row, 1)
            )
            write_log(base_dir / f"run_{run:02d}", "_MS", chain([events.version()], frames))

    return _cached(f"runs-{len(values)}x{values.shape[1]}", write)


def real(copies: int) -> Path:
    def write(base_dir: Path) -> None:
        sources = sorted(GOLDEN.iterdir())
        for number in range(copies):
            source = sources[number % len(sources)]
            shutil.copytree(source, base_dir / f"{source.name} {number}", copy_function=_copy_finished)

    return _cached(f"real-{copies}", write)


def write_log(directory: Path, suffix: str, frames: Iterable[bytes], timestamp: int = FILE_TIME) -> Path:
    """Write a finished log file with MindSpore's name."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"events.out.events.summary.{timestamp}.0.host{suffix}"
    with path.open("wb") as stream:
        stream.writelines(frames)
    _finish(path)
    return path


def _four_scalars(values: np.ndarray) -> Iterator[bytes]:
    yield events.version()
    for step, row in enumerate(values, 1):
        yield events.summary(step, [events.scalar(tag, value) for tag, value in zip(TAGS, row, strict=True)])


def _single(name: str, frames: Iterable[bytes]) -> Path:
    """Return a corpus of one job with one summary file."""
    return _cached(
        name, lambda base_dir: write_log(base_dir / "run", "_MS", chain([events.version()], frames))
    )


def _cached(name: str, write: Callable[[Path], object]) -> Path:
    base_dir = CACHE / "corpora" / name
    if not base_dir.exists():
        print(f"making {name} …", flush=True)
        unfinished = base_dir.with_name(f"{name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        unfinished.rename(base_dir)
    return base_dir


def _copy_finished(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    _finish(Path(target))


def _finish(path: Path) -> None:
    path.chmod(0o400)
    os.utime(path, (LONG_AGO, LONG_AGO))
