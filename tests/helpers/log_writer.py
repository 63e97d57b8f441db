"""A scripted writer of log files for tests: real frames of real messages, and every kind of damage.

    log = Log().version().scalar(1, "loss", 0.5).histogram(1, "w", [0.0, 1.0]).torn(7)
    path = log.write_summary(tmp_path / "run_1", timestamp=1_700_000_000)
    Log().train(network="LeNet5", loss=0.1).evaluation({"accuracy": 0.9}).write_lineage(tmp_path / "run_1")

In: calls, one per event; they return the log, so that they can be chained. Out: `content` (the bytes), `spans` (where
each frame is) or a file with MindSpore's name. Wall times start at FIRST_WALL_TIME and increase by one second per
event, so the same calls give the same bytes. `GrowingFile` writes given bytes slice by slice, as a live training does.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lineage_store.eventlog.mindspore import filenames
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2
from lineage_store.eventlog.tfrecord import encode_frame

FIRST_WALL_TIME = 1_700_000_000.0

TRAIN_GROUPS = {
    "hyper_parameters": lineage_pb2.TrainLineage.HyperParameters.DESCRIPTOR.fields_by_name,
    "train_dataset": lineage_pb2.TrainLineage.TrainDataset.DESCRIPTOR.fields_by_name,
    "algorithm": lineage_pb2.TrainLineage.Algorithm.DESCRIPTOR.fields_by_name,
    "model": lineage_pb2.TrainLineage.Model.DESCRIPTOR.fields_by_name,
}


@dataclass
class Log:
    """The content of one log file. Calls that add an event take `wall_time=` to set its time."""

    wall_time: float = FIRST_WALL_TIME
    buffer: bytearray = field(default_factory=bytearray)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """(position, length) of every frame added, bad ones included."""

    @property
    def content(self) -> bytes:
        return bytes(self.buffer)

    # --- summary events ---

    def version(self, text: str = "MindSpore.Event:1", *, wall_time: float | None = None) -> Log:
        return self.event(summary_pb2.Event(version=text), wall_time)

    def scalar(self, step: int, tag: str, value: float, *, wall_time: float | None = None) -> Log:
        return self.summary(step, scalar(tag, value), wall_time=wall_time)

    def scalars(self, step: int, values: Mapping[str, float], *, wall_time: float | None = None) -> Log:
        """Add several scalars in one event."""
        return self.summary(step, *(scalar(tag, value) for tag, value in values.items()), wall_time=wall_time)

    def histogram(self, step: int, tag: str, values: ArrayLike, *, wall_time: float | None = None) -> Log:
        return self.summary(step, histogram(tag, values), wall_time=wall_time)

    def image(self, step: int, tag: str, pixels: ArrayLike, *, wall_time: float | None = None) -> Log:
        return self.summary(step, image(tag, pixels), wall_time=wall_time)

    def tensor(self, step: int, tag: str, values: ArrayLike, *, wall_time: float | None = None) -> Log:
        return self.summary(step, tensor(tag, values), wall_time=wall_time)

    def landscape(self, tag: str, z: ArrayLike, *, step: int = 0, wall_time: float | None = None) -> Log:
        return self.summary(step, landscape(tag, z), wall_time=wall_time)

    def graph(self, *operations: str, wall_time: float | None = None) -> Log:
        """Add a chain of nodes of these operation types behind one parameter `x`; without a step, as MindSpore does."""
        return self.event(summary_pb2.Event(graph_def=chain_graph(*operations)), wall_time)

    def summary(self, step: int, *values: summary_pb2.Summary.Value, wall_time: float | None = None) -> Log:
        """Add one event of any values: see `scalar`, `histogram`, `image`, `tensor`, `landscape` below."""
        return self.event(summary_pb2.Event(step=step, summary=summary_pb2.Summary(value=values)), wall_time)

    # --- lineage events ---

    def train(self, *, wall_time: float | None = None, **fields: Any) -> Log:
        """Add a train event with any fields of its groups, by their names in the message: network=, loss=, ..."""
        train = lineage_pb2.TrainLineage()
        for name, value in fields.items():
            (group,) = (group for group, names in TRAIN_GROUPS.items() if name in names)
            setattr(getattr(train, group), name, value)
        return self.lineage(lineage_pb2.LineageEvent(train_lineage=train), wall_time)

    def evaluation(
        self,
        metric: Mapping[str, Any] | str | None = None,
        *,
        path: str | None = None,
        size: int | None = None,
        epoch: int | None = None,
        step: int | None = None,
        wall_time: float | None = None,
    ) -> Log:
        """Add an evaluation: metric (a dict or raw text), path and size of its dataset, and epoch and step."""
        evaluation = lineage_pb2.EvaluationLineage(epoch=epoch, step=step)
        if metric is not None:
            evaluation.metric = metric if isinstance(metric, str) else json.dumps(metric)
        if path is not None:
            evaluation.valid_dataset.valid_dataset_path = path
        if size is not None:
            evaluation.valid_dataset.valid_dataset_size = size
        return self.lineage(lineage_pb2.LineageEvent(evaluation_lineage=evaluation), wall_time)

    def dataset_graph(self, graph: Mapping[str, Any], *, wall_time: float | None = None) -> Log:
        """Add a dataset pipeline in the shape of an answer: parameters, operations, sampler, children."""
        event = lineage_pb2.LineageEvent()
        event.dataset_graph.SetInParent()
        _fill_graph(event.dataset_graph, graph)
        return self.lineage(event, wall_time)

    def user_info(self, *, wall_time: float | None = None, **entries: float | str) -> Log:
        """Add user-defined values, one entry each, as MindSpore packs them."""
        event = lineage_pb2.LineageEvent()
        event.user_defined_info.SetInParent()
        for key, value in entries.items():
            maps = {int: "map_int32", float: "map_double", str: "map_str"}
            getattr(event.user_defined_info.user_info.add(), maps[type(value)])[key] = value
        return self.lineage(event, wall_time)

    # --- anything, and damage ---

    def event(self, event: summary_pb2.Event, wall_time: float | None = None) -> Log:
        """Add any summary event; its wall time is set here."""
        event.wall_time = self._tick(wall_time)
        return self.frame(event.SerializeToString(deterministic=True))

    def lineage(self, event: lineage_pb2.LineageEvent, wall_time: float | None = None) -> Log:
        """Add any lineage event; its wall time is set here."""
        event.wall_time = self._tick(wall_time)
        return self.frame(event.SerializeToString(deterministic=True))

    def frame(self, payload: bytes) -> Log:
        """Add a valid frame of any payload."""
        return self._append_frame(encode_frame(payload))

    def raw(self, content: bytes) -> Log:
        """Add bytes that are no frame: junk, or a hole (`bytes(4096)`)."""
        self.buffer += content
        return self

    def torn(self, byte_count: int) -> Log:
        """Cut the last frame so that only its first `byte_count` bytes remain."""
        position, length = self.spans.pop()
        assert 0 < byte_count < length, f"the last frame has {length} bytes"
        del self.buffer[position + byte_count :]
        return self

    def damaged(self, index: int = -1, place: int = 12) -> Log:
        """Flip all bits of byte `place` of frame `index`: 0..7 length, 8..11 its checksum, 12.. payload;
        -4..-1 is the payload's checksum."""
        position, length = self.spans[index]
        self.buffer[position + place % length] ^= 0xFF
        return self

    # --- to a file ---

    def write_summary(self, job_dir: Path, timestamp: int = 1_700_000_000, device: int | None = 0) -> Path:
        """Write `events.out.events.summary.{timestamp}.{device}.host_MS`; makes the directory."""
        return self.write(job_dir / filenames.compose("events", timestamp, device, "host", "_MS"))

    def write_lineage(self, job_dir: Path, timestamp: int = 1_700_000_000, device: int | None = 0) -> Path:
        """Write `events.out.events.summary.{timestamp}.{device}.host_lineage`; makes the directory."""
        return self.write(job_dir / filenames.compose("events", timestamp, device, "host", "_lineage"))

    def write(self, path: Path) -> Path:
        """Write to a path of any name; makes the directory."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.buffer)
        return path

    def _tick(self, wall_time: float | None) -> float:
        if wall_time is not None:
            return wall_time
        self.wall_time += 1.0
        return self.wall_time - 1.0

    def _append_frame(self, frame: bytes) -> Log:
        self.spans.append((len(self.buffer), len(frame)))
        self.buffer += frame
        return self


def write_small_job(directory: Path) -> None:
    """Write a job that has lineage, of network A, and a curve of one sample."""
    Log().train(network="A").write_lineage(directory)
    Log().scalar(1, "loss", 0.5).write_summary(directory)


class GrowingFile:
    """A file at `path` with the first `size` bytes of `content`, which grows as a live log file does."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content, self.size = path, content, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")

    def reveal(self, byte_count: int) -> bool:
        """Append the next bytes; return False when there are none left."""
        end = min(self.size + byte_count, len(self.content))
        with self.path.open("ab") as stream:
            stream.write(self.content[self.size : end])
        grown, self.size = end > self.size, end
        return grown

    def reveal_all(self) -> None:
        self.reveal(len(self.content))

    def slices(self, sizes: Iterator[int]) -> Iterator[int]:
        """Append slices of these sizes until the file is complete; yield its size after each."""
        while self.reveal(next(sizes)):
            yield self.size

    def close(self) -> None:
        """Do what MindSpore does to a finished file."""
        self.path.chmod(0o400)


