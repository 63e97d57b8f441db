"""Graphs in nested scopes. The recorded answers show that they equal MindInsight's."""

from __future__ import annotations

from typing import Any

import pytest

from helpers.log_writer import chain_graph
from lineage_store.eventlog.mindspore.payloads import DECODERS
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, summary_pb2
from lineage_store.plugins import GRAPH
from lineage_store.server.mindinsight.graph_model import Mode, build
from lineage_store.server.mindinsight.graphs import GraphTree, UnknownNodeError


def plain(graph: anf_ir_pb2.GraphProto) -> dict[str, Any]:
    """The graph as a reader gets it."""
    event = summary_pb2.Event(wall_time=1.0, graph_def=graph)
    found: dict[str, Any] = DECODERS[GRAPH](event.SerializeToString(), 0)
    return found


def scoped(*operations: str) -> anf_ir_pb2.GraphProto:
    """A chain whose nodes say which scope they are in, as MindSpore's do."""
    graph = chain_graph(*operations)
    for node in graph.node:
        node.scope = "Default"
    return graph


def tree_of(graph: dict[str, Any], mode: Mode) -> GraphTree:
    return GraphTree(build(graph, mode))


def names(nodes: list[dict[str, Any]]) -> list[str]:
    return [node["name"] for node in nodes]


def test_a_name_is_nested_by_its_parts() -> None:
    tree = tree_of(plain(scoped("Conv2D", "ReLU")), "normal")
    (scope,) = tree.children("")
    assert (scope["name"], scope["type"], scope["subnode_count"]) == ("Default", "name_scope", 3)
    conv, relu, parameter = tree.children("Default")
    assert names([conv, relu, parameter]) == ["Default/Conv2D-op1", "Default/ReLU-op2", "Default/x"]
    assert (list(conv["input"]), list(conv["output"])) == ([parameter["name"]], [relu["name"]])
    assert tree.children("Default/ReLU-op2") == []


def test_many_of_one_type_make_a_group() -> None:
    tree = tree_of(plain(scoped(*["ReLU"] * 5)), "normal")
    group = "Default/ReLU[5]_0"
    (shown,) = [node for node in tree.children("Default") if node["name"] == group]
    assert (shown["type"], shown["subnode_count"]) == ("aggregation_scope", 5)
    assert names(tree.children(group)) == [f"{group}/ReLU-op{number}" for number in range(1, 6)]


def test_four_do_not() -> None:
    tree = tree_of(plain(scoped(*["ReLU"] * 4)), "normal")
    assert [node["type"] for node in tree.children("Default")] == ["ReLU"] * 4 + ["Parameter"]


def test_the_optimized_view_connects_what_lies_behind_loads() -> None:
    tree = tree_of(plain(scoped("Conv2D", "Load", "ReLU")), "optimize")
    conv, relu = (node for node in tree.leaves("") if node["type"] in ("Conv2D", "ReLU"))
    assert list(relu["input"]) == [conv["name"]]
    assert list(conv["output"]) == [relu["name"]]


def test_a_name_that_its_page_cannot_draw_takes_the_graph_away() -> None:
    graph = scoped("Conv2D")
    graph.node[0].full_name = "Default/<Conv2D>"
    with pytest.raises(ValueError, match="cannot draw"):
        tree_of(plain(graph), "normal")


@pytest.mark.parametrize("mode", ["normal", "optimize"])
def test_a_graph_of_scopes_without_end_is_not_drawn(mode: Mode) -> None:
    graph = scoped("Conv2D", "ReLU")
    for node in graph.node:
        node.scope = "/".join(["a"] * 20_000)
        node.full_name = f"{node.scope}/{node.op_type}-op{node.name}"
    with pytest.raises(ValueError, match="too deep"):
        tree_of(plain(graph), mode)


def test_a_node_that_is_called_as_a_scope_gives_up_its_name() -> None:
    graph = scoped("Conv2D", "ReLU", "Add")
    for node, name in zip(graph.node, ("Default/a", "Default/a/b", "Default/c"), strict=True):
        node.full_name = name
        node.scope = name.rpartition("/")[0]
    tree = tree_of(plain(graph), "normal")
    assert {"Default/(a)", "Default/a", "Default/c"} <= set(names(tree.children("Default")))
    assert names(tree.children("Default/a")) == ["Default/a/b"]


def test_nodes_are_found_by_any_part_of_their_last_name() -> None:
    tree = tree_of(plain(scoped("Conv2D", "ReLU")), "normal")
    (scope,) = tree.search("relu", 0, 10)
    assert (scope["name"], names(scope["nodes"])) == ("Default", ["Default/ReLU-op2"])
    assert tree.search("/", 0, 10) == tree.search("", 0, 10) == tree.search("none", 0, 10) == []
    assert tree.search("op", 1, 2) == tree.search("relu", 0, 1)


def test_the_way_to_a_node_shows_every_scope() -> None:
    way = tree_of(plain(scoped("Conv2D")), "normal").way_to("Default/Conv2D-op1")
    assert way["scope_name"] == ""
    assert (way["children"]["scope_name"], way["children"]["children"]) == ("Default", {})


def test_a_name_that_is_not_there_is_an_error() -> None:
    tree = tree_of(plain(scoped("Conv2D")), "normal")
    for ask in (tree.children, tree.leaves, tree.way_to):
        with pytest.raises(UnknownNodeError):
            ask("Default/none")
