"""A computational graph as MindInsight shows it: nodes in nested scopes, many nodes of one type grouped. Pure.

In: a graph as a log file has it (`PayloadSample.read`). Out: a `GraphTree`, which lists scopes and finds nodes.
Promises: the nodes, their order and their edges are MindInsight's.
"""

from lineage_store.server.mindinsight.graph.tree import GraphTree, Mode, UnknownNodeError, build

__all__ = ["GraphTree", "Mode", "UnknownNodeError", "build"]
