"""Record a training that uses no MindSpore: `python examples/plain_numpy.py SUMMARY_DIR`.

Fits a line to noisy points with numpy alone, and records what a PyTorch or JAX script would record: the loss of each
step, the parameters, and the lineage by which the store finds the job. `lineage-store ingest` and MindInsight read the
result like any other; the base dir to ingest is the directory that contains SUMMARY_DIR.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from lineage_store.collect import SummaryRecord
from lineage_store.eventlog.mindspore.wire import lineage_pb2

LEARNING_RATE = 0.1
STEPS = 200


def main() -> None:
    """Fit the line and record every step."""
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, 256)
    y = 3 * x - 1 + random.normal(0, 0.1, x.size)
    weights = np.zeros(2)
    with SummaryRecord(sys.argv[1]) as record:
        for step in range(1, STEPS + 1):
            error = weights[0] * x + weights[1] - y
            weights -= LEARNING_RATE * 2 * np.array([(error * x).mean(), error.mean()])
            record.add_value("scalar", "loss", (error**2).mean())
            if step % 20 == 0:
                record.add_value("histogram", "error", error)
                record.add_value("tensor", "weights", weights)
            record.record(step)
        record.add_value("train_lineage", "train", lineage(x.size, float((error**2).mean())))
        metrics = json.dumps({"mse": float((error**2).mean())})
        record.add_value("eval_lineage", "evaluation", lineage_pb2.EvaluationLineage(metric=metrics))
        record.record(STEPS)
    print(f"slope {weights[0]:.2f}, intercept {weights[1]:.2f}, recorded in {record.log_dir}")


def lineage(count: int, loss: float) -> lineage_pb2.TrainLineage:
    """Return what was trained, how, and on which data."""
    message = lineage_pb2.TrainLineage()
    message.algorithm.network = "Line"
    message.algorithm.loss = loss
    message.hyper_parameters.optimizer = "GradientDescent"
    message.hyper_parameters.learning_rate = LEARNING_RATE
    message.hyper_parameters.epoch = STEPS
    message.hyper_parameters.batch_size = count
    message.train_dataset.train_dataset_size = count
    return message


if __name__ == "__main__":
    main()
