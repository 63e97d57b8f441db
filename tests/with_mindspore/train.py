"""A small real training: `python train.py SUMMARY_DIR` trains and evaluates a network under SummaryCollector.

In: the job's directory. Out: the log files that MindSpore writes there, and on standard output, as JSON, what the
training loop itself saw: {"losses": [[step, loss], …], "metrics": {…}}. It runs in a process of its own, because
MindSpore's writer lives as long as the process does.
"""

from __future__ import annotations

import json
import sys
import time

import mindspore
import numpy as np
from mindspore import dataset, nn
from mindspore.train import Callback, Model, RunContext, SummaryCollector

BATCH_SIZE = 8
TRAIN_BATCHES = 6
EPOCHS = 2
LEARNING_RATE = 0.05
CLASSES = 3
CUSTOM_LINEAGE = {"owner": "vision", "trial": 7, "dropout": 0.1}


class SmallNet(nn.Cell):
    """Two dense layers over flattened images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell(nn.Flatten(), nn.Dense(16, 10), nn.ReLU(), nn.Dense(10, CLASSES))

    def construct(self, images: mindspore.Tensor) -> mindspore.Tensor:
        return self.layers(images)


class LossWitness(Callback):
    """Remembers each step's loss by a way that is not ours."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[tuple[int, float]] = []

    def on_train_step_end(self, run_context: RunContext) -> None:
        context = run_context.original_args()
        self.losses.append((context.cur_step_num, float(context.net_outputs.asnumpy())))


def images_and_labels(batches: int, seed: int) -> dataset.Dataset:
    """Random grey 4x4 pictures: `batches` batches of BATCH_SIZE."""
    random = np.random.default_rng(seed)
    count = batches * BATCH_SIZE
    images = random.random((count, 1, 4, 4), dtype=np.float32)
    labels = random.integers(0, CLASSES, count, dtype=np.int32)
    return dataset.NumpySlicesDataset((images, labels), ["image", "label"], shuffle=False).batch(BATCH_SIZE)


def train(summary_dir: str) -> dict[str, object]:
    """Train and evaluate; returns what the loop saw."""
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    mindspore.set_device("CPU")
    mindspore.set_seed(1)
    network = SmallNet()
    model = Model(
        network,
        loss_fn=nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        optimizer=nn.Momentum(network.trainable_params(), LEARNING_RATE, 0.9),
        metrics={"accuracy"},
    )
    specified = {"collect_landscape": None, "histogram_regular": ".*weight"}
    witness = LossWitness()
    collector = SummaryCollector(
        summary_dir, collect_freq=1, collect_specified_data=specified, custom_lineage_data=CUSTOM_LINEAGE
    )
    model.train(EPOCHS, images_and_labels(TRAIN_BATCHES, 1), [witness, collector], dataset_sink_mode=False)
    # MindSpore names files by the second, and truncates one that is there: what was trained would be gone.
    time.sleep(1)
    collector = SummaryCollector(summary_dir, collect_specified_data=specified)
    metrics = model.eval(images_and_labels(2, 2), callbacks=[collector], dataset_sink_mode=False)
    return {"losses": witness.losses, "metrics": metrics}


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1])))