# --- values of a summary ---


def scalar(tag: str, value: float) -> summary_pb2.Summary.Value:
    return summary_pb2.Summary.Value(tag=tag, scalar_value=value)


def histogram(tag: str, values: ArrayLike, bucket_count: int = 5) -> summary_pb2.Summary.Value:
    """Return a histogram of the values; NaN and infinities are counted outside the buckets."""
    array = np.asarray(values, np.float64).ravel()
    finite = array[np.isfinite(array)]
    message = summary_pb2.Summary.Histogram(
        nan_count=int(np.isnan(array).sum()),
        pos_inf_count=int(np.isposinf(array).sum()),
        neg_inf_count=int(np.isneginf(array).sum()),
        max=finite.max(initial=-np.inf) if finite.size else 0.0,
        min=finite.min(initial=np.inf) if finite.size else 0.0,
        sum=finite.sum(),
        count=array.size,
    )
    if finite.size:
        counts, edges = np.histogram(finite, bucket_count)
        for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
            message.buckets.add(left=left, width=right - left, count=count)
    return summary_pb2.Summary.Value(tag=tag, histogram=message)


def image(tag: str, pixels: ArrayLike) -> summary_pb2.Summary.Value:
    """Return an image of pixels (height, width, 3), 0..255, as PNG."""
    array = np.asarray(pixels, np.uint8)
    height, width, _ = array.shape
    message = summary_pb2.Summary.Image(height=height, width=width, colorspace=3, encoded_image=png(array))
    return summary_pb2.Summary.Value(tag=tag, image=message)


