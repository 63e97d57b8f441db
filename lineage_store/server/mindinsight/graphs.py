"""`datavisual/graphs/…`: a job's computational graph, scope by scope.

The process that reads a graph builds it once, and has it for the next question about it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import GRAPH
from lineage_store.server.decoding import Answer, Decoding
from lineage_store.server.mindinsight.graph import GraphTree, Mode, UnknownNodeError, build
from lineage_store.server.mindinsight.protocol import Query, RefusedError, to_json, wrong_value
from lineage_store.server.mindinsight.site import IN_MANAGER, OPTIMIZED, OPTIMIZED_GRAPH, Site

if TYPE_CHECKING:
    from lineage_store.api.reports import PayloadSource

_NO_GRAPH = RefusedError("5054500C", "Graph is not exist.")
_MODES: dict[str, tuple[Mode, str]] = {"normal": ("normal", GRAPH), "optimize": ("optimize", OPTIMIZED_GRAPH)}
Find = Callable[..., Any]
"""A method of `GraphTree`."""


def nodes(site: Site, query: Query) -> Decoding:
    """Return the nodes directly in a scope."""
    return _of_graph(site, query, "nodes", GraphTree.children, query.get("name") or "")


def all_nodes(site: Site, query: Query) -> Decoding:
    """Return the nodes at any depth in a scope that are not scopes themselves."""
    return _of_graph(site, query, "all_nodes_detail", GraphTree.leaves, query.get("name") or "")


def names(site: Site, query: Query) -> Decoding:
    """Return a page of the nodes whose names match, as a tree."""
    offset, limit = query.page(default=100, most=1000)
    start = offset * limit
    searched = query.get("search") or "", start, start + limit
    return _of_graph(site, query, "nodes", GraphTree.search, *searched)


def single_node(site: Site, query: Query) -> Decoding:
    """Return every scope on the way to a node."""
    graph = _graph(site, query)
    return _found_in(*graph, "", GraphTree.way_to, query.required("name"))


def _of_graph(site: Site, query: Query, title: str, find: Find, *arguments: Any) -> Decoding:
    return _found_in(*_graph(site, query), title, find, *arguments)


def _found_in(graph: PayloadSource, mode: Mode, title: str, find: Find, *arguments: Any) -> Decoding:
    """Have a process find something in a graph; `title`: what it is called in the answer."""
    return Decoding(_shown, (graph, mode, title, find, *arguments), [graph])


def _graph(site: Site, query: Query) -> tuple[PayloadSource, Mode]:
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
    return site.store.graphs(site.base_dir, job.train_id, wanted)[-1].source, mode


def _shown(source: PayloadSource, mode: Mode, title: str, find: Find, *arguments: Any) -> Answer:
    try:
        tree = _built(source, mode)
    except (PayloadUnavailableError, ValueError):  # log file gone, or a graph that cannot be drawn
        raise _NO_GRAPH from None
    try:
        found = find(tree, *arguments)
    except UnknownNodeError:
        text = f"Can not find node in graph by the given node name. node name: {arguments[0]}."
        raise RefusedError("50545009", text) from None
    return Answer(to_json({title: found} if title else found))


@lru_cache(maxsize=1)
def _built(source: PayloadSource, mode: Mode) -> GraphTree:
    return build(source.read(), mode)
