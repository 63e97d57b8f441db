"""Encode the values of one `record` call as frames of log files. Pure.

In: a Batch: a step, the time, and values as `values.entry_of` makes them. Out: an Encoded: complete frames for the
summary file and for the lineage file, in MindSpore's order, and arrays to export. Promises: the same events as from
MindSpore 2.10; a value that cannot be encoded is listed in `failures`, and the others are encoded. Does not know
files or threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.collect import histograms, images
from lineage_store.collect.values import LINEAGE_MESSAGES, Batch, Entry, Held
from lineage_store.collect.wire_bytes import double_field, float_field, length_field, varint_field
from lineage_store.errors import LineageParamValueError
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2
from lineage_store.eventlog.records.framing import encode_frame
from lineage_store.plugins import GRAPH, HISTOGRAM, TENSOR

VERSION = "MindSpore.Event:1"
_LINEAGE_FIELDS = {"eval_lineage": "evaluation_lineage", "custom_lineage_data": "user_defined_info"}
"""The fields of a LineageEvent that are not called like their plugin."""
_EVENT, _SUMMARY, _VALUE = summary_pb2.Event, summary_pb2.Summary, summary_pb2.Summary.Value
_TENSOR = anf_ir_pb2.TensorProto


@dataclass(frozen=True, slots=True)
class Export:
    """One array to save in a file of its own."""

    tag: str
    step: int
    values: NDArray[Any]


@dataclass(slots=True)
class Encoded:
    """The encoded values of one batch."""

    summary: list[bytes] = field(default_factory=list)
    lineage: list[bytes] = field(default_factory=list)
    exports: list[Export] = field(default_factory=list)
    failures: list[tuple[str, Exception]] = field(default_factory=list)
    """Descriptions of the values that could not be encoded, and the reasons."""


def encode(batch: Batch) -> Encoded:
    """Encode each graph and lineage message as an event of its own, and all other values as one event. Never raises."""
    encoded = Encoded()
    try:
        _encode(batch, encoded)
    except Exception as error:  # noqa: BLE001 - out of memory, or an event beyond protobuf's 2 GiB
        encoded.failures.append((f"values of step {batch.step}", error))
    return encoded


def version_frame(wall_time: float) -> bytes:
    """Return the first frame of a summary file."""
    return encode_frame(summary_pb2.Event(wall_time=wall_time, version=VERSION).SerializeToString())


def graph_frame(graph: bytes, wall_time: float) -> bytes:
    """Return the frame for a serialised GraphProto."""
    event = summary_pb2.Event(wall_time=wall_time)
    event.graph_def.MergeFromString(graph)
    event.graph_def.SetInParent()
    return encode_frame(event.SerializeToString())


def lineage_frame(plugin: str, message: bytes, wall_time: float) -> bytes:
    """Return the frame for a serialised lineage message of this plugin."""
    event = lineage_pb2.LineageEvent(wall_time=wall_time)
    content = getattr(event, _LINEAGE_FIELDS.get(plugin, plugin))
    content.MergeFromString(message)
    content.SetInParent()
    return encode_frame(event.SerializeToString())


def _encode(batch: Batch, encoded: Encoded) -> None:
    for entry in batch.entries:
        if entry.plugin == GRAPH:
            encoded.summary.append(graph_frame(_content(entry), batch.wall_time))
        elif entry.plugin in LINEAGE_MESSAGES:
            encoded.lineage.append(lineage_frame(entry.plugin, _content(entry), batch.wall_time))
        elif entry.plugin == TENSOR and batch.export_tensors and isinstance(entry.value, np.ndarray):
            encoded.exports.append(Export(entry.tag, batch.step, entry.value))
    if any(map(_is_sampled, batch.entries)):
        encoded.summary.append(encode_frame(_summary_event(batch, encoded.failures)))


def _summary_event(batch: Batch, failures: list[tuple[str, Exception]]) -> bytes:
    values = []
    for entry in filter(_is_sampled, batch.entries):
        try:
            values.append(_value(entry))
        except Exception as error:  # noqa: BLE001 - any array a training makes; the other values must not suffer
            failures.append((f"the {entry.plugin} {entry.tag!r} of step {batch.step}", error))
    return (
        double_field(_EVENT.WALL_TIME_FIELD_NUMBER, batch.wall_time)
        + varint_field(_EVENT.STEP_FIELD_NUMBER, batch.step)
        + length_field(_EVENT.SUMMARY_FIELD_NUMBER, b"".join(values))
    )


def _is_sampled(entry: Entry) -> bool:
    """Return whether the value goes into the common event, the one that has a step."""
    return entry.plugin != GRAPH and entry.plugin not in LINEAGE_MESSAGES


def _value(entry: Entry) -> bytes:
    """Encode the value as a field of a Summary."""
    return length_field(_SUMMARY.VALUE_FIELD_NUMBER, _tag(entry.tag) + _sample(entry.plugin, entry.value))


@lru_cache(maxsize=4096)
def _tag(tag: str) -> bytes:
    return length_field(_VALUE.TAG_FIELD_NUMBER, tag.encode())


def _sample(plugin: str, value: Held) -> bytes:
    if isinstance(value, float):
        return float_field(_VALUE.SCALAR_VALUE_FIELD_NUMBER, value)
    if isinstance(value, bytes):
        return length_field(_VALUE.LOSS_LANDSCAPE_FIELD_NUMBER, value)
    if plugin == HISTOGRAM:
        return length_field(_VALUE.HISTOGRAM_FIELD_NUMBER, histograms.encode(value))
    if plugin == TENSOR:
        return length_field(_VALUE.TENSOR_FIELD_NUMBER, _tensor(value))
    if images.is_image(value):
        return length_field(_VALUE.IMAGE_FIELD_NUMBER, images.encode(value))
    raise LineageParamValueError(
        f"An image must have 1 or 3 channels and some pixels, but has the shape {value.shape} "
        "(batch, channels, height, width)."
    )


def _tensor(values: NDArray[Any]) -> bytes:
    """Encode all elements as float32, whatever their type, by way of float64, as protobuf's setters do."""
    with np.errstate(over="ignore"):
        doubles = values if values.dtype.kind == "f" else values.astype(np.float64)
        packed = doubles.astype("<f4").tobytes()
    declared = anf_ir_pb2.DataType.Value(f"DT_{values.dtype.name.upper()}")
    return (
        b"".join(varint_field(_TENSOR.DIMS_FIELD_NUMBER, size) for size in values.shape)
        + varint_field(_TENSOR.DATA_TYPE_FIELD_NUMBER, declared)
        + (length_field(_TENSOR.FLOAT_DATA_FIELD_NUMBER, packed) if packed else b"")
    )


def _content(entry: Entry) -> bytes:
    assert isinstance(entry.value, bytes)
    return entry.value
