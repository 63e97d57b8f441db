"""Options that a SummaryCollector refuses, with MindSpore's error classes, and the meaning of the others."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from lineage_store.collect.arguments import require_positive
from lineage_store.collect.collector_options import Selection, parse_selection


def landscape(**options: Any) -> dict[str, Any]:
    return {"collect_landscape": {"intervals": [[1, 2, 3]], **options}}


@pytest.mark.parametrize(
    "specified",
    [
        [],
        "collect_metric",
        {1: True},
        {"collect_metric": 1},
        {"collect_graph": None},
        {"collect_train_lineage": "yes"},
        {"collect_eval_lineage": 0},
        {"collect_input_data": []},
        {"collect_dataset_graph": 1.0},
        {"collect_learning_rate": 1},
        {"histogram_regular": 5},
        {"histogram_regular": False},
        {"collect_landscape": True},
        {"collect_landscape": {}},
        {"collect_landscape": {"unit": "step"}},
        landscape(intervals=(1, 2, 3)),
        landscape(intervals=[(1, 2, 3)]),
        landscape(intervals=[[1, 2, 3.0]]),
        landscape(landscape_size=40.0),
        landscape(landscape_size=True),
        landscape(unit=1),
        landscape(num_samples="128"),
        landscape(create_landscape=["train"]),
        landscape(create_landscape={"train": 1}),
    ],
)
def test_a_wrong_type_is_a_type_error(specified: Any) -> None:
    with pytest.raises(TypeError):
        parse_selection(specified, True)


def test_a_wrong_type_is_said_where_the_value_does_not_tell_it() -> None:
    told = r"collect_freq must be int, not .*5.* \(numpy\.int64\)"
    with pytest.raises(TypeError, match=told):
        require_positive("collect_freq", np.int64(5))


@pytest.mark.parametrize(
    ("specified", "message"),
    [
        ({"collect_loss": True}, "collect_loss"),
        ({"histogram_regular": "("}, "no regular expression"),
        (landscape(size=3), "size"),
        ({"collect_landscape": {1: 2}}, "1"),
        (landscape(create_landscape={1: True}), "1"),
        (landscape(landscape_size=2), "from 3 to 256"),
        (landscape(landscape_size=257), "from 3 to 256"),
        (landscape(unit="batch"), "'batch'"),
        (landscape(create_landscape={"both": True}), "both"),
        (landscape(intervals=[[1, 2, 3], [4, 5]]), r"\[4, 5\]"),
    ],
)
def test_a_wrong_value_is_a_value_error_that_names_it(specified: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_selection(specified, True)


def test_a_bool_counts_as_a_number_of_an_interval_as_with_mindspore() -> None:
    kept = parse_selection(landscape(intervals=[[True, 2, 3]]), True).landscape
    assert kept is not None
    assert kept.wants("step", 1)


@pytest.mark.parametrize("keep", [None, 1, "yes"])
def test_keep_default_action_is_a_bool(keep: object) -> None:
    with pytest.raises(TypeError, match="keep_default_action"):
        parse_selection(None, keep)


@pytest.mark.parametrize("value", [1.0, "10", True, None])
def test_a_frequency_is_an_int(value: object) -> None:
    with pytest.raises(TypeError, match="collect_freq"):
        require_positive("collect_freq", value)


@pytest.mark.parametrize("value", [0, -1])
def test_a_frequency_is_above_zero(value: int) -> None:
    with pytest.raises(ValueError, match=f"greater than 0, not {value}"):
        require_positive("collect_freq", value)


def test_none_is_a_size_where_it_is_optional() -> None:
    require_positive("max_file_size", None, optional=True)
    with pytest.raises(TypeError, match="max_file_size"):
        require_positive("max_file_size", True, optional=True)


def test_the_defaults_are_the_documented_ones() -> None:
    collected = parse_selection(None, True)
    switches = (
        "metric",
        "graph",
        "train_lineage",
        "eval_lineage",
        "input_data",
        "dataset_graph",
        "histograms",
    )
    assert all(getattr(collected, name) for name in switches)
    assert not collected.learning_rate
    assert collected.histogram_names is None
    kept = collected.landscape
    assert kept is not None
    assert (kept.size, kept.unit, kept.num_samples) == (40, "step", 128)
    assert kept.create == {"train": True, "result": True}
    assert kept.states(1000) == 19
    assert kept.states(4) == 4


def test_nothing_is_collected_when_nothing_is_named_and_nothing_kept() -> None:
    assert parse_selection(None, False) == Selection()
    assert parse_selection({}, False) == Selection()


def test_only_what_is_named_is_collected_without_the_defaults() -> None:
    collected = parse_selection({"collect_metric": True, "histogram_regular": None}, False)
    assert collected == Selection(metric=True, histograms=True)


def test_the_rest_stays_as_by_default() -> None:
    collected = parse_selection({"collect_metric": False, "collect_landscape": None}, True)
    assert (collected.metric, collected.graph, collected.landscape) == (False, True, None)


def test_histograms_are_chosen_by_the_beginning_of_a_name() -> None:
    names = parse_selection({"histogram_regular": "^conv1.*"}, True).histogram_names
    assert names is not None
    assert [name for name in ("conv1.weight", "net.conv1.weight") if names.match(name)] == ["conv1.weight"]


def test_states_are_kept_in_the_unit_that_was_asked_for() -> None:
    kept = parse_selection(landscape(unit="epoch"), True).landscape
    assert kept is not None
    assert kept.wants("epoch", 2)
    assert not kept.wants("step", 2)
    assert not kept.wants("epoch", 4)


@pytest.mark.parametrize("keep", [True, False])
def test_the_callers_dict_is_never_changed_or_kept(keep: bool) -> None:
    specified = landscape(create_landscape={"train": True})
    before = copy.deepcopy(specified)
    kept = parse_selection(specified, keep).landscape
    assert specified == before
    specified["collect_landscape"]["intervals"][0].append(7)
    specified["collect_landscape"]["create_landscape"]["train"] = False
    assert kept is not None
    assert (kept.intervals, kept.create) == ([[1, 2, 3]], {"train": True})
