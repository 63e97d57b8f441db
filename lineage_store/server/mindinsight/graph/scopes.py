"""Adds scopes: groups of nodes of one type, a node for each part of a name, copies of parameters where they are used.

In: connected `Nodes`. Out: the same `Nodes` with scopes, their edges and the numbers of their children. Each step of
`add_scopes` needs the results of the steps before it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from lineage_store.server.mindinsight.graph.nodes import (
    AGGREGATION_SCOPE,
    CONST,
    NAME_SCOPE,
    PARAMETER,
    Node,
    Nodes,
    inherit,
    joined,
    prefixes,
)


def add_scopes(nodes: Nodes, least_group: int) -> None:
    """Group and nest the nodes; `least_group` nodes of one type in one scope make a group."""
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
            copied = joined(node.scope, name)
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
    return replace(
        original,
        name=copied,
        id=copied,
        scope=scope,
        is_dynamic=False,
        attributes=dict(original.attributes),
        inputs={},
        outputs={},
        proxy_inputs={},
        proxy_outputs={},
    )


def _group(nodes: Nodes, least: int) -> None:
    """Put `least` or more nodes of one type in one scope into a group."""
    of_type: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if node.type != CONST:
            of_type[joined(node.scope, node.type)].append(node)
    groups: list[tuple[Node, list[Node]]] = []
    for name, members in of_type.items():
        if len(members) < least:
            continue
        scope, _, type_ = name.rpartition("/")
        group_name = joined(scope, f"{type_}[{len(members)}]_{len(groups)}")
        group = Node(group_name, group_name, AGGREGATION_SCOPE, scope, subnode_count=len(members))
        for member in members:
            nodes.rename(member, f"{group_name}/{member.base_name}")
        nodes.add(group)
        groups.append((group, members))
    for group, members in groups:
        inherit(nodes, group, members)


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
                    nodes.rename(taken, joined(taken.scope, f"({taken.base_name})"), in_scopes=True)
                    if scope in names[place:]:
                        names.append(taken.name)
                scopes[scope] = Node(scope, scope, NAME_SCOPE, above)
            inherit(nodes, scopes[scope], [node])
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
