"""Base dirs that are filled in one respect: so many metrics, tags, files, damaged places and so on.

In: a directory, and how many. Out: log files of a job `./job`, which has something of everything, and of `./other`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from helpers.log_writer import Log, scalar

TIME = 1_700_000_000


def _plain(base_dir: Path) -> None:
    for name in ("job", "other"):
        log = Log().version()
        for step in (1, 2):
            log.scalar(step, "loss", 1 / step).histogram(step, "h", [0.0, 1.0]).image(
                step, "i", [[[0, 1, 2]]]
            )
            log.tensor(step, "t", [[1.0, 2.0]])
        log.landscape("l", [[1.0, 2.0], [3.0, 4.0]]).graph("Conv", "ReLU").write_summary(base_dir / name)
        about = Log().train(network="LeNet5", optimizer="Adam", train_dataset_path="/data", loss=0.5)
        about.evaluation({"accuracy": 0.5}, path="/test", size=10).user_info(team="vision")
        about.dataset_graph({"op_type": "Batch", "batch_size": 32}).write_lineage(base_dir / name)


def _jobs(base_dir: Path, count: int) -> None:
    for number in range(count):
        job = base_dir / f"job_{number}"
        summary = Log().version().scalar(1, "loss", 0.5).scalar(2, "loss", 0.25).write_summary(job)
        about = (
            Log().train(network=f"N{number % 3}", optimizer="Adam", loss=0.5).evaluation({"accuracy": 0.5})
        )
        about.user_info(team="vision").dataset_graph({"op_type": "Batch"})
        for path in (summary, about.write_lineage(job)):
            os.utime(path, (TIME + number, TIME + number))  # a page sorts jobs of the same second


def _metrics(base_dir: Path, count: int) -> None:
    log = Log().train(network="N")
    for value in (1.0, 0.5):
        log.evaluation({f"m{number}": value for number in range(count // 2)})
    log.write_lineage(base_dir / "job", TIME + 1)


def _evaluations(base_dir: Path, count: int) -> None:
    log = Log().train(network="N")
    for number in range(count // 2):
        log.evaluation({"accuracy": 1 / (number + 1), "loss": number / 2})
    log.write_lineage(base_dir / "job", TIME + 2)


def _user_values(base_dir: Path, count: int) -> None:
    log = Log()
    for first in range(0, count, 50):
        values: dict[str, Any] = {f"k{number}": f"v{number}" for number in range(first, first + 50)}
        log.user_info(**values)
    log.write_lineage(base_dir / "job", TIME + 3)


def _dataset_nodes(base_dir: Path, count: int) -> None:
    children = [{"op_type": "Map", "p": 1, "q": 2} for _ in range(count // 3)]
    Log().dataset_graph({"op_type": "Zip", "children": children}).write_lineage(base_dir / "job", TIME + 4)


def _tags(base_dir: Path, count: int) -> None:
    log = Log().version()
    for step, first in enumerate(range(0, count, 100)):
        log.summary(step, *(scalar(f"tag/{number}", 0.5) for number in range(first, first + 100)))
    log.write_summary(base_dir / "job", TIME + 5, device=1)


def _samples(base_dir: Path, count: int) -> None:
    log = Log().version()
    for step in range(3, count):
        log.scalar(step, "loss", 1 / step)
    log.write_summary(base_dir / "job", TIME + 6)


def _payloads(base_dir: Path, count: int) -> None:
    log = Log().version()
    for step in range(3, count // 4):
        log.histogram(step, "h", [0.0, 1.0]).image(step, "i", [[[0, 1, 2]]]).tensor(step, "t", [[1.0, 2.0]])
        log.histogram(step, f"h{step}", [0.0, 1.0])
    log.write_summary(base_dir / "job", TIME + 7)


def _graph_nodes(base_dir: Path, count: int) -> None:
    Log().version().graph(*("Conv" for _ in range(count))).write_summary(base_dir / "job", TIME + 8)


def _files(base_dir: Path, count: int) -> None:
    """Files of summaries and of lineage, each with evaluations of its own."""
    for number in range(count // 8):
        Log().version().scalar(number, f"loss{number}", 0.5).write_summary(
            base_dir / "job", TIME + 10 + number, device=number % 8
        )
        log = Log().train(network="N")
        for _ in range(3):
            log.evaluation({"accuracy": number / 3, "f1": 0.5})
        log.write_lineage(base_dir / "job", TIME + 10 + number)


def _restarts(base_dir: Path, count: int) -> None:
    """Each file goes back to the first step, so that it supersedes all files before it."""
    for number in range(count // 8):
        log = Log().version()
        for step in range(1, 5):
            log.scalar(step, "loss", 1 / step)
        log.write_summary(base_dir / "job", TIME + 10 + number)


def _damages(base_dir: Path, count: int) -> None:
    log = Log().version()
    for step in range(count):
        log.scalar(step, "damaged", 0.5)
        if step % 2:
            log.damaged()
    log.write_summary(base_dir / "job", TIME + 9)


DIMENSIONS: Mapping[str, tuple[Callable[[Path, int], None], ...]] = {
    "jobs": (_jobs,),
    "lineage": (_metrics, _user_values, _dataset_nodes),
    "evaluations": (_evaluations,),
    "tags": (_tags,),
    "samples": (_samples, _payloads, _graph_nodes),
    "files": (_files,),
    "restarts": (_restarts, _damages),
}
"""By respect, what fills the job in it. What has little to do with each other is together, which costs less."""


def write(base_dir: Path, dimension: str, count: int) -> None:
    """Fill a new base dir in one respect."""
    _plain(base_dir)
    for fill in DIMENSIONS[dimension]:
        fill(base_dir, count)
