"""The nodes of a graph while it is being built: read, connected by name, perhaps reduced to the optimized view, scoped.

In: a graph as plain values. Out: `Nodes`, which finds them by name and by id; all answers list nodes in their order.
Promises: a renamed node moves to the end, and so do its neighbours' edges to it. Unless a step copies it, an edge is
one dict shared by both its ends: a change at one end is visible at the other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Mode = Literal["normal", "optimize"]
_LEAST_GROUP: Mapping[Mode, int] = {"normal": 5, "optimize": 10}
"""How many nodes of one type in one scope make a group."""
_DEEPEST = 100
"""The most nested scopes: each part of a name becomes a node, and the work grows with the square of the parts."""
PARAMETER, CONST = "Parameter", "Const"
NAME_SCOPE, AGGREGATION_SCOPE = "name_scope", "aggregation_scope"
Edge = dict[str, Any]
EDGE_SETS = ("inputs", "outputs", "proxy_inputs", "proxy_outputs")
Raw = Mapping[str, Any]
"""A graph of a log file, or a part of one, as plain values."""
_PASSING_ON = ("Load", "TupleGetItem", "MakeTuple", "UpdateState")
"""Operations that load, pack or order values."""
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


@dataclass(slots=True, eq=False)
class Node:
    """An operation, parameter, constant or scope."""

    name: str
    id: str
    type: str = ""
    scope: str = ""
    order: int = -1
    """Index among the operations, which are in topological order."""
    attributes: dict[str, str] = field(default_factory=dict)
    shapes: list[list[int]] = field(default_factory=list)
    """Shapes of the outputs."""
    data_type: str = ""
    output_index: int = 0
    subnode_count: int = 0
    is_dynamic: bool = False
    independent_layout: bool = False
    inputs: dict[str, Edge] = field(default_factory=dict)
    outputs: dict[str, Edge] = field(default_factory=dict)
    proxy_inputs: dict[str, Edge] = field(default_factory=dict)
    proxy_outputs: dict[str, Edge] = field(default_factory=dict)

    @property
    def base_name(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("/")[2]

    def connect(self, edges: str, other: str, edge: Edge) -> None:
        """Add an edge to the node `other`; an edge with an unknown dimension makes this node dynamic."""
        self.is_dynamic |= any(-1 in shape or -2 in shape for shape in edge.get("shape", ()))
        getattr(self, edges)[other] = edge

    def shown(self) -> dict[str, Any]:
        """Return the node as it appears in answers."""
        return {
            "name": self.name,
            "type": self.type,
            "is_dynamic_shape_node": self.is_dynamic,
            "attr": self.attributes,
            "input": self.inputs,
            "output": self.outputs,
            "output_i": self.output_index,
            "proxy_input": self.proxy_inputs,
            "proxy_output": self.proxy_outputs,
            "subnode_count": self.subnode_count,
            "independent_layout": self.independent_layout,
            "stack_info": [],
        }


class Nodes:
    """An ordered collection of nodes with unique names."""

    def __init__(self) -> None:
        self._by_name: dict[str, Node] = {}
        self._names: dict[str, str] = {}

    def __iter__(self) -> Iterator[Node]:
        return iter(self._by_name.values())

    def get(self, name: str) -> Node | None:
        """Return the node of this name, or None."""
        return self._by_name.get(name)

    def by_id(self, node_id: str) -> Node | None:
        """Return the node of this id, or None."""
        return self._by_name.get(self._names.get(node_id, ""))

    def add(self, node: Node) -> None:
        """Add a node at the end, or replace the node with the same name."""
        self._by_name[node.name] = node
        self._names[node.id] = node.name

    def remove(self, names: Iterable[str]) -> None:
        """Remove nodes; edges to them stay."""
        for name in names:
            self._names.pop(self._by_name.pop(name).id, None)

    def operations(self) -> list[Node]:
        """Return the nodes that are neither parameters nor constants, in topological order."""
        found = (node for node in self if node.type not in (PARAMETER, CONST))
        return sorted(found, key=lambda node: node.order)

    def rename(self, node: Node, name: str, *, in_scopes: bool = False) -> None:
        """Rename a node, also in its neighbours' edges; with `in_scopes`, also in edges that scopes have inherited."""
        old = node.name
        node.name, node.scope = name, name.rpartition("/")[0] or name
        for neighbour in self._neighbours(node, in_scopes):
            for edges in EDGE_SETS:
                of_kind = getattr(neighbour, edges)
                if old in of_kind:
                    of_kind[name] = of_kind.pop(old)
        self.remove([old])
        self.add(node)

    def _neighbours(self, node: Node, in_scopes: bool) -> list[Node]:
        names: dict[str, None] = {}
        for edges in EDGE_SETS:
            for name in getattr(node, edges):
                names[name] = None
                if in_scopes:
                    names |= dict.fromkeys(prefixes(name))
        return [found for name in names if (found := self.get(name))]


