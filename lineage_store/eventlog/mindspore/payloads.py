"""Decode histograms, images, tensors, landscapes and graphs from the payload of their frame.

In: the payload of one frame, and the index of the value in its event (PayloadValue.value_index). Out: frozen values
with numpy arrays that belong to the caller, or bytes; a graph as a dict that is JSON-able, except for NaN and
infinities. Promises: values are what MindSpore wrote, a graph's nodes in the file's order; EventDecodeError if the
payload is no summary event, has no such value at that index, or contradicts itself. Does not know where the bytes came
from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from google.protobuf import text_format
from numpy.typing import NDArray

from lineage_store import plugins
from lineage_store.eventlog.mindspore.events import DTYPE_NAMES, histogram_statistics, parse_message, text
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, summary_pb2
from lineage_store.eventlog.values import EventDecodeError, Histogram, Image, Landscape, Points


def decode_payload(plugin: str, payload: bytes, value_index: int) -> Any:
    """Return the value at that index: a Histogram, Image or Landscape, a tensor's array, or a graph as a dict."""
    return DECODERS[plugin](payload, value_index)


def decode_histogram(payload: bytes, value_index: int) -> Histogram:
    """Return the histogram at that index of the event."""
    histogram = _value(payload, value_index, "histogram").histogram
    return Histogram(
        left=np.array([bucket.left for bucket in histogram.buckets], np.float64),
        width=np.array([bucket.width for bucket in histogram.buckets], np.float64),
        count=np.array([bucket.count for bucket in histogram.buckets], np.int64),
        statistics=histogram_statistics(histogram),
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


def decode_graph(payload: bytes) -> Graph:
    """Return the computational graph of the event."""
    event = parse_message(summary_pb2.Event, payload)
    if not event.HasField("graph_def"):
        raise EventDecodeError(f"The event holds no graph but {event.WhichOneof('what') or 'nothing known'}.")
    return from_message(event.graph_def)


DECODERS: dict[str, Callable[[bytes, int], Any]] = {
    plugins.HISTOGRAM: decode_histogram,
    plugins.IMAGE: decode_image,
    plugins.TENSOR: decode_tensor,
    plugins.GRAPH: lambda payload, _: asdict(decode_graph(payload)),
    plugins.LANDSCAPE: decode_landscape,
}
"""The function (payload, value index) -> value of each plugin whose values stay in the log file."""


def _value(payload: bytes, value_index: int, field: str) -> summary_pb2.Summary.Value:
    values = parse_message(summary_pb2.Event, payload).summary.value
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


@dataclass(frozen=True, slots=True)
class GraphType:
    """The type of a node's output, a parameter or a tensor constant."""

    dtype: str
    """The type of a tensor's elements, such as "float32"; otherwise "tuple" and the like."""
    shape: tuple[int, ...] | None = None
    """For a tensor: its dims, -1 where unknown. None: the type has no shape."""
    elements: tuple[GraphType, ...] = ()
    """For a tuple or list: the types of its elements."""


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An edge that enters a node."""

    name: str
    """Name of the node, parameter or constant that the edge comes from."""
    is_control: bool


@dataclass(frozen=True, slots=True)
class GraphOperation:
    """One operation."""

    name: str
    op_type: str
    scope: str
    full_name: str
    instance_name: str
    inputs: tuple[GraphInput, ...]
    attributes: dict[str, Any]
    output_type: GraphType | None
    output_index: int = 0
    """For a node with several outputs: the index of the one that this node represents."""
    attribute_texts: dict[str, str] = field(default_factory=dict)
    """Attributes in protobuf's text format, as MindInsight prints them; long ones are left out."""


@dataclass(frozen=True, slots=True)
class GraphParameter:
    """A parameter or input of the network."""

    name: str
    type: GraphType | None
    default: Any


@dataclass(frozen=True, slots=True)
class GraphOutput:
    """An output of the network; `name` is that of the node that produces it."""

    name: str
    type: GraphType | None


@dataclass(frozen=True, slots=True)
class Graph:
    """One computational graph.

    Values of attributes and constants are numbers, text, None, lists and dicts of them; for a tensor or type, which
    MindSpore only describes, a GraphType; for a nested graph, a Graph.
    """

    name: str
    nodes: tuple[GraphOperation, ...]
    parameters: tuple[GraphParameter, ...]
    outputs: tuple[GraphOutput, ...]
    constants: dict[str, Any]
    constant_texts: dict[str, str] = field(default_factory=dict)
    """Constants in protobuf's text format; only the type for a long one."""


def from_message(graph: anf_ir_pb2.GraphProto) -> Graph:
    """Convert a graph to plain values."""
    return Graph(
        name=text(graph.name),
        nodes=tuple(_node(node) for node in graph.node),
        parameters=tuple(_parameter(parameter) for parameter in graph.parameters),
        outputs=tuple(GraphOutput(text(output.name), _type_of(output)) for output in graph.outputs),
        constants=_named_values(graph.const_vals),
        constant_texts={text(item.key): _constant_text(item.value) for item in graph.const_vals},
    )


def _node(node: anf_ir_pb2.NodeProto) -> GraphOperation:
    return GraphOperation(
        name=text(node.name),
        op_type=text(node.op_type),
        scope=text(node.scope),
        full_name=text(node.full_name),
        instance_name=text(node.instance_name),
        inputs=tuple(
            GraphInput(text(edge.name), edge.type == anf_ir_pb2.InputProto.CONTROL_EDGE)
            for edge in node.input
        ),
        attributes={text(attribute.name): _attribute_value(attribute.value) for attribute in node.attribute},
        output_type=_type(node.output_type) if node.HasField("output_type") else None,
        output_index=node.output_i,
        attribute_texts={
            text(each.name): written for each in node.attribute if (written := _text(each.value)) is not None
        },
    )


def _parameter(parameter: anf_ir_pb2.ParameterProto) -> GraphParameter:
    return GraphParameter(text(parameter.name), _type_of(parameter), _attribute_value(parameter.default_val))


def _type_of(holder: anf_ir_pb2.ParameterProto | anf_ir_pb2.OutputProto) -> GraphType | None:
    return _type(holder.type) if holder.HasField("type") else None


def _type(type_: anf_ir_pb2.TypeProto) -> GraphType:
    match type_.WhichOneof("value"):
        case "tensor_type":
            tensor = type_.tensor_type
            shape = tuple(dimension.size for dimension in tensor.shape.dim)
            return GraphType(DTYPE_NAMES[tensor.elem_type], shape)
        case "sequence_type":
            elements = tuple(_type(element) for element in type_.sequence_type.elem_types)
            return GraphType(DTYPE_NAMES[type_.data_type], None, elements)
        case _:
            return GraphType(DTYPE_NAMES[type_.data_type])


def _tensor_type(tensor: anf_ir_pb2.TensorProto) -> GraphType:
    return GraphType(DTYPE_NAMES[tensor.data_type], tuple(tensor.dims))


def _attribute_value(value: anf_ir_pb2.ValueProto) -> Any:
    """Return the one field that is set. An empty tuple, list or dict sets none; MindSpore writes None as a text."""
    if value.dtype == anf_ir_pb2.DT_NONE:
        return None
    for each, content in value.ListFields():
        if each.name in _SINGLE:
            return _SINGLE[each.name](content)
        if each.name in _REPEATED:
            return [_REPEATED[each.name](item) for item in content]
    return _EMPTY[value.dtype]() if value.dtype in _EMPTY else None


def _text(value: anf_ir_pb2.ValueProto) -> str | None:
    """Return the value in protobuf 3's text format, which prints the shortest decimals; None if the value is long."""
    if value.ByteSize() > _LONG_VALUE_BYTES:
        return None
    return text_format.MessageToString(value, as_utf8=False)


def _constant_text(value: anf_ir_pb2.ValueProto) -> str:
    written = _text(value)
    return f"dtype: {anf_ir_pb2.DataType.Name(value.dtype)}" if written is None else written


def _named_values(values: Iterable[anf_ir_pb2.NamedValueProto]) -> dict[str, Any]:
    return {text(item.key): _attribute_value(item.value) for item in values}


_LONG_VALUE_BYTES = 1024
_SINGLE: dict[str, Callable[[Any], Any]] = {
    "bool_val": bool,
    "int_val": int,
    "uint_val": int,
    "float_val": float,
    "double_val": float,
    "str_val": text,
    "tensor_val": _tensor_type,
    "graph": from_message,
    "dict_val": _named_values,
    "type_val": _type,
}
_REPEATED = {f"{name}s": convert for name, convert in _SINGLE.items()} | {"values": _attribute_value}
_EMPTY: dict[int, type] = {anf_ir_pb2.DT_TUPLE: list, anf_ir_pb2.DT_LIST: list, anf_ir_pb2.DT_DICT: dict}
