"""Encode the values of one `record` call as frames of log files. Pure.

In: a RecordedStep: a step, the time, and values as `added_value` makes them. Out: an Encoded: complete frames for the
summary file and for the lineage file, in MindSpore's order, and arrays to export. Promises: the same events as from
MindSpore 2.10, on every numpy from 1.26: histograms have the same bits, by the same arithmetic, and images the same
pixels; the same bytes too where Pillow is installed, as it always is with MindSpore. Where MindSpore's arithmetic
fails, as for unsigned zeros, there is a histogram all the same. A value that cannot be encoded is listed in `failures`,
and the others are encoded. Does not know files or threads.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.collect.entries import LINEAGE_MESSAGES, AddedValue, Held, RecordedStep
from lineage_store.collect.wire_bytes import double_field, float_field, length_field, varint_field
from lineage_store.errors import LineageParamValueError
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2
from lineage_store.eventlog.tfrecord import encode_frame
from lineage_store.plugins import GRAPH, HISTOGRAM, TENSOR

VERSION = "MindSpore.Event:1"
_LINEAGE_FIELDS = {"eval_lineage": "evaluation_lineage", "custom_lineage_data": "user_defined_info"}
"""The fields of a LineageEvent that are not called like their plugin."""
_EVENT, _SUMMARY, _VALUE = summary_pb2.Event, summary_pb2.Summary, summary_pb2.Summary.Value
_TENSOR = anf_ir_pb2.TensorProto
_HISTOGRAM, _BUCKET = summary_pb2.Summary.Histogram, summary_pb2.Summary.Histogram.bucket

_MANY_VALUES, _MOST_BUCKETS = 880, 90
_VALUES_A_BUCKET = 10
_FEW = ((5, 2), (10, 3))
"""(n, buckets): up to n values get that many buckets."""
_OF_BOOLEANS = np.array([0.0, 0.5, 1.0])
"""The edges of a bucket for False and one for True; MindSpore's writer fails for booleans."""
CHANNELS = 3
_COLUMNS = 8
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BIT_RGB = bytes([8, 2, 0, 0, 0])
"""The rest of a PNG header behind width and height: depth, colour type, compression, filter, interlace."""


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


def encode_step(batch: RecordedStep) -> Encoded:
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


def _encode(batch: RecordedStep, encoded: Encoded) -> None:
    for entry in batch.entries:
        if entry.plugin == GRAPH:
            encoded.summary.append(graph_frame(_content(entry), batch.wall_time))
        elif entry.plugin in LINEAGE_MESSAGES:
            encoded.lineage.append(lineage_frame(entry.plugin, _content(entry), batch.wall_time))
        elif entry.plugin == TENSOR and batch.export_tensors and isinstance(entry.value, np.ndarray):
            encoded.exports.append(Export(entry.tag, batch.step, entry.value))
    if any(map(_is_sampled, batch.entries)):
        encoded.summary.append(encode_frame(_summary_event(batch, encoded.failures)))


def _summary_event(batch: RecordedStep, failures: list[tuple[str, Exception]]) -> bytes:
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


def _is_sampled(entry: AddedValue) -> bool:
    """Return whether the value goes into the common event, the one that has a step."""
    return entry.plugin != GRAPH and entry.plugin not in LINEAGE_MESSAGES


def _value(entry: AddedValue) -> bytes:
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
        return length_field(_VALUE.HISTOGRAM_FIELD_NUMBER, encode_histogram(value))
    if plugin == TENSOR:
        return length_field(_VALUE.TENSOR_FIELD_NUMBER, _tensor(value))
    if is_image(value):
        return length_field(_VALUE.IMAGE_FIELD_NUMBER, encode_image(value))
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


def _content(entry: AddedValue) -> bytes:
    assert isinstance(entry.value, bytes)
    return entry.value


