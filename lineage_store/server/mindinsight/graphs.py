"""`datavisual/graphs/…`: a job's computational graph, scope by scope.

A graph is built on its first request; the last 16 stay in a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from lineage_store.api.reports import PayloadSample
from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import GRAPH
from lineage_store.server.mindinsight.graph import GraphTree, Mode, UnknownNodeError, build
from lineage_store.server.mindinsight.protocol import Query, RefusedError, wrong_value
from lineage_store.server.mindinsight.site import IN_MANAGER, OPTIMIZED, OPTIMIZED_GRAPH, Site

T = TypeVar("T")
_NO_GRAPH = RefusedError("5054500C", "Graph is not exist.")
_MODES: dict[str, tuple[Mode, str]] = {"normal": ("normal", GRAPH), "optimize": ("optimize", OPTIMIZED_GRAPH)}


def nodes(site: Site, query: Query) -> dict[str, Any]:
    """Return the nodes directly in a scope."""
    return {"nodes": _looked_up(_tree(site, query).children, query.get("name") or "")}


def all_nodes(site: Site, query: Query) -> dict[str, Any]:
    """Return the nodes at any depth in a scope that are not scopes themselves."""
    return {"all_nodes_detail": _looked_up(_tree(site, query).leaves, query.get("name") or "")}


def names(site: Site, query: Query) -> dict[str, Any]:
    """Return a page of the nodes whose names match, as a tree."""
    tree = _tree(site, query)
    offset, limit = query.page(default=100, most=1000)
    start = offset * limit
    return {"nodes": tree.search(query.get("search") or "", start, start + limit)}


def single_node(site: Site, query: Query) -> dict[str, Any]:
    """Return every scope on the way to a node."""
    return _looked_up(_tree(site, query).way_to, query.required("name"))


def _tree(site: Site, query: Query) -> GraphTree:
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
    newest = site.store.graphs(site.base_dir, job.train_id, wanted)[-1]
    try:
        return _built(newest, mode)
    except (PayloadUnavailableError, ValueError):  # log file gone, or a graph that cannot be drawn
        raise _NO_GRAPH from None


@lru_cache(maxsize=16)
def _built(sample: PayloadSample, mode: Mode) -> GraphTree:
    return build(sample.read(), mode)


def _looked_up(find: Callable[[str], T], name: str) -> T:
    """Return what `find` finds under a node's name; an unknown node is refused."""
    try:
        return find(name)
    except UnknownNodeError:
        text = f"Can not find node in graph by the given node name. node name: {name}."
        raise RefusedError("50545009", text) from None
