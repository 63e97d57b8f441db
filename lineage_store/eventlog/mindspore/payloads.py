"""Decode histograms, images, tensors, landscapes and graphs from the payload of their frame.

In: the payload of one frame, and the index of the value in its event (PayloadValue.value_index). Out: frozen values
with numpy arrays that belong to the caller, or bytes. Promises: values are what MindSpore wrote; EventDecodeError if
the payload is no summary event, has no such value at that index, or contradicts itself. Does not know where the bytes
came from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store import plugins
from lineage_store.eventlog.mindspore import graphs
from lineage_store.eventlog.mindspore.events import statistics_of
from lineage_store.eventlog.mindspore.messages import DTYPE_NAMES, parse, text
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, summary_pb2
from lineage_store.eventlog.values import EventDecodeError, Histogram, Image, Landscape, Points


def decode(plugin: str, payload: bytes, value_index: int) -> Any:
    """Return the value at that index: a Histogram, Image or Landscape, a tensor's array, or a graph as a dict."""
    return DECODERS[plugin](payload, value_index)


def decode_histogram(payload: bytes, value_index: int) -> Histogram:
    """Return the histogram at that index of the event."""
    histogram = _value(payload, value_index, "histogram").histogram
    return Histogram(
        left=np.array([bucket.left for bucket in histogram.buckets], np.float64),
        width=np.array([bucket.width for bucket in histogram.buckets], np.float64),
        count=np.array([bucket.count for bucket in histogram.buckets], np.int64),
        statistics=statistics_of(histogram),
    )


def decode_image(payload: bytes, value_index: int) -> Image:
    """Return the image at that index of the event, still encoded."""
    image = _value(payload, value_index, "image").image
    return Image(image.encoded_image, image.height, image.width, image.colorspace)


def decode_tensor(payload: bytes, value_index: int) -> NDArray[Any]:
    """Return the elements of the tensor at that index of the event, in its shape.

    MindSpore writes every type as float32, so the file has fewer digits than an int64 above 2**24 or a float64 had.
    """
    return _tensor(_value(payload, value_index, "tensor").tensor)


def decode_landscape(payload: bytes, value_index: int) -> Landscape:
    """Return the loss landscape at that index of the event."""
    landscape = _value(payload, value_index, "loss_landscape").loss_landscape
    path, metadata = landscape.loss_path, landscape.metadata
    return Landscape(
        surface=_points(landscape.landscape),
        path=_points(path.points) if path.HasField("points") else None,
        intervals=tuple(path.intervals),
        convergence=_points(landscape.convergence_point) if landscape.HasField("convergence_point") else None,
        decomposition=text(metadata.decomposition),
        unit=text(metadata.unit),
        step_per_epoch=metadata.step_per_epoch,
    )


def decode_graph(payload: bytes) -> graphs.Graph:
    """Return the computational graph of the event."""
    event = parse(summary_pb2.Event, payload)
    if not event.HasField("graph_def"):
        raise EventDecodeError(f"The event holds no graph but {event.WhichOneof('what') or 'nothing known'}.")
    return graphs.from_message(event.graph_def)


DECODERS: dict[str, Callable[[bytes, int], Any]] = {
    plugins.HISTOGRAM: decode_histogram,
    plugins.IMAGE: decode_image,
    plugins.TENSOR: decode_tensor,
    plugins.GRAPH: lambda payload, _: asdict(decode_graph(payload)),
    plugins.LANDSCAPE: decode_landscape,
}
"""The function (payload, value index) -> value of each plugin whose values stay in the log file."""


def _value(payload: bytes, value_index: int, field: str) -> summary_pb2.Summary.Value:
    values = parse(summary_pb2.Event, payload).summary.value
    if not 0 <= value_index < len(values):
        raise EventDecodeError(f"The event has {len(values)} values, none at place {value_index}.")
    value = values[value_index]
    if not value.HasField(field):
        found = value.WhichOneof("value") or "nothing known"
        raise EventDecodeError(f"The value at place {value_index} of the event is no {field} but {found}.")
    return value


def _points(point: summary_pb2.LossLandscape.Point) -> Points:
    return Points(_tensor(point.x), _tensor(point.y), _tensor(point.z))


def _tensor(tensor: anf_ir_pb2.TensorProto) -> NDArray[Any]:
    shape, elements = tuple(tensor.dims), _elements(tensor)
    if any(size < 0 for size in shape) or math.prod(shape) != elements.size:
        raise EventDecodeError(f"The tensor of shape {list(shape)} holds {elements.size} elements.")
    try:
        return elements.reshape(shape)
    except ValueError as error:  # a shape without elements whose other dimensions are too large
        raise EventDecodeError(f"No array has the tensor's shape {list(shape)}: {error}.") from error


def _elements(tensor: anf_ir_pb2.TensorProto) -> NDArray[Any]:
    if tensor.HasField("raw_data"):
        return _raw_elements(tensor.raw_data, DTYPE_NAMES[tensor.data_type])
    lists: tuple[tuple[Iterable[float], type[np.number[Any]]], ...] = (
        (tensor.int32_data, np.int32),
        (tensor.int64_data, np.int64),
        (tensor.double_data, np.float64),
        (tensor.uint64_data, np.uint64),
    )
    elements, element_type = next((pair for pair in lists if pair[0]), (tensor.float_data, np.float32))
    return np.array(elements, element_type)


def _raw_elements(raw: bytes, dtype: str) -> NDArray[Any]:
    try:
        if dtype == "bfloat16":  # numpy has no such type: the upper half of a float32
            return (np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
        return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).copy()
    except (TypeError, ValueError) as error:
        raise EventDecodeError(
            f"The tensor's {len(raw)} raw bytes cannot be read as {dtype}: {error}."
        ) from error