def encode_histogram(values: NDArray[Any]) -> bytes:
    """Return the serialised Histogram of booleans, integers or floats.

    Its buckets span the finite values; without any there are no buckets.
    """
    is_boolean = values.dtype == np.bool_
    if is_boolean:
        values = values.astype(np.uint8)
    finite = np.isfinite(values)
    valid = int(np.count_nonzero(finite))
    nan_count = pos_inf_count = neg_inf_count = 0
    if valid < values.size:
        invalid = (np.isnan, np.isposinf, np.isneginf)
        nan_count, pos_inf_count, neg_inf_count = (int(np.count_nonzero(kind(values))) for kind in invalid)
    counts = (
        varint_field(_HISTOGRAM.NAN_COUNT_FIELD_NUMBER, nan_count)
        + varint_field(_HISTOGRAM.POS_INF_COUNT_FIELD_NUMBER, pos_inf_count)
        + varint_field(_HISTOGRAM.NEG_INF_COUNT_FIELD_NUMBER, neg_inf_count)
    )
    total = varint_field(_HISTOGRAM.COUNT_FIELD_NUMBER, values.size)
    if not valid:
        return counts + total
    # The last bits of a sum depend on its order: like MindSpore, add zeros in place of values that are not finite.
    filled = values if valid == values.size else np.where(finite, values, values.dtype.type(0))
    limits = np.finfo(values.dtype) if values.dtype.kind == "f" else np.iinfo(values.dtype)
    least = float(values.min(where=finite, initial=limits.max))
    greatest = float(values.max(where=finite, initial=limits.min))
    with np.errstate(over="ignore"):
        sum_of_all = float(filled.sum(dtype=np.float64))
    edges = _OF_BOOLEANS if is_boolean else _edges(least, greatest, bucket_count(valid), values.dtype)
    return (
        _buckets(values, edges)
        + counts
        + double_field(_HISTOGRAM.MAX_FIELD_NUMBER, greatest)
        + double_field(_HISTOGRAM.MIN_FIELD_NUMBER, least)
        + double_field(_HISTOGRAM.SUM_FIELD_NUMBER, sum_of_all)
        + total
    )


def bucket_count(valid: int) -> int:
    """Return the number of buckets for `valid` finite values; `valid` is 1 or more."""
    for most, buckets in _FEW:
        if valid <= most:
            return buckets
    return valid // _VALUES_A_BUCKET + 1 if valid <= _MANY_VALUES else _MOST_BUCKETS


def _buckets(values: NDArray[Any], edges: NDArray[Any]) -> bytes:
    counts, _ = np.histogram(values, bins=edges)
    buckets = zip(edges.tolist(), np.diff(edges).tolist(), counts.tolist(), strict=False)
    encoded = bytearray()
    for left, width, held in buckets:
        bucket = double_field(_BUCKET.LEFT_FIELD_NUMBER, left)
        bucket += double_field(_BUCKET.WIDTH_FIELD_NUMBER, width) + varint_field(
            _BUCKET.COUNT_FIELD_NUMBER, held
        )
        encoded += length_field(_HISTOGRAM.BUCKETS_FIELD_NUMBER, bucket)
    return bytes(encoded)


def _edges(least: float, greatest: float, buckets: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if not least < greatest:
        least, greatest = least - 0.5, greatest + 0.5
    with np.errstate(all="ignore"):
        edges = np.linspace(least, greatest, buckets + 1, dtype=dtype)
    rising = bool((edges[1:] >= edges[:-1]).all())
    return edges if rising else np.linspace(least, greatest, buckets + 1)


def is_image(values: NDArray[Any]) -> bool:
    """Return whether the array is a batch of grey or RGB images with at least one pixel."""
    return values.ndim == 4 and values.shape[1] in (1, CHANNELS) and values.size > 0


def encode_image(values: NDArray[Any]) -> bytes:
    """Encode a batch, for which `is_image` must be true, as one serialised Image: a PNG of its images side by side."""
    pixels = _as_bytes(_tiled(values).transpose(1, 2, 0))
    height, width, channels = pixels.shape
    image = summary_pb2.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image=_png(pixels)
    )
    return image.SerializeToString()


def _tiled(values: NDArray[Any]) -> NDArray[np.float64]:
    """Place the images side by side, eight per row, on black; grey becomes RGB."""
    count, _, height, width = values.shape
    columns = min(count, _COLUMNS)
    canvas = np.zeros((CHANNELS, height * math.ceil(count / columns), width * columns))
    for index, image in enumerate(values):
        top, left = height * (index // columns), width * (index % columns)
        canvas[:, top : top + height, left : left + width] = image
    return canvas


def _as_bytes(pixels: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Scale to bytes: values that are all within 0..1 by 255, others linearly from their range."""
    least, greatest = float(pixels.min()), float(pixels.max())
    with np.errstate(all="ignore"):
        if greatest <= 1 and least >= 0:
            scale, shift = 255.0, 0.0
        else:
            scale, shift = 255 / (greatest - least + 1), least
        scaled: NDArray[np.uint8] = ((pixels.astype(np.float32) - shift) * scale).astype(np.uint8)
    return scaled


def _png(pixels: NDArray[np.uint8]) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        return _plain_png(pixels)
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, format="PNG")
    return encoded.getvalue()


def _plain_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode a PNG of unfiltered lines, for which the standard library is enough."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    header = struct.pack(">II", width, height) + _EIGHT_BIT_RGB
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return _PNG_SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