def _joined(scope: str, name: str) -> str:
    """Return the full name of `name` in a scope."""
    return f"{scope}/{name}" if scope else name


def prefixes(name: str) -> list[str]:
    """Return the scopes of a name, outermost first."""
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def _inherit(nodes: Nodes, scope: Node, members: Iterable[Node]) -> None:
    """Give a scope its members' edges that lead outside, except those to constants."""
    inside = f"{scope.name}/"
    members = list(members)
    for edges in EDGE_SETS:
        for member in members:
            for name, edge in getattr(member, edges).items():
                other = nodes.get(name)
                if other is not None and other.type != CONST and not name.startswith(inside):
                    scope.connect(edges, name, edge)


def build(graph: Raw, mode: Mode) -> Nodes:
    """Return a graph in nested scopes. Raises ValueError for one that MindInsight's page cannot draw."""
    if mode == "optimize":
        nodes = _optimized_nodes(graph)
    else:
        nodes = _read_nodes(graph)
        _connect_inputs(nodes)
        _connect_outputs(nodes)
    if any(node.name.count("/") > _DEEPEST for node in nodes):
        raise ValueError("Its scopes are nested too deep.")
    _add_scopes(nodes, _LEAST_GROUP[mode])
    return nodes


def _read_nodes(graph: Raw, is_left_out: Callable[[Raw], bool] = lambda operation: False) -> Nodes:
    """Return the nodes of a graph, in its order, without scopes, with their inputs keyed by id.

    Raises ValueError for a name that MindInsight's page cannot draw: MindInsight then shows no graph at all.
    """
    nodes = Nodes()
    for order, operation in enumerate(graph["nodes"]):
        if operation["name"] and not is_left_out(operation):
            nodes.add(_operation(order, operation))
    for parameter in filter(lambda each: each["name"], graph["parameters"]):
        shapes, data_type = _shapes_of(parameter["type"]), _data_type_of(parameter["type"])
        attributes = {"type": data_type, "shape": str(shapes)}
        nodes.add(_leaf(parameter["name"], PARAMETER, attributes, shapes, data_type))
    for name, value in graph["constants"].items():
        if name:
            is_tensor = isinstance(value, dict) and value.keys() == {"dtype", "shape", "elements"}
            shapes = [list(value["shape"] or ())] if is_tensor else [[]]
            nodes.add(_leaf(name, CONST, {name: graph["constant_texts"][name]}, shapes, ""))
    return nodes


def _connect_inputs(nodes: Nodes) -> None:
    """Replace the ids of inputs by names; drop inputs whose id no node has."""
    for node in nodes:
        for node_id, edge in list(node.inputs.items()):
            del node.inputs[node_id]
            if source := nodes.by_id(node_id):
                node.connect("inputs", source.name, _described(edge, source))


def _connect_outputs(nodes: Nodes) -> None:
    """Give each operation its outputs, derived from the inputs of other nodes."""
    for node in nodes:
        for name, edge in node.inputs.items():
            source = nodes.get(name)
            if source and source.type not in (PARAMETER, CONST):
                source.connect("outputs", node.name, edge)


def _described(edge: Edge, source: Node) -> Edge:
    """Set an edge's shape and type to those of its source, and return it."""
    edge["shape"], edge["data_type"] = source.shapes, source.data_type
    return edge


def _shapes_of(type_: Raw | None) -> list[list[int]]:
    """Return the shape of each output; an empty shape for one that is not a tensor."""
    if type_ is None:
        return []
    if type_["shape"] is not None:
        return [list(type_["shape"])]
    if _name(type_) == _TUPLE:
        return [shape for element in type_["elements"] for shape in _shapes_of(element)]
    return [] if _name(type_) in (_TENSOR, _UNDEFINED) else [[]]


