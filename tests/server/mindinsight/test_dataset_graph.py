"""The order of keys in dataset pipelines."""

from __future__ import annotations

import json

from lineage_store.server.mindinsight.lineages import in_order


def test_keys_come_by_kind_and_what_is_nested_last() -> None:
    batch = {"batch_size": 16, "children": [], "drop_remainder": True, "op_type": "Batch", "seed": None}
    graph = {
        "children": [batch],
        "columns": ["a"],
        "count": 2,
        "op_type": "Repeat",
        "operations": [{"b": 1, "a": "x"}],
    }
    assert json.dumps(in_order(graph)) == json.dumps(
        {
            "op_type": "Repeat",
            "count": 2,
            "columns": ["a"],
            "operations": [{"a": "x", "b": 1}],
            "children": [
                {"op_type": "Batch", "seed": None, "drop_remainder": True, "batch_size": 16, "children": []}
            ],
        }
    )
