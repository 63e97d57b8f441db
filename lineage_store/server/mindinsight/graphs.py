"""`datavisual/graphs/…`: a job's computational graph, scope by scope, many nodes of one type grouped.

In: a query; a graph as plain values. Out: the nodes of a scope, all leaves, the way to a node, a search by name.
Promises: the nodes, their order and their edges are MindInsight's. The process that reads a graph builds it once, and
has it for the next question about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import GRAPH
from lineage_store.server.decoding import Content, Decoding
from lineage_store.server.mindinsight.graph_model import Mode, Node, Nodes, build, prefixes
from lineage_store.server.mindinsight.protocol import (
    QueryParameters,
    RefusedError,
    compact_json,
    nothing_of,
    wrong_value,
)
from lineage_store.server.mindinsight.site import IN_MANAGER, OPTIMIZED, OPTIMIZED_GRAPH, Site

if TYPE_CHECKING:
    from lineage_store.api.reports import PayloadSource


_NO_GRAPH = nothing_of(GRAPH)
_MODES: dict[str, tuple[Mode, str]] = {"normal": ("normal", GRAPH), "optimize": ("optimize", OPTIMIZED_GRAPH)}
Find = Callable[..., Any]
"""A method of `GraphTree`."""


def get_nodes(site: Site, query: QueryParameters) -> Decoding:
    """Return the nodes directly in a scope."""
    return _of_graph(site, query, "nodes", GraphTree.children, query.get("name") or "")


def get_all_nodes(site: Site, query: QueryParameters) -> Decoding:
    """Return the nodes at any depth in a scope that are not scopes themselves."""
    return _of_graph(site, query, "all_nodes_detail", GraphTree.leaves, query.get("name") or "")


def get_node_names(site: Site, query: QueryParameters) -> Decoding:
    """Return a page of the nodes whose names match, as a tree."""
    offset, limit = query.page(default=100, most=1000)
    start = offset * limit
    searched = query.get("search") or "", start, start + limit
    return _of_graph(site, query, "nodes", GraphTree.search, *searched)


def get_node(site: Site, query: QueryParameters) -> Decoding:
    """Return every scope on the way to a node."""
    graph = _graph(site, query)
    return _found_in(*graph, "", GraphTree.way_to, query.required("name"))


def _of_graph(site: Site, query: QueryParameters, title: str, find: Find, *arguments: Any) -> Decoding:
    return _found_in(*_graph(site, query), title, find, *arguments)


def _found_in(graph: PayloadSource, mode: Mode, title: str, find: Find, *arguments: Any) -> Decoding:
    """Have a process find something in a graph; `title`: what it is called in the answer."""
    return Decoding(_shown, (graph, mode, title, find, *arguments), [graph])


def _graph(site: Site, query: QueryParameters) -> tuple[PayloadSource, Mode]:
    """Return where the graph is that a request names, and how it is to be shown."""
    given = query.get("mode")
    if given is not None and given not in _MODES:
        raise wrong_value("Invalid mode")
    mode, plugin = _MODES[given or "normal"]
    job = site.job(query.required("train_id"), IN_MANAGER)
    tags = job.tags[plugin]
    tag = query.get("tag")
    if not tags or (tag is not None and tag not in tags):
        raise _NO_GRAPH
    wanted = (tag or tags[0]).removesuffix(OPTIMIZED)
    return site.of(job.train_id).graphs(wanted)[-1].source, mode


def _shown(source: PayloadSource, mode: Mode, title: str, find: Find, *arguments: Any) -> Content:
    try:
        tree = _built(source, mode)
    except (PayloadUnavailableError, ValueError):  # log file gone, or a graph that cannot be drawn
        raise _NO_GRAPH from None
    try:
        found = find(tree, *arguments)
    except UnknownNodeError:
        text = f"Can not find node in graph by the given node name. node name: {arguments[0]}."
        raise RefusedError("50545009", text) from None
    return Content(compact_json({title: found} if title else found))


@lru_cache(maxsize=1)
def _built(source: PayloadSource, mode: Mode) -> GraphTree:
    return GraphTree(build(source.read(), mode))


class UnknownNodeError(KeyError):
    """Raised when the graph has no node of this name."""


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
