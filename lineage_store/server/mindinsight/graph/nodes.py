"""The nodes of a graph while it is being built. Their order matters: all answers list nodes in this order.

In: nodes. Out: `Nodes`, which finds them by name and by id. Promises: a renamed node moves to the end, and so do its
neighbours' edges to it. Unless a step copies it, an edge is one dict shared by both its ends: a change at one end is
visible at the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

PARAMETER, CONST = "Parameter", "Const"
NAME_SCOPE, AGGREGATION_SCOPE = "name_scope", "aggregation_scope"
Edge = dict[str, Any]
EDGE_SETS = ("inputs", "outputs", "proxy_inputs", "proxy_outputs")


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


def joined(scope: str, name: str) -> str:
    """Return the full name of `name` in a scope."""
    return f"{scope}/{name}" if scope else name


def prefixes(name: str) -> list[str]:
    """Return the scopes of a name, outermost first."""
    parts = name.split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]


def inherit(nodes: Nodes, scope: Node, members: Iterable[Node]) -> None:
    """Give a scope its members' edges that lead outside, except those to constants."""
    inside = f"{scope.name}/"
    members = list(members)
    for edges in EDGE_SETS:
        for member in members:
            for name, edge in getattr(member, edges).items():
                other = nodes.get(name)
                if other is not None and other.type != CONST and not name.startswith(inside):
                    scope.connect(edges, name, edge)
