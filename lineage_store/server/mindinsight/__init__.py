"""MindInsight's REST API on a store: the paths, answers, errors and limits of MindInsight 2.3.1.

In: requests below `/v1/mindinsight`. Out: JSON and images; the files of MindInsight's own page. One module for each
family of endpoints translates requests and answers; sampling, re-binning, graphs, slices and importance are pure
functions in modules of their own. Does not know: the store beyond `LineageStore`.
"""
