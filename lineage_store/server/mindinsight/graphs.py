"""`datavisual/graphs/…`: a job's computational graph, scope by scope.

A graph is built when it is first asked for, and kept for the next questions about it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lineage_store.api.reports import PayloadSample
from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import GRAPH
from lineage_store.server.mindinsight.graph import GraphTree, Mode, UnknownNodeError, build
from lineage_store.server.mindinsight.protocol import Query, RefusedError, no_such_job, wrong_value
from lineage_store.server.mindinsight.site import IN_MANAGER, OPTIMIZED, OPTIMIZED_GRAPH, Site

_NO_GRAPH = RefusedError("5054500C", "Graph is not exist.")
_MODES: dict[str, tuple[Mode, str]] = {"normal": ("normal", GRAPH), "optimize": ("optimize", OPTIMIZED_GRAPH)}


def nodes(site: Site, query: Query) -> dict[str, Any]:
    """The nodes directly in a scope."""
    tree, name = _tree(site, query), query.get("name") or ""
    try:
        return {"nodes": tree.children(name)}
    except UnknownNodeError:
        raise _no_node(name) from None


def all_nodes(site: Site, query: Query) -> dict[str, Any]:
    """The nodes anywhere in a scope that are no scopes."""
    tree, name = _tree(site, query), query.get("name") or ""
    try:
        return {"all_nodes_detail": tree.leaves(name)}
    except UnknownNodeError:
        raise _no_node(name) from None


def names(site: Site, query: Query) -> dict[str, Any]:
    """A page of the nodes whose names match, as a tree."""
    tree = _tree(site, query)
    offset, limit = query.page(default=100, most=1000)
    start = offset * limit
    return {"nodes": tree.search(query.get("search") or "", start, start + limit)}


def single_node(site: Site, query: Query) -> dict[str, Any]:
    """Every scope on the way to a node."""
    tree, name = _tree(site, query), query.required("name")
    try:
        return tree.way_to(name)
    except UnknownNodeError:
        raise _no_node(name) from None


def _tree(site: Site, query: Query) -> GraphTree:
    given = query.get("mode")
    if given is not None and given not in _MODES:
        raise wrong_value("Invalid mode")
    mode, plugin = _MODES[given or "normal"]
    job = site.job(query.required("train_id"), no_such_job(IN_MANAGER))
    tags = job.tags[plugin]
    tag = query.get("tag")
    if not tags or (tag is not None and tag not in tags):
        raise _NO_GRAPH
    wanted = (tag or tags[0]).removesuffix(OPTIMIZED)
    newest = site.store.graphs(site.base_dir, job.train_id, wanted)[-1]
    try:
        return _built(newest, mode)
    except (PayloadUnavailableError, ValueError):  # gone, or its page could not draw it
        raise _NO_GRAPH from None


@lru_cache(maxsize=16)
def _built(sample: PayloadSample, mode: Mode) -> GraphTree:
    return build(sample.read(), mode)


def _no_node(name: str) -> RefusedError:
    text = f"Can not find node in graph by the given node name. node name: {name}."
    return RefusedError("50545009", text)
