"""A base dir for which MindInsight's REST API has particular answers, with the same bytes each time.

In: an empty directory. Out: jobs in it: curves and images beyond its limits, restarts, two devices, odd tensors and
histograms, landscapes, many tags, a diverged training, and five jobs for its search for important parameters.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from helpers.log_writer import Log, histogram, landscape, scalar, tensor_message
from lineage_store.eventlog.mindspore.wire import summary_pb2

_BEGAN = 1_700_000_000


def make_base_dir(base_dir: Path) -> Path:
    """Write the jobs; the modification time of a log file is the time in its name."""
    _curves(base_dir)
    _payloads(base_dir)
    _histograms(base_dir)
    _landscapes(base_dir)
    _many_tags(base_dir)
    _lineages(base_dir)
    for path in base_dir.glob("*/*summary.*"):
        began = int(path.name.split(".")[4])
        os.utime(path, (began, began))
        path.chmod(0o400)
    return base_dir


def _curves(base_dir: Path) -> None:
    long = Log().version()
    for step in range(1500):
        long.scalar(step, "loss", step / 8)
    long.write_summary(base_dir / "long", _BEGAN)
    first, second = Log().version(), Log(wall_time=_BEGAN + 5000).version()
    for step in range(1300):
        first.scalar(step, "loss", -step / 8)
    for step in range(700, 2100, 2):
        second.scalar(step, "loss", step / 4)
    first.write_summary(base_dir / "long_restart", _BEGAN + 1)
    second.write_summary(base_dir / "long_restart", _BEGAN + 2)
    for device in (0, 1):
        log = Log(wall_time=_BEGAN + device / 2).version()
        for step in range(0, 30, device + 1):
            log.scalar(step, "loss", step + device / 4)
        log.write_summary(base_dir / "two_devices", _BEGAN + 3, device)


def _payloads(base_dir: Path) -> None:
    images = Log().version()
    for step in range(15):
        images.image(step, "picture", np.full((2, 3, 3), step))
    images.write_summary(base_dir / "images", _BEGAN + 4)
    tensors = Log().version()
    odd = np.array([[1, np.nan], [np.inf, -np.inf]], np.float32)
    for step in range(0, 60, 2):
        tensors.tensor(step, "odd", odd).tensor(step, "matrix", np.arange(6.0).reshape(2, 3) * step)
    for step in range(2):
        tensors.tensor(step, "point", np.float32(3.5)).tensor(step, "none", np.zeros((0, 3), np.float32))
        tensors.tensor(step, "flags", np.array([True, False])).tensor(
            step, "nan", np.array([np.nan], np.float32)
        )
    tensors.write_summary(base_dir / "tensors", _BEGAN + 5)


def _histograms(base_dir: Path) -> None:
    log = Log().version()
    for step in range(3):
        log.histogram(step, "spread", np.linspace(-step, step * 2 + 1, 40 + 100 * step))
        log.histogram(step, "constant", [3.0] * 12).histogram(step, "empty", [])
        log.histogram(step, "sometimes", [] if step == 1 else [step, 2.0, np.nan])
        fine = histogram("fine", np.arange(200.0), 91 if step == 1 else 90)
        log.summary(step, fine, *(histogram(f"few_{count}", range(count)) for count in (1, 5, 10, 11)))
    for step in range(70):
        log.histogram(step, "long", [step, step + 1.0, -step])
    log.write_summary(base_dir / "histograms", _BEGAN + 6)


def _landscapes(base_dir: Path) -> None:
    log = Log().version()
    z = np.arange(9.0).reshape(3, 3)
    for first, last in ((10, 19), (1, 9)):
        value = landscape(f"landscape_[{first}, {last}]", z / last)
        value.loss_landscape.loss_path.ClearField("intervals")
        value.loss_landscape.loss_path.intervals.extend(range(first, last + 1))
        log.summary(0, value)
    final = landscape("landscape_[19]", np.where(z > 7, np.nan, z))
    final.loss_landscape.ClearField("loss_path")
    for axis in ("x", "y", "z"):
        getattr(final.loss_landscape.convergence_point, axis).CopyFrom(
            tensor_message(np.array([0.5], np.float32))
        )
    log.summary(0, final).write_summary(base_dir / "landscape", _BEGAN + 7)
    trained = Log().train(network="LeNet", learning_rate=0.01, loss=0.25, optimizer="Momentum")
    trained.evaluation({"acc": 0.5}).write_lineage(base_dir / "landscape", _BEGAN + 7)
    Log().version().landscape("bare", z).write_summary(base_dir / "landscape_bare", _BEGAN + 8)


def _many_tags(base_dir: Path) -> None:
    log = Log().version()
    for step in range(2):
        values: list[summary_pb2.Summary.Value] = [scalar(f"tag_{number}", number) for number in range(310)]
        log.summary(step, *values)
    for number in range(8):
        log.tensor(0, f"tensor_{number}", [float(number)])
    log.write_summary(base_dir / "many_tags", _BEGAN + 9)


def _lineages(base_dir: Path) -> None:
    diverged = Log().train(network="LeNet", learning_rate=float("nan"), loss=float("inf"))
    diverged.user_info(note="NaN", ratio=float("nan")).write_lineage(base_dir / "diverged", _BEGAN + 10)
    rates, accuracies = (0.01, 0.001, 0.02, 0.04, 0.05), (0.8, 0.9, 0.8, 0.7, 0.6)
    for number, (rate, accuracy) in enumerate(zip(rates, accuracies, strict=True)):
        log = Log().train(learning_rate=rate, epoch=number, batch_size=32, device_num=1)
        log.user_info(depth=number * 2, team="vision" if number else "speech")
        log.evaluation({"acc": accuracy, "note": "good"})
        log.write_lineage(base_dir / f"tuned_{number}", _BEGAN + 11 + number)
