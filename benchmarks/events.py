"""The events of the generated corpora, as MindSpore's SummaryCollector and lineage callbacks write them.

In: a step or a job number, and a seeded random generator. Out: frames. Promises: the same seed gives the same bytes;
histograms have as many buckets as MindSpore's for the same number of elements, and all the fields that MindSpore fills.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2
from lineage_store.eventlog.tfrecord import encode_frame

START = 1_700_000_000.0
_MOST_BUCKETS, _ELEMENTS_PER_BUCKET = 90, 10


def version() -> bytes:
    """Return the first frame of every summary file."""
    return encode_frame(summary_pb2.Event(wall_time=START, version="MindSpore.Event:1").SerializeToString())


def summary(step: int, values: list[summary_pb2.Summary.Value]) -> bytes:
    """Return one frame of the values; steps are about a tenth of a second apart, unevenly, as in a real training."""
    wall_time = START + 0.1 * step + 1e-6 * (step * 7919 % 1000)
    event = summary_pb2.Event(wall_time=wall_time, step=step, summary=summary_pb2.Summary(value=values))
    return encode_frame(event.SerializeToString())


def scalar(tag: str, value: float) -> summary_pb2.Summary.Value:
    return summary_pb2.Summary.Value(tag=tag, scalar_value=value)


def histogram(tag: str, elements: np.ndarray) -> summary_pb2.Summary.Value:
    """Return the histogram of finite elements."""
    counts, edges = np.histogram(elements, min(elements.size // _ELEMENTS_PER_BUCKET + 1, _MOST_BUCKETS))
    message = summary_pb2.Summary.Histogram(nan_count=0, pos_inf_count=0, neg_inf_count=0)
    message.max, message.min, message.sum = elements.max(), elements.min(), elements.sum()
    message.count = elements.size
    for left, right, count in zip(edges[:-1], edges[1:], counts, strict=True):
        message.buckets.add(left=left, width=right - left, count=count)
    return summary_pb2.Summary.Value(tag=tag, histogram=message)


def image(tag: str, random: np.random.Generator, byte_count: int) -> summary_pb2.Summary.Value:
    """Return an image with random bytes instead of a PNG, because neither ingest nor the peers decode it."""
    message = summary_pb2.Summary.Image(height=224, width=224, colorspace=3)
    message.encoded_image = random.bytes(byte_count)
    return summary_pb2.Summary.Value(tag=tag, image=message)


def tensor(tag: str, elements: np.ndarray) -> summary_pb2.Summary.Value:
    message = anf_ir_pb2.TensorProto(dims=elements.shape, data_type="DT_FLOAT32")
    message.float_data.extend(elements.ravel())
    return summary_pb2.Summary.Value(tag=tag, tensor=message)


def lineage(job: int, random: np.random.Generator) -> Iterator[bytes]:
    """Yield the four lineage frames of one job: training, dataset pipeline, user-defined values, evaluation."""
    events = [lineage_pb2.LineageEvent(wall_time=START + job + second) for second in range(4)]
    _fill_train(events[0].train_lineage, random)
    _fill_pipeline(events[1].dataset_graph, job)
    for key, value in (("team", f"team-{job % 7}"), ("note", f"run {job}")):
        events[2].user_defined_info.user_info.add().map_str[key] = value
    events[3].evaluation_lineage.metric = json.dumps({"Accuracy": random.random(), "Loss": random.random()})
    events[3].evaluation_lineage.valid_dataset.valid_dataset_path = "/data/mnist/test"
    events[3].evaluation_lineage.valid_dataset.valid_dataset_size = 10_000
    for event in events:
        yield encode_frame(event.SerializeToString(deterministic=True))


def _fill_train(train: lineage_pb2.TrainLineage, random: np.random.Generator) -> None:
    parameters = train.hyper_parameters
    parameters.optimizer = str(random.choice(["Momentum", "Adam", "SGD", "Lamb"]))
    parameters.learning_rate = float(random.choice([0.1, 0.01, 0.001]))
    parameters.loss_function = "SoftmaxCrossEntropyWithLogits"
    parameters.epoch = int(random.integers(1, 20))
    parameters.parallel_mode = "stand_alone"
    parameters.device_num = 1
    parameters.batch_size = 32
    train.train_dataset.train_dataset_path = "/data/mnist/train"
    train.train_dataset.train_dataset_size = 60_000
    train.algorithm.network = str(random.choice(["LeNet5", "ResNet", "MLP"]))
    train.algorithm.loss = float(random.random())
    train.model.path = "/checkpoints/net.ckpt"
    train.model.size = 64_000


def _fill_pipeline(graph: lineage_pb2.DatasetGraph, job: int) -> None:
    """Fill in one of ten pipelines: Batch over Map over MnistDataset."""
    graph.parameter.mapStr["op_type"] = "BatchDataset"
    graph.parameter.mapInt["batch_size"] = 2 ** (job % 10)
    mapped = graph.children.add()
    mapped.parameter.mapStr["op_type"] = "MapDataset"
    mapped.operations.add().operationParam.mapStr["tensor_op_name"] = "Rescale"
    source = mapped.children.add()
    source.parameter.mapStr["op_type"] = "MnistDataset"
    source.parameter.mapStr["dataset_dir"] = "/data/mnist"
