"""Reads the operations, parameters and constants of a graph from a log file, and connects them by name.

In: a graph as plain values. Out: `Nodes` without scopes. Raises ValueError for a name that MindInsight's page cannot
draw: MindInsight then shows no graph at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lineage_store.server.mindinsight.graph.nodes import CONST, PARAMETER, Edge, Node, Nodes, joined

_PLUGIN_AT_END = re.compile(
    r"\[:(image|scalar|graph|optimized_graph|histogram|tensor|loss_landscape)\]\Z", re.IGNORECASE
)
_DYNAMIC = ("input_is_dynamic_shape", "output_is_dynamic_shape")
_TENSOR, _TUPLE, _UNDEFINED = "DT_TENSOR", "DT_TUPLE", "DT_UNDEFINED"
_UNKNOWN = {
    f"DT_{name}"
    for name in ("COMPLEX64", "COMPLEX128", "BASE_COMPLEX", "BFLOAT16", "BFLOATS16", "INT4", "SLICE")
}
"""Types that are newer than MindInsight, which treats them as undefined."""
Raw = Mapping[str, Any]


def read_nodes(graph: Raw, is_left_out: Callable[[Raw], bool] = lambda operation: False) -> Nodes:
    """Return the nodes of a graph, in its order, with their inputs keyed by id."""
    nodes = Nodes()
    for order, operation in enumerate(graph["nodes"]):
        if operation["name"] and not is_left_out(operation):
            nodes.add(_operation(order, operation))
    for parameter in filter(lambda each: each["name"], graph["parameters"]):
        shapes, data_type = shapes_of(parameter["type"]), data_type_of(parameter["type"])
        attributes = {"type": data_type, "shape": str(shapes)}
        nodes.add(_leaf(parameter["name"], PARAMETER, attributes, shapes, data_type))
    for name, value in graph["constants"].items():
        if name:
            is_tensor = isinstance(value, dict) and value.keys() == {"dtype", "shape", "elements"}
            shapes = [list(value["shape"] or ())] if is_tensor else [[]]
            nodes.add(_leaf(name, CONST, {name: graph["constant_texts"][name]}, shapes, ""))
    return nodes


def connect_inputs(nodes: Nodes) -> None:
    """Replace the ids of inputs by names; drop inputs whose id no node has."""
    for node in nodes:
        for node_id, edge in list(node.inputs.items()):
            del node.inputs[node_id]
            if source := nodes.by_id(node_id):
                node.connect("inputs", source.name, described(edge, source))


def connect_outputs(nodes: Nodes) -> None:
    """Give each operation its outputs, derived from the inputs of other nodes."""
    for node in nodes:
        for name, edge in node.inputs.items():
            source = nodes.get(name)
            if source and source.type not in (PARAMETER, CONST):
                source.connect("outputs", node.name, edge)


def described(edge: Edge, source: Node) -> Edge:
    """Set an edge's shape and type to those of its source, and return it."""
    edge["shape"], edge["data_type"] = source.shapes, source.data_type
    return edge


def shapes_of(type_: Raw | None) -> list[list[int]]:
    """Return the shape of each output; an empty shape for one that is not a tensor."""
    if type_ is None:
        return []
    if type_["shape"] is not None:
        return [list(type_["shape"])]
    if _name(type_) == _TUPLE:
        return [shape for element in type_["elements"] for shape in shapes_of(element)]
    return [] if _name(type_) in (_TENSOR, _UNDEFINED) else [[]]


def data_type_of(type_: Raw | None) -> str:
    """Return the type as MindSpore spells it."""
    if type_ is None:
        return _UNDEFINED
    name = _name(type_)
    if type_["shape"] is not None:
        return f"{_TENSOR}[{name}]"
    if name == _TUPLE:
        return f"{name}{[data_type_of(element) for element in type_['elements']]}"
    return f"{name}[{_UNDEFINED}]" if name == _TENSOR else name


def _name(type_: Raw) -> str:
    name = f"DT_{type_['dtype'].upper()}"
    return _UNDEFINED if name in _UNKNOWN else name


def _operation(order: int, operation: Raw) -> Node:
    number = operation["name"].rpartition("/")[2].rpartition("op")[2]
    name = operation["full_name"] or joined(operation["scope"], f"{operation['op_type']}-op{number}")
    if _PLUGIN_AT_END.search(operation["full_name"]):
        name = joined(operation["scope"], f"{operation['op_type']}-op{operation['name']}")
    node = Node(
        name=_drawable(name),
        id=number,
        type=operation["op_type"],
        scope=operation["scope"],
        order=order,
        attributes=operation["attribute_texts"],
        shapes=shapes_of(operation["output_type"]),
        data_type=data_type_of(operation["output_type"]),
        output_index=operation["output_index"],
        is_dynamic=any(operation["attributes"].get(name) is True for name in _DYNAMIC),
    )
    for each in filter(lambda each: each["name"], operation["inputs"]):
        source = each["name"].rpartition("op")[2] if "/" in each["name"] else each["name"]
        node.inputs[source] = {
            "shape": [],
            "edge_type": "control" if each["is_control"] else "data",
            "independent_layout": False,
            "data_type": "",
        }
    return node


def _leaf(name: str, type_: str, attributes: dict[str, str], shapes: list[list[int]], data_type: str) -> Node:
    return Node(_drawable(name), name, type_, attributes=attributes, shapes=shapes, data_type=data_type)


def _drawable(name: str) -> str:
    if set(name) & set('<>"'):
        raise ValueError(f"MindInsight's page cannot draw a node that is called {name!r}.")
    return name
