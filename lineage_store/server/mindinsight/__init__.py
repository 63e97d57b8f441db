"""MindInsight's REST API on a store: the paths, answers, errors and limits of MindInsight 2.3.1.

In: requests below `/v1/mindinsight`. Out: JSON and images; the files of MindInsight's own page. One module for each
family of endpoints translates requests and answers, with pure functions for what MindInsight computes: sampling,
re-binning, slices, importance, graphs. Does not know: the store beyond `LineageStore`.
"""