def _data_type_of(type_: Raw | None) -> str:
    """Return the type as MindSpore spells it."""
    if type_ is None:
        return _UNDEFINED
    name = _name(type_)
    if type_["shape"] is not None:
        return f"{_TENSOR}[{name}]"
    if name == _TUPLE:
        return f"{name}{[_data_type_of(element) for element in type_['elements']]}"
    return f"{name}[{_UNDEFINED}]" if name == _TENSOR else name


def _name(type_: Raw) -> str:
    name = f"DT_{type_['dtype'].upper()}"
    return _UNDEFINED if name in _UNKNOWN else name


def _operation(order: int, operation: Raw) -> Node:
    number = operation["name"].rpartition("/")[2].rpartition("op")[2]
    name = operation["full_name"] or _joined(operation["scope"], f"{operation['op_type']}-op{number}")
    if _PLUGIN_AT_END.search(operation["full_name"]):
        name = _joined(operation["scope"], f"{operation['op_type']}-op{operation['name']}")
    node = Node(
        name=_drawable(name),
        id=number,
        type=operation["op_type"],
        scope=operation["scope"],
        order=order,
        attributes=operation["attribute_texts"],
        shapes=_shapes_of(operation["output_type"]),
        data_type=_data_type_of(operation["output_type"]),
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


def _optimized_nodes(graph: Raw) -> Nodes:
    """Return the connected nodes of the optimized view: those of the forward computation.

    Operations that only pass values on are removed, and their neighbours are connected directly.
    """
    nodes = _read_nodes(graph, _is_of_training)
    _connect_inputs(nodes)
    _bypass(nodes, "inputs")
    _connect_outputs(nodes)
    _bypass(nodes, "outputs")
    nodes.remove([node.name for node in nodes if node.type in _PASSING_ON])
    nodes.remove([node.name for node in nodes.operations() if not node.inputs and not node.outputs])
    _lift_lonely_types(nodes)
    return nodes


def _is_of_training(operation: Raw) -> bool:
    full_name: str = operation["full_name"]
    return (
        full_name.startswith("Gradients") or "optimizer" in full_name or "opt" in operation["instance_name"]
    )


def _bypass(nodes: Nodes, edges: str) -> None:
    """Replace edges to neighbours that only pass values on by edges to the nodes behind these neighbours."""
    for node in nodes.operations():
        for name in list(getattr(node, edges)):
            between = nodes.get(name)
            if between is None or between.type not in _PASSING_ON:
                continue
            del getattr(node, edges)[name]
            for far_name, edge in list(getattr(between, edges).items()):
                if far := nodes.get(far_name):
                    node.connect(edges, far.name, _described(edge, far))


def _lift_lonely_types(nodes: Nodes) -> None:
    """Move operations one scope up from scopes that hold several operations of a single type and are named after it."""
    operations = nodes.operations()
    by_scope: dict[str, list[Node]] = defaultdict(list)
    for node in operations:
        if "/" in node.scope:
            by_scope[node.scope].append(node)
    lifted = {
        scope
        for scope, members in by_scope.items()
        if len(members) > 1
        and {node.type for node in members} == {members[0].type}
        and members[0].type in scope
        and not any(other.startswith(f"{scope}/") for other in by_scope)
    }
    for node in operations:
        if node.scope in lifted:
            nodes.rename(node, f"{node.scope.rpartition('/')[0]}/{node.base_name}")


def _add_scopes(nodes: Nodes, least_group: int) -> None:
    """Group and nest connected nodes; `least_group` nodes of one type in one scope make a group.

    Each step needs the results of the steps before it.
    """
    _move_to_users(nodes, PARAMETER)
    _group(nodes, least_group)
    _lay_out_parameters(nodes)
    _name_scopes(nodes)
    _move_to_users(nodes, CONST)
    _count_children(nodes)


def _move_to_users(nodes: Nodes, type_: str) -> None:
    """Replace each parameter or constant by a copy in every scope that uses it."""
    originals = {node.name for node in nodes if node.type == type_}
    copies: dict[str, Node] = {}
    for node in nodes:
        for name, edge in list(node.inputs.items()):
            if name not in originals:
                continue
            copied = _joined(node.scope, name)
            if copied not in copies:
                copies[copied] = _copy(nodes, name, copied, node.scope)
            copies[copied].connect("outputs", node.name, dict(edge))
            del node.inputs[name]
            node.connect("inputs", copied, dict(edge))
    for copy in copies.values():
        nodes.add(copy)
    nodes.remove(originals - copies.keys())


def _copy(nodes: Nodes, name: str, copied: str, scope: str) -> Node:
    original = nodes.get(name)
    assert original is not None
    no_edges: dict[str, Any] = {edges: {} for edges in EDGE_SETS}
    attributes = dict(original.attributes)
    return replace(
        original, name=copied, id=copied, scope=scope, is_dynamic=False, attributes=attributes, **no_edges
    )


def _group(nodes: Nodes, least: int) -> None:
    """Put `least` or more nodes of one type in one scope into a group."""
    of_type: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.type != CONST:
            of_type[_joined(node.scope, node.type)].append(node)
    groups: list[tuple[Node, list[Node]]] = []
    for name, members in of_type.items():
        if len(members) < least:
            continue
        scope, _, type_ = name.rpartition("/")
        group_name = _joined(scope, f"{type_}[{len(members)}]_{len(groups)}")
        group = Node(group_name, group_name, AGGREGATION_SCOPE, scope, subnode_count=len(members))
        for member in members:
            nodes.rename(member, f"{group_name}/{member.base_name}")
        nodes.add(group)
        groups.append((group, members))
    for group, members in groups:
        _inherit(nodes, group, members)


def _lay_out_parameters(nodes: Nodes) -> None:
    """Mark groups of parameters as drawn separately, and add proxies for their edges."""
    groups = [node for node in nodes if node.type == AGGREGATION_SCOPE and PARAMETER in node.base_name]
    members: dict[str, list[Node]] = {group.name: [] for group in groups}
    for node in nodes:
        if node.scope in members:
            members[node.scope].append(node)
    for group in groups:
        group.independent_layout = True
        for name, edge in list(group.outputs.items()):
            _connect_proxy(nodes, group, group.scope, name, edge["edge_type"], both_ends=True)
        for member in members[group.name]:
            member.independent_layout = True
            for name, edge in list(member.outputs.items()):
                target = _connect_proxy(nodes, member, group.scope, name, edge["edge_type"], both_ends=False)
                target.inputs[member.name]["independent_layout"] = True


def _connect_proxy(
    nodes: Nodes, source: Node, scope: str, name: str, edge_type: str, *, both_ends: bool
) -> Node:
    """Add a proxy edge from `source` to a node, or to its scope if that is not `scope`; return the node."""
    target = nodes.get(name)
    assert target is not None
    proxy = {"edge_type": edge_type}
    shown = name if target.scope == scope else target.scope
    source.proxy_outputs[shown] = proxy
    if both_ends:
        target.proxy_inputs[source.name] = proxy
        if shown != name and (above := nodes.get(shown)):
            above.proxy_inputs[source.name] = proxy
    return target


def _name_scopes(nodes: Nodes) -> None:
    """Add a node for every scope that a name contains."""
    scopes: dict[str, Node] = {}
    names = [node.name for node in nodes]
    for place, name in enumerate(names):  # `names` grows by nodes that are renamed to make room for a scope
        node = nodes.get(name)
        if node is None:
            continue
        above = ""
        for scope in prefixes(name):
            if scope not in scopes:
                taken = nodes.get(scope)
                if taken is not None and taken.type == AGGREGATION_SCOPE:
                    above = scope
                    continue
                if taken is not None:
                    nodes.rename(taken, _joined(taken.scope, f"({taken.base_name})"), in_scopes=True)
                    if scope in names[place:]:
                        names.append(taken.name)
                scopes[scope] = Node(scope, scope, NAME_SCOPE, above)
            _inherit(nodes, scopes[scope], [node])
            above = scope
    for made in scopes.values():
        nodes.add(made)


def _count_children(nodes: Nodes) -> None:
    counts: dict[str, int] = defaultdict(int)
    for node in nodes:
        counts[node.scope] += 1
    for name, count in counts.items():
        if name and (scope := nodes.get(name)):
            scope.subnode_count = count
