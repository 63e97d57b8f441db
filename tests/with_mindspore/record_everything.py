"""Everything a SummaryRecord can record: `python record_everything.py ours|mindspore DIRECTORY`.

In: whose SummaryRecord to use. Out: its log files. Both sides get the same values: arrays of every type, with and
without values that are not finite, images of every kind, all lineage messages, and what summary operators emit in
PyNative and in graph mode, in train and in eval mode.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.train import anf_ir_pb2, lineage_pb2, summary_pb2

TYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
SIZES = (1, 4, 7, 50, 880, 881, 70_001)
IMAGES = (
    ((1, 1, 5, 6), "f4", 1.0),
    ((11, 3, 4, 4), "f4", 1.0),
    ((3, 3, 4, 4), "f4", -300.0),
    ((9, 1, 4, 7), "u1", 255.0),
    ((2, 3, 8, 8), "i4", 1000.0),
    ((1, 3, 5, 5), "f8", 0.5),
    ((2, 2, 8, 8), "i4", 1000.0),  # two channels are no image, and no pixels neither
    ((1, 3, 0, 5), "f4", 0.5),
)
OPERATOR_STEPS = 3


class Emitting(nn.Cell):
    """A dense layer with all four summary operators."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Dense(4, 3)
        self.scalar, self.image = ops.ScalarSummary(), ops.ImageSummary()
        self.tensor, self.histogram = ops.TensorSummary(), ops.HistogramSummary()

    def construct(self, x: Tensor, image: Tensor) -> Tensor:
        y = self.dense(x)
        self.scalar("mean", y.mean())
        self.image("image", image)
        self.tensor("y", y)
        self.histogram("y", y)
        return y


def arrays(random: np.random.Generator) -> Iterator[np.ndarray[Any, Any]]:
    for dtype in TYPES:
        for size in SIZES:
            drawn = random.normal(100, 50, size)
            yield (np.abs(drawn) if dtype.startswith("u") else drawn).astype(dtype)
    mixed = random.normal(size=(30, 40)).astype(np.float32)
    mixed[0, :3], mixed[1, :2], mixed[2, 0] = np.nan, np.inf, -np.inf
    yield mixed
    yield np.full(5, np.nan, np.float32)
    yield np.array([np.inf, 1], np.float32)
    yield np.full((3, 3), 2.5, np.float32)
    yield np.full(3, 3, np.int32)
    yield -np.zeros(6, np.float32)
    yield np.zeros((0, 3), np.float32)
    yield np.arange(2**53, 2**53 + 40)
    yield np.array([1e300, -1e300, 1e-300])


def record_arrays(record: Any, random: np.random.Generator) -> None:
    for step, array in enumerate(arrays(random)):
        record.add_value("histogram", "h", Tensor(array))
        record.add_value("tensor", "t", Tensor(array))
        if array.size:
            record.add_value("scalar", "s", Tensor(array.reshape(-1)[:1]))
        record.add_value("scalar", "s", Tensor(np.float32(step)))
        record.record(step)
    for step, (shape, dtype, scale) in enumerate(IMAGES):
        record.add_value("image", "image", Tensor((random.random(shape) * scale).astype(dtype)))
        record.record(step)


def record_messages(record: Any) -> None:
    train = lineage_pb2.TrainLineage()
    train.hyper_parameters.optimizer = "Momentum"
    user_info = lineage_pb2.UserDefinedInfo()
    user_info.map_int32["trial"] = 3
    model = anf_ir_pb2.ModelProto()
    model.graph.name = "graph"
    landscape = summary_pb2.LossLandscape()
    landscape.metadata.unit = "step"
    record.add_value("train_lineage", "train", train)
    record.add_value("eval_lineage", "eval", lineage_pb2.EvaluationLineage(metric='{"accuracy": 1}'))
    record.add_value("eval_lineage", "eval", lineage_pb2.EvaluationLineage())
    record.add_value("dataset_graph", "graph", lineage_pb2.DatasetGraph())
    record.add_value("custom_lineage_data", "user", user_info)
    record.add_value("graph", "graph", model.SerializeToString())
    record.add_value("graph", "graph", b"")
    record.add_value("landscape", "landscape_[1, 2]", landscape)
    record.add_value("scalar", "filtered out", Tensor(1.0))
    record.record(7, plugin_filter=lambda plugin: plugin != "scalar")
    record.record(8)


def record_emitted(record: Any, random: np.random.Generator, mode: int) -> None:
    mindspore.set_context(mode=mode)
    network = Emitting()
    for parameter in network.get_parameters():
        parameter.set_data(Tensor(np.full(parameter.shape, 0.3, np.float32)))
    for step in range(OPERATOR_STEPS):
        record.set_mode("eval" if step == 1 else "train")
        image = Tensor(random.random((2, 3, 4, 4)).astype(np.float32))
        for _ in range(2):  # of two values in one step the last counts
            network(Tensor(random.normal(size=(2, 4)).astype(np.float32)), image)
        record.add_value("scalar", "added", Tensor(1.5))
        record.record(step)
    record.network = network
    record.record(OPERATOR_STEPS)  # its graph, once it was compiled
    record.network = None


def main() -> None:
    whose, directory = sys.argv[1:]
    home = "lineage_store.collect" if whose == "ours" else "mindspore.train.summary"
    random = np.random.default_rng(3)
    options = {"export_options": {"tensor_format": "npy"}}
    with importlib.import_module(home).SummaryRecord(
        directory, "pre.fix", "_suf.fix", 8, **options
    ) as record:
        record_arrays(record, random)
        record_messages(record)
        for mode in (mindspore.PYNATIVE_MODE, mindspore.GRAPH_MODE):
            record_emitted(record, random, mode)


if __name__ == "__main__":
    main()
