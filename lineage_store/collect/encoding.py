"""From the values of one `record` call to the frames of log files.

In: a Batch: a step, the time, and values as `values.held` gives them. Out: an Encoded: whole frames for the summary
file and for the lineage file, in MindSpore's order, and arrays to export. Promises: the events that MindSpore 2.10
packs; a value that cannot be encoded is told in `failures` and costs no other. Pure: knows no files and no threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.collect import histograms, images
from lineage_store.collect.values import LINEAGE_MESSAGES, Held
from lineage_store.errors import LineageParamValueError
from lineage_store.eventlog.framing import encode_frame
from lineage_store.eventlog.wire import anf_ir_pb2, lineage_pb2, summary_pb2

VERSION = "MindSpore.Event:1"
_LINEAGE_FIELDS = {
    "train_lineage": "train_lineage",
    "eval_lineage": "evaluation_lineage",
    "dataset_graph": "dataset_graph",
    "custom_lineage_data": "user_defined_info",
}
_FLOAT_DATA = bytes([anf_ir_pb2.TensorProto.FLOAT_DATA_FIELD_NUMBER << 3 | 2])
"""The key of packed `float_data` on the wire."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One value added."""

    plugin: str
    tag: str
    value: Held


@dataclass(frozen=True, slots=True)
class Batch:
    """What one call of `record` writes."""

    step: int
    wall_time: float
    """Seconds since the epoch."""
    entries: tuple[Entry, ...]
    """Grouped by plugin."""
    export_tensors: bool = False


@dataclass(frozen=True, slots=True)
class Export:
    """One array to be saved in a file of its own."""

    tag: str
    step: int
    values: NDArray[Any]


@dataclass(slots=True)
class Encoded:
    """What is to be written of one batch."""

    summary: list[bytes] = field(default_factory=list)
    lineage: list[bytes] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    """What of the batch could not be encoded, and why."""


def encode(batch: Batch) -> Encoded:
    """Graphs and lineage each in an event of its own, then all other values in one. Never raises."""
    encoded = Encoded()
    try:
        _encode(batch, encoded)
    except Exception as error:  # noqa: BLE001 - out of memory, or an event beyond protobuf's 2 GiB
        encoded.failures.append((f"values of step {batch.step}", error))
    return encoded


def version_frame(wall_time: float) -> bytes:
    """What opens a summary file."""
    return encode_frame(summary_pb2.Event(wall_time=wall_time, version=VERSION).SerializeToString())


def graph_frame(graph: bytes, wall_time: float) -> bytes:
    """The event of a serialised GraphProto."""
    event = summary_pb2.Event(wall_time=wall_time)
    event.graph_def.MergeFromString(graph)
    event.graph_def.SetInParent()
    return encode_frame(event.SerializeToString())


def lineage_frame(plugin: str, message: bytes, wall_time: float) -> bytes:
    """The event of a serialised lineage message of this plugin."""
    event = lineage_pb2.LineageEvent(wall_time=wall_time)
    content = getattr(event, _LINEAGE_FIELDS[plugin])
    content.MergeFromString(message)
    content.SetInParent()
    return encode_frame(event.SerializeToString())


def _encode(batch: Batch, encoded: Encoded) -> None:
    for entry in batch.entries:
        if entry.plugin == "graph":
            encoded.summary.append(graph_frame(_content(entry), batch.wall_time))
        elif entry.plugin in LINEAGE_MESSAGES:
            encoded.lineage.append(lineage_frame(entry.plugin, _content(entry), batch.wall_time))
        elif entry.plugin == "tensor" and batch.export_tensors and isinstance(entry.value, np.ndarray):
            encoded.exports.append(Export(entry.tag, batch.step, entry.value))
    if event := _summary_event(batch, encoded.failures):
        encoded.summary.append(encode_frame(event.SerializeToString()))


def _summary_event(batch: Batch, failures: list[tuple[str, Exception]]) -> summary_pb2.Event | None:
    entries = list(_sampled(batch))
    if not entries:
        return None
    event = summary_pb2.Event(wall_time=batch.wall_time, step=batch.step)
    event.summary.SetInParent()
    values = event.summary.value
    for entry in entries:
        try:
            _fill(values.add(tag=entry.tag), entry)
        except Exception as error:  # noqa: BLE001 - any array a training makes; the other values must not suffer
            del values[-1]
            failures.append((f"the {entry.plugin} {entry.tag!r} of step {batch.step}", error))
    return event


def _sampled(batch: Batch) -> Iterator[Entry]:
    return (e for e in batch.entries if e.plugin != "graph" and e.plugin not in LINEAGE_MESSAGES)


def _fill(message: summary_pb2.Summary.Value, entry: Entry) -> None:
    value = entry.value
    if isinstance(value, float):
        message.scalar_value = value
    elif isinstance(value, bytes):
        message.loss_landscape.MergeFromString(value)
        message.loss_landscape.SetInParent()
    elif entry.plugin == "histogram":
        histograms.fill(message.histogram, value)
    elif entry.plugin == "tensor":
        _fill_tensor(message.tensor, value)
    elif images.is_image(value):
        images.fill(message.image, value)
    else:
        raise LineageParamValueError(
            f"An image must have 1 or 3 channels and some pixels, but has the shape {value.shape} "
            "(batch, channels, height, width)."
        )


def _fill_tensor(message: anf_ir_pb2.TensorProto, values: NDArray[Any]) -> None:
    """All elements as float32, whatever their type, through a double as the protobuf setters do."""
    message.data_type = anf_ir_pb2.DataType.Value(f"DT_{values.dtype.name.upper()}")  # type: ignore[assignment]
    message.dims.extend(values.shape)
    with np.errstate(over="ignore"):
        doubles = values if values.dtype.kind == "f" else values.astype(np.float64)
        packed = doubles.astype("<f4").tobytes()
    message.MergeFromString(_FLOAT_DATA + _varint(len(packed)) + packed)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _content(entry: Entry) -> bytes:
    assert isinstance(entry.value, bytes)
    return entry.value
