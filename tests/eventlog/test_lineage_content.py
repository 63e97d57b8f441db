"""Lineage messages as plain content: MindInsight's conversions, and where ours differ on purpose."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.frames import read_frames
from helpers.log_writer import Log
from lineage_store.eventlog.mindspore.events import decode_lineage, shortest_decimal, user_content
from lineage_store.eventlog.mindspore.wire import lineage_pb2
from lineage_store.eventlog.values import EventDecodeError, LineageEvent
from lineage_store.ingest.decode.lineage_fold import MetricTextError, parse_metric

EXPECTED = Path(__file__).resolve().parents[1] / "golden" / "expected"


def content_of(log: Log) -> dict[str, Any]:
    ((frame,), _) = read_frames(log.content)
    (event,) = decode_lineage(frame.payload)
    return event.content


def test_train_lineage_is_grouped_as_on_the_wire() -> None:
    log = Log().train(
        network="LeNet5", loss=0.25, optimizer="SGD", epoch=3, path='{"ckpt": null}', size=2**40
    )
    assert content_of(log) == {
        "hyper_parameters": {"optimizer": "SGD", "epoch": 3},
        "algorithm": {"network": "LeNet5", "loss": 0.25},
        "model": {"path": '{"ckpt": null}', "size": 2**40},
    }


def test_only_fields_that_are_set_appear() -> None:
    assert content_of(Log().train()) == {}
    assert content_of(Log().train(loss=0.0, epoch=0)) == {
        "hyper_parameters": {"epoch": 0},
        "algorithm": {"loss": 0.0},
    }


@pytest.mark.parametrize(
    "decimal", [0.01, 0.1, 1e-5, 2.292793, 1.1149253, 16777216.0, 3.4028235e38, 1.4013e-45]
)
def test_float32_fields_read_as_their_shortest_decimal(decimal: float) -> None:
    assert content_of(Log().train(learning_rate=decimal))["hyper_parameters"]["learning_rate"] == decimal


@given(st.floats(width=32, allow_nan=False))
def test_shortest_decimal_has_the_same_float32_value(value: float) -> None:
    message = lineage_pb2.TrainLineage.Algorithm(loss=shortest_decimal(value))
    assert message.loss == value


@pytest.mark.parametrize(
    ("value", "name"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_floats_that_are_not_finite_become_their_json_names(value: float, name: str) -> None:
    assert content_of(Log().train(loss=value)) == {"algorithm": {"loss": name}}
    assert content_of(Log().user_info(ratio=value)) == {"ratio": name}
    assert content_of(Log().dataset_graph({"p": value})) == {"p": name, "children": []}


def test_evaluation_keeps_the_metric_text_unread() -> None:
    log = Log().evaluation("not JSON", path="/data/val", size=500)
    assert content_of(log) == {
        "metric": "not JSON",
        "valid_dataset": {"valid_dataset_path": "/data/val", "valid_dataset_size": 500},
    }
    assert content_of(Log().evaluation()) == {"metric": None, "valid_dataset": {}}


def test_metric_values_keep_their_json_types() -> None:
    text = '{"acc": 0.5, "n": 1, "flag": true, "none": null, "note": "ok", "list": [1], "inf": -Infinity}'
    assert parse_metric(text) == {
        "acc": 0.5,
        "n": 1,
        "flag": True,
        "none": None,
        "note": "ok",
        "list": [1],
        "inf": -math.inf,
    }
    assert math.isnan(parse_metric('{"nan": NaN}')["nan"])


@pytest.mark.parametrize("text", ["", None])
def test_absent_metric_text_holds_no_metrics(text: str | None) -> None:
    assert parse_metric(text) == {}


@pytest.mark.parametrize("text", ["accuracy=1", "[1, 2]", '"text"', "null", "{", "[" * 100_000])
def test_metric_text_that_is_no_json_object_is_refused(text: str | None) -> None:
    with pytest.raises(MetricTextError, match="metric text"):
        parse_metric(text)


def test_dataset_graph_is_flattened_as_mindinsight_does() -> None:
    graph = {
        "batch_size": 16,
        "drop_remainder": True,
        "nothing": None,
        "op_type": "Batch",
        "probability": 0.1,
        "columns": ["image", None],
        "operations": [
            {"tensor_op_name": "Normalize", "weights": [0.5, 1.5]},
            {"tensor_op_name": "Resize", "size": [32]},
        ],
        "sampler": {"sampler_name": "RandomSampler"},
        "children": [{"op_type": "Mnist", "children": []}],
    }
    assert content_of(Log().dataset_graph(graph)) == graph


def test_size_and_weights_of_an_operation_have_their_own_values() -> None:
    operations = [{"size": [224, 224], "weights": [0.5]}, {"size": [32]}, {"weights": [0.25]}]
    assert content_of(Log().dataset_graph({"operations": operations}))["operations"] == operations


def test_empty_sampler_does_not_appear_and_children_always_do() -> None:
    assert content_of(Log().dataset_graph({"sampler": {}})) == {"children": []}


def test_order_of_keys_does_not_depend_on_the_order_of_writing() -> None:
    one = content_of(Log().dataset_graph({"b": 1, "a": "x", "c": True, "operations": [{"e": 1, "d": "y"}]}))
    other = content_of(Log().dataset_graph({"operations": [{"d": "y", "e": 1}], "c": True, "a": "x", "b": 1}))
    assert json.dumps(one) == json.dumps(other)


def test_all_user_info_entries_are_read() -> None:
    content = content_of(Log().user_info(owner="vision", trial=7, dropout=0.1))
    assert content == {"owner": "vision", "trial": 7, "dropout": 0.1}
    assert [type(value) for value in content.values()] == [str, int, float]


def test_all_keys_of_a_user_info_entry_are_read() -> None:
    entry = lineage_pb2.UserDefinedInfo(map_int32={"z": 3}, map_str={"p": "x", "q": "y"})
    assert user_content(lineage_pb2.UserDefinedInfo(user_info=[entry])) == {"z": 3, "p": "x", "q": "y"}


def test_lowest_numbered_map_of_an_entry_wins_and_later_entries_win() -> None:
    first = lineage_pb2.UserDefinedInfo(
        map_int32={"k": 1}, map_str={"k": "one"}, map_double={"k": 1.5, "d": 2.5}
    )
    second = lineage_pb2.UserDefinedInfo(map_double={"d": 9.5})
    assert user_content(lineage_pb2.UserDefinedInfo(user_info=[first])) == {"k": 1, "d": 2.5}
    assert user_content(lineage_pb2.UserDefinedInfo(user_info=[first, second])) == {"k": 1, "d": 9.5}


def test_user_info_outside_of_entries_and_nested_is_read() -> None:
    message = lineage_pb2.UserDefinedInfo(map_str={"owner": "vision"})
    message.map_dict["cluster"].user_info.add().map_int32["nodes"] = 4
    assert user_content(message) == {"owner": "vision", "cluster": {"nodes": 4}}


def test_text_that_is_not_utf_8_comes_as_surrogate_escapes() -> None:
    event = lineage_pb2.LineageEvent(wall_time=1.0, train_lineage={"algorithm": {"network": "~~"}})
    (decoded,) = decode_lineage(event.SerializeToString().replace(b"~~", b"a\xff"))
    assert decoded.content == {"algorithm": {"network": "a\udcff"}}
    assert json.dumps(decoded.content) == '{"algorithm": {"network": "a\\udcff"}}'


def test_map_value_that_is_not_utf_8_comes_as_surrogate_escapes() -> None:
    event = lineage_pb2.LineageEvent(wall_time=1.0, user_defined_info={"map_str": {"key": "~~"}})
    (decoded,) = decode_lineage(event.SerializeToString().replace(b"~~", b"b\xfe"))
    assert decoded.content == {"key": "b\udcfe"}


def test_map_key_that_is_not_utf_8_is_refused() -> None:
    event = lineage_pb2.LineageEvent(wall_time=1.0, user_defined_info={"map_str": {"~~": "x", "key": "y"}})
    with pytest.raises(EventDecodeError, match="UTF-8"):
        decode_lineage(event.SerializeToString().replace(b"~~", b"a\xff"))


def test_lineage_of_the_corpus_is_what_mindinsight_shows(corpus: Path) -> None:
    listing = json.loads((EXPECTED / "lineage_all.json").read_text())
    compared = 0
    for job in listing["object"]:
        shown = job["model_lineage"]
        last = {event.kind: event.content for event in lineage_events(corpus / job["summary_dir"])}
        groups = [*last.get("train", {}).values(), last.get("eval", {}).get("valid_dataset", {})]
        fields = {name: value for group in groups for name, value in group.items()}
        for name in ("loss", "learning_rate", "network", "optimizer", "epoch", "batch_size", "loss_function"):
            assert fields.get(name) == shown[name], (job["summary_dir"], name)
        assert fields.get("size") == shown["model_size"]
        assert fields.get("train_dataset_size") == shown["train_dataset_count"]
        assert fields.get("valid_dataset_size") == shown["test_dataset_count"]
        assert last.get("dataset_graph", {}) == job["dataset_graph"]
        assert last.get("user_info", {}) == shown["user_defined"]
        assert repr(parse_metric(last.get("eval", {}).get("metric"))) == repr(shown["metric"])
        compared += 1
    assert compared == listing["count"] == len(listing["object"])


def lineage_events(job: Path) -> Iterator[LineageEvent]:
    for path in sorted(job.glob("*_lineage")):
        for frame in read_frames(path.read_bytes())[0]:
            yield from decode_lineage(frame.payload)


def test_metric_nested_too_deep_is_refused_instead_of_exhausting_the_stack() -> None:
    with pytest.raises(MetricTextError, match="nested too deep"):
        parse_metric('{"m": ' + "[" * 200 + "]" * 200 + "}")
