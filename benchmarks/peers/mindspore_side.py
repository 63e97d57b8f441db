"""MindSpore's recorders and ours, for the rows about writing; both run in MindSpore's environment, on its tensors.

In: one request per line, as JSON: ["scalars", whose, directory, records] or ["training", whose, directory,
collect_freq, steps]; whose is "ours" or "mindspore". Out: a line of JSON each: the seconds, and the bytes of the
files. "scalars" is timed from creating a SummaryRecord to its close, with ten scalars per record; "training" from the
end of step WARM_UP to the end of the last step, without compilation and closing of files.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mindspore
import numpy as np
from mindspore import dataset, nn
from mindspore.train import Callback, Model, RunContext

_HOMES = {"ours": "lineage_store.collect", "mindspore": "mindspore.train.summary"}
WARM_UP = 20
_TAGS = [f"metric_{number}" for number in range(10)]


def scalars(whose: str, directory: str, records: int) -> tuple[float, int]:
    """Record scalars; return seconds and bytes."""
    recorder = importlib.import_module(_HOMES[whose]).SummaryRecord
    values = [mindspore.Tensor(np.float32(number)) for number in range(len(_TAGS))]
    began = time.perf_counter()
    with recorder(directory) as record:
        for step in range(records):
            for tag, value in zip(_TAGS, values, strict=True):
                record.add_value("scalar", tag, value)
            record.record(step)
    seconds = time.perf_counter() - began
    return seconds, sum(path.stat().st_size for path in Path(directory).iterdir())


class _Clock(Callback):
    """Notes when each step ended, including the callbacks before this one."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def on_train_step_end(self, run_context: RunContext) -> None:
        self.ends.append(time.perf_counter())


def training(whose: str, directory: str, collect_freq: int, steps: int) -> tuple[float, int]:
    """Train with a SummaryCollector; return seconds and bytes."""
    collector = importlib.import_module(_HOMES[whose].removesuffix(".summary")).SummaryCollector
    random = np.random.default_rng(1)
    images = random.random((steps * 16, 1, 28, 28), dtype=np.float32)
    labels = random.integers(0, 10, steps * 16, dtype=np.int32)
    rows = dataset.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(16)
    layers = [nn.Conv2d(1, 6, 5, pad_mode="valid"), nn.ReLU(), nn.MaxPool2d(2, 2), nn.Flatten()]
    network = nn.SequentialCell(*layers, nn.Dense(864, 64), nn.ReLU(), nn.Dense(64, 10))
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    model = Model(network, loss, nn.Momentum(network.trainable_params(), 0.01, 0.9))
    clock = _Clock()
    specified = {"collect_landscape": None}
    callback = collector(directory, collect_freq, collect_specified_data=specified)
    model.train(1, rows, [callback, clock])
    return clock.ends[-1] - clock.ends[WARM_UP - 1], sum(p.stat().st_size for p in Path(directory).iterdir())


_REQUESTS: dict[str, Callable[..., tuple[float, int]]] = {"scalars": scalars, "training": training}


def main() -> None:
    mindspore.set_device("CPU")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # keep the libraries' output out of the answers
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(_REQUESTS[name](*arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
