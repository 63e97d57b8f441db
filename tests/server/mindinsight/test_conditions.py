"""What MindInsight refuses in a search condition, in the words of its version 2.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from lineage_store.server.mindinsight.lineages import checked_condition
from lineage_store.server.mindinsight.protocol import RefusedError

EQ_OR_IN = "Its operation should be `eq`, `in` or `not_in`."
LIST = "The value of `in` operation must be list or tuple."
TYPE = "The parameter lineage_type is invalid. It should be 'dataset' or 'model'."
REFUSED: list[tuple[Any, str]] = [
    (5, "TypeError. Invalid search_condition type, it should be dict."),
    ({"limit": True}, "TypeError. The limit must be int."),
    ({"limit": 101}, "Invalid input limit. 0 < limit <= 100"),
    ({"limit": 0, "epoch": {"lt": "x"}}, "Invalid input limit. 0 < limit <= 100"),
    ({"limit": 0, "metric/a": {"lt": "x"}}, "The parameter metric/a is invalid."),
    ({"summary_dir": {"lt": "x"}, "lineage_type": {"eq": "x"}}, TYPE),
    ({"limit": 0, "lineage_type": []}, "Invalid input limit. 0 < limit <= 100"),
    ({"network": {"eq": 1, "lt": "a"}}, f"The parameter network is invalid. {EQ_OR_IN}"),
    ({"lineage_type": {"like": "model"}}, f"The parameter lineage_type is invalid. {EQ_OR_IN}"),
    ({"limit": 0, "offset": "x"}, "TypeError. The offset must be int."),
    ({"offset": 1.0}, "TypeError. The offset must be int."),
    ({"offset": -1}, "Invalid input offset. 0 <= offset <= 100000"),
    *(
        ({"sorted_name": name}, "ValueError. The sorted_name must be in ['summary_dir', 'loss_function',")
        for name in ("xxx", 1, None, "metric/", "metric_", "user_defined/", "remark")
    ),
    ({"sorted_type": None}, "ValueError. The sorted_name must exist when sorted_type exists."),
    (
        {"sorted_name": "loss", "sorted_type": 1},
        "ValueError. The sorted_type must be ascending or descending.",
    ),
    *(
        ({name: {"eq": 1}}, "ValueError. The search attribute not supported.")
        for name in ("dataset_graph", "", "or")
    ),
    ({"summary_dir": "x"}, "TypeError. The search_condition element summary_dir should be dict."),
    (
        {"loss": {"like": 1}},
        "ValueError. The compare condition should be in ('eq', 'lt', 'gt', 'le', 'ge', 'in',",
    ),
    *(({"metric/a": {"lt": value}}, "The parameter metric/a is invalid.") for value in ("xxx", True, None)),
    ({"metric/a": {"not_in": [1]}}, "The parameter metric/a is invalid."),
    *(
        ({name: {"lt": "x"}}, f"The parameter {name} is invalid. {EQ_OR_IN}")
        for name in ("summary_dir", "lineage_type", "loss_function", "optimizer", "network", "dataset_mark")
    ),
    *(
        ({"lineage_type": value}, TYPE)
        for value in ({"eq": "xxx"}, {"eq": None}, {"in": ["x"]}, None, "model")
    ),
    ({"lineage_type": {"eq": ["model"]}}, TYPE),
    ({"lineage_type": {"in": "model"}}, f"The parameter lineage_type is invalid. {LIST}"),
    ({"loss": {"lt": "x"}}, "The parameter loss is invalid."),
    ({"loss": {"in": 5}}, f"The parameter loss is invalid. {LIST}"),
    ({"loss": {"not_in": [1]}}, "The parameter loss is invalid."),
    *(({"epoch": {"lt": value}}, "The parameter epoch is invalid.") for value in ("x", 1.5, True, -1, 2**63)),
    ({"epoch": {"not_in": 5}}, f"The parameter epoch is invalid. {LIST}"),
    (
        {"network": {"eq": 5}},
        "The parameter network is invalid. It should be a dict and the value should be a string.",
    ),
    ({"xxx": {"eq": 1}, "loss": {"lt": "x"}}, "ValueError. The search attribute not supported."),
]


@pytest.mark.parametrize(("condition", "message"), REFUSED, ids=str)
def test_a_condition_is_refused_in_its_words(condition: Any, message: str) -> None:
    with pytest.raises(RefusedError) as refused:
        checked_condition(condition)
    assert refused.value.code == "50542218"
    assert refused.value.message.startswith(f"Search_condition param error: {message}")


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {"lineage_type": {}},
        {"sorted_name": "tag", "sorted_type": None},
        {"metric/a": {"in": ["x"]}, "user_defined/a": {"in": 5}, "epoch": {"in": ["a"], "not_in": [5]}},
    ],
    ids=str,
)
def test_others_are_taken_as_they_are(condition: dict[str, Any]) -> None:
    assert checked_condition(condition) is condition
