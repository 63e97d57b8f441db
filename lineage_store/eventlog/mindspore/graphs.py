"""Convert computational graphs to frozen, JSON-able values, free of protobuf.

In: a GraphProto, as MindSpore writes it for a network. Out: its nodes in the file's order, its parameters, outputs and
constants. Values of attributes and constants are numbers, text, None, lists and dicts of them; for a tensor or type,
which MindSpore only describes, a GraphType; for a nested graph, a Graph. Promises: `dataclasses.asdict` of a Graph is
JSON-able, except for NaN and infinities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import text_format

from lineage_store.eventlog.mindspore.messages import DTYPE_NAMES, text
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2


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
class GraphNode:
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
    """One computational graph."""

    name: str
    nodes: tuple[GraphNode, ...]
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


def _node(node: anf_ir_pb2.NodeProto) -> GraphNode:
    return GraphNode(
        name=text(node.name),
        op_type=text(node.op_type),
        scope=text(node.scope),
        full_name=text(node.full_name),
        instance_name=text(node.instance_name),
        inputs=tuple(
            GraphInput(text(edge.name), edge.type == anf_ir_pb2.InputProto.CONTROL_EDGE)
            for edge in node.input
        ),
        attributes={text(attribute.name): _value(attribute.value) for attribute in node.attribute},
        output_type=_type(node.output_type) if node.HasField("output_type") else None,
        output_index=node.output_i,
        attribute_texts={
            text(each.name): written for each in node.attribute if (written := _text(each.value)) is not None
        },
    )


def _parameter(parameter: anf_ir_pb2.ParameterProto) -> GraphParameter:
    return GraphParameter(text(parameter.name), _type_of(parameter), _value(parameter.default_val))


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


def _value(value: anf_ir_pb2.ValueProto) -> Any:
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
    return {text(item.key): _value(item.value) for item in values}


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
_REPEATED = {f"{name}s": convert for name, convert in _SINGLE.items()} | {"values": _value}
_EMPTY: dict[int, type] = {anf_ir_pb2.DT_TUPLE: list, anf_ir_pb2.DT_LIST: list, anf_ir_pb2.DT_DICT: dict}
