"""MindInsight's REST API on what the store holds: the paths, answers, errors and limits of its 2.3.1.

In: requests below `/v1/mindinsight`. Out: JSON and images; the files of MindInsight's own page. A module for each
family of endpoints translates; sampling, re-binning, graphs, slices and importance are pure functions in modules of
their own. Knows the store only through `LineageStore`.
"""

from lineage_store.server.mindinsight.routes import application

__all__ = ["application"]
