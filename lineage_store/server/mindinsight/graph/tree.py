"""Builds a graph, and queries it: the nodes of a scope, all leaves, the way to a node, a search by name.

In: a graph as plain values. Out: values that JSON can represent. Promises: lists have MindInsight's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lineage_store.server.mindinsight.graph.nodes import Node, Nodes, prefixes
from lineage_store.server.mindinsight.graph.operators import connect_inputs, connect_outputs, read_nodes
from lineage_store.server.mindinsight.graph.optimizing import optimized_nodes
from lineage_store.server.mindinsight.graph.scopes import add_scopes

Mode = Literal["normal", "optimize"]
_LEAST_GROUP = {"normal": 5, "optimize": 10}
_DEEPEST = 100
"""The most nested scopes: each part of a name becomes a node, and the work grows with the square of the parts."""


class UnknownNodeError(KeyError):
    """Raised when the graph has no node of this name."""


def build(graph: Mapping[str, Any], mode: Mode) -> GraphTree:
    """Return the graph in nested scopes. Raises ValueError for a graph that MindInsight's page cannot draw."""
    if mode == "optimize":
        nodes = optimized_nodes(graph)
    else:
        nodes = read_nodes(graph)
        connect_inputs(nodes)
        connect_outputs(nodes)
    if any(node.name.count("/") > _DEEPEST for node in nodes):
        raise ValueError("Its scopes are nested too deep.")
    add_scopes(nodes, _LEAST_GROUP[mode])
    return GraphTree(nodes)


class GraphTree:
    """A built graph that answers queries."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._children: dict[str, list[Node]] = {}
        for node in nodes:
            self._children.setdefault(node.scope, []).append(node)

    def children(self, scope: str) -> list[dict[str, Any]]:
        """Return the nodes directly in a scope; "" is the whole graph. Raises UnknownNodeError."""
        self._require(scope)
        return self._of(scope)

    def leaves(self, scope: str) -> list[dict[str, Any]]:
        """Return the nodes at any depth in a scope that have no nodes below them. Raises UnknownNodeError."""
        self._require(scope)
        return [node.shown() for node in self._leaves(scope)]

    def way_to(self, name: str) -> dict[str, Any]:
        """Return the nodes of every scope on the way to a node, nested. Raises UnknownNodeError."""
        self._require(name)
        way: dict[str, Any] = {}
        for scope in reversed(["", *prefixes(name)]):
            way = {"nodes": self._of(scope), "scope_name": scope, "children": way}
        return way

    def search(self, pattern: str, start: int, stop: int) -> list[dict[str, Any]]:
        """Return the matches number `start` to `stop` - 1, nested in their scopes; case is ignored."""
        wanted = pattern.lower()
        if not wanted or wanted == "/":
            return []
        found = [node for node in self._nodes if _matches(node.name.lower(), wanted)]
        return self._as_tree(found[start:stop])

    def _as_tree(self, found: list[Node]) -> list[dict[str, Any]]:
        root = _Branch("", "", False, {})
        for node in found:
            branch = root
            for scope in prefixes(node.name):
                if scope not in branch.below:
                    above = self._nodes.get(scope)
                    branch.below[scope] = _Branch(scope, above.type if above else "", node.is_dynamic, {})
                branch = branch.below[scope]
            branch.below[node.name] = _Branch(node.name, node.type, node.is_dynamic, {})
        return [each.shown() for each in root.below.values()]

    def _leaves(self, scope: str) -> Iterator[Node]:
        for node in self._children.get(scope, []):
            if node.subnode_count:
                yield from self._leaves(node.name)
            else:
                yield node

    def _of(self, scope: str) -> list[dict[str, Any]]:
        return [node.shown() for node in self._children.get(scope, [])]

    def _require(self, name: str) -> None:
        if name and self._nodes.get(name) is None:
            raise UnknownNodeError(name)


@dataclass(frozen=True, slots=True)
class _Branch:
    name: str
    type: str
    is_dynamic: bool
    below: dict[str, _Branch]

    def shown(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "is_dynamic_shape_node": self.is_dynamic,
            "nodes": [each.shown() for each in self.below.values()],
        }


def _matches(name: str, pattern: str) -> bool:
    at = name.rfind(pattern)
    return at >= 0 and "/" not in name[at + len(pattern) :]