def tensor(tag: str, values: ArrayLike) -> summary_pb2.Summary.Value:
    return summary_pb2.Summary.Value(tag=tag, tensor=tensor_message(values))


def landscape(tag: str, z: ArrayLike) -> summary_pb2.Summary.Value:
    """Return a loss landscape over a square of the size of `z`, with a path through its first row."""
    surface = np.asarray(z, np.float32)
    y, x = np.mgrid[: surface.shape[0], : surface.shape[1]]
    message = summary_pb2.LossLandscape()
    for point, rows in ((message.landscape, slice(None)), (message.loss_path.points, 0)):
        for axis, values in (("x", x), ("y", y), ("z", surface)):
            getattr(point, axis).CopyFrom(tensor_message(np.float32(values[rows])))
    message.loss_path.intervals.extend(range(surface.shape[1]))
    message.metadata.decomposition, message.metadata.unit, message.metadata.step_per_epoch = "PCA", "step", 4
    return summary_pb2.Summary.Value(tag=tag, loss_landscape=message)


def tensor_message(values: ArrayLike) -> anf_ir_pb2.TensorProto:
    """Return a tensor in MindSpore's form: the declared type of the array, its elements as float32."""
    array = np.asarray(values)
    data_type = f"DT_{array.dtype.name.upper()}"
    elements = array.astype(np.float32).ravel().tolist()
    return anf_ir_pb2.TensorProto(dims=array.shape, data_type=data_type, float_data=elements)


def chain_graph(*operations: str) -> anf_ir_pb2.GraphProto:
    graph = anf_ir_pb2.GraphProto(name="network")
    graph.parameters.add(name="x").type.data_type = anf_ir_pb2.DT_TENSOR
    previous = "x"
    for number, operation in enumerate(operations, 1):
        node = graph.node.add(
            name=str(number), op_type=operation, full_name=f"Default/{operation}-op{number}"
        )
        node.input.add(name=previous)
        previous = str(number)
    graph.outputs.add(name=previous)
    return graph


def png(pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> bytes:
    """Return pixels as a minimal PNG: 8-bit RGB, no filter."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


# --- dataset graphs ---


def _fill_graph(message: lineage_pb2.DatasetGraph, graph: Mapping[str, Any]) -> None:
    for key, value in graph.items():
        if key == "children":
            for child in value:
                _fill_graph(message.children.add(), child)
        elif key == "operations":
            for operation in value:
                _fill_operation(message.operations.add(), operation)
        elif key == "sampler":
            _fill_operation(message.sampler, value)
        else:
            _fill_parameter(message.parameter, key, value)


def _fill_operation(message: lineage_pb2.Operation, operation: Mapping[str, Any]) -> None:
    for key, value in operation.items():
        if key == "size":
            message.size.extend(value)
        elif key == "weights":
            message.weights.extend(value)
        else:
            _fill_parameter(message.operationParam, key, value)


def _fill_parameter(message: lineage_pb2.OperationParameter, key: str, value: object) -> None:
    if isinstance(value, bool):
        message.mapBool[key] = value
    elif isinstance(value, int):
        message.mapInt[key] = value
    elif isinstance(value, float):
        message.mapDouble[key] = value
    elif isinstance(value, Sequence) and not isinstance(value, str):
        message.mapStrList[key].strValue.extend("" if item is None else item for item in value)
    else:
        message.mapStr[key] = "None" if value is None else str(value)
