"""The optimized view of a graph: the forward computation without operations that only pass values on.

In: a graph as plain values. Out: connected `Nodes`. Promises: operations of the gradients and of the optimizer are left
out. Operations that load, pack or order values are removed, and their neighbours are connected directly.
"""

from __future__ import annotations

from collections import defaultdict

from lineage_store.server.mindinsight.graph.nodes import Node, Nodes
from lineage_store.server.mindinsight.graph.operators import (
    Raw,
    connect_inputs,
    connect_outputs,
    described,
    read_nodes,
)

_PASSING_ON = ("Load", "TupleGetItem", "MakeTuple", "UpdateState")


def optimized_nodes(graph: Raw) -> Nodes:
    """Return the nodes of the optimized view."""
    nodes = read_nodes(graph, _is_of_training)
    connect_inputs(nodes)
    _bypass(nodes, "inputs")
    connect_outputs(nodes)
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
                    node.connect(edges, far.name, described(edge, far))


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
