"""The lineage of a job from its log files: each sentence of the rule, on files that are read at once or grow later."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from helpers.engines import url_of
from helpers.ingesting import column, ingest, open_problems, rows
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.ingest.decode.lineage_fold import binding, come_to, extended, fold, merge
from lineage_store.store.records import FileLineage, LineageRow, StoredEvent

PIPELINE = {"op_type": "Batch", "batch_size": 8, "children": [{"op_type": "MnistDataset", "children": []}]}
OTHER = {"op_type": "Repeat", "count": 2, "children": []}


def events(*files: list[tuple[str, dict[str, Any]]]) -> list[StoredEvent]:
    return [
        StoredEvent(number, kind, json.dumps(content))
        for number, of_file in enumerate(files)
        for kind, content in of_file
    ]


def train(**hyper_parameters: Any) -> tuple[str, dict[str, Any]]:
    return "train", {"hyper_parameters": hyper_parameters}


def evaluation(**metrics: Any) -> tuple[str, dict[str, Any]]:
    return "eval", {"metric": json.dumps(metrics), "valid_dataset": {}}


def user(**values: Any) -> tuple[str, dict[str, Any]]:
    return "user_info", values


def metrics_of(*files: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    return {value.name: value.value for value in fold(events(*files)).metrics}


def users_of(*files: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    return {value.name: value.text for value in fold(events(*files)).user_info}


def test_within_a_file_the_last_train_event_wins_whole() -> None:
    folded = fold(events([train(optimizer="SGD", epoch=3), train(epoch=5)]))
    assert (folded.columns["optimizer"], folded.columns["epoch"]) == (None, 5)


def test_the_last_evaluation_wins_whole() -> None:
    assert metrics_of([evaluation(acc=0.5, f1=0.1), evaluation(acc=0.7)]) == {"acc": 0.7}
    assert metrics_of([evaluation(acc=0.5, f1=0.1)], [evaluation(acc=0.7)]) == {"acc": 0.7}


def test_the_last_dataset_graph_wins_whole() -> None:
    folded = fold(events([("dataset_graph", PIPELINE), ("dataset_graph", OTHER)]))
    assert folded.dataset_graph is not None
    assert json.loads(folded.dataset_graph.content) == OTHER


def test_user_defined_values_merge() -> None:
    assert users_of([user(a="1", b="1"), user(b="2")], [user(c="3")]) == {"a": "1", "b": "2", "c": "3"}


def test_how_a_training_ended_replaces_how_an_earlier_one_did(engine: Engine, base_dir: Path) -> None:
    failed: dict[str, Any] = {"end/outcome": "failed", "end/error_class": "ValueError", "end/last_step": 3}
    completed: dict[str, Any] = {"end/outcome": "completed", "end/last_step": 9}
    log = Log().evaluation({"accuracy": 0.5}).user_info(lr=0.1, **failed)
    log.user_info(**completed).write_lineage(base_dir / "within")
    Log().evaluation({"accuracy": 0.5}).user_info(lr=0.1, **failed).write_lineage(base_dir / "across")
    Log().user_info(**completed).write_lineage(base_dir / "across", timestamp=1_700_000_500)
    ingest(engine, base_dir)
    with LineageStore(url_of(engine)) as store:
        for found in store.lineage.filter()["object"]:
            assert found["model_lineage"]["user_defined"] == {"lr": 0.1, **completed}, found["summary_dir"]


def test_a_later_train_event_starts_over() -> None:
    first = [train(epoch=1), evaluation(acc=0.5), ("dataset_graph", PIPELINE), user(a="1")]
    folded = fold(events(first, [train(epoch=2)]))
    assert folded.columns["epoch"] == 2
    assert (folded.metrics, folded.user_info, folded.dataset_graph) == ((), (), None)


def test_what_stands_before_the_train_event_of_the_same_file_still_counts() -> None:
    folded = fold(events([user(a="1"), evaluation(acc=0.5), train(epoch=2)]))
    assert [value.name for value in folded.metrics + folded.user_info] == ["acc", "a"]


def test_a_later_file_with_only_a_dataset_graph_does_not_wipe_the_job() -> None:
    folded = fold(events([train(epoch=1), evaluation(acc=0.5)], [("dataset_graph", PIPELINE)]))
    assert folded.columns["epoch"] == 1
    assert folded.metrics
    assert folded.dataset_graph


def test_user_defined_values_alone_make_no_lineage() -> None:
    assert not fold(events([user(a="1")])).listed
    assert fold(events([("dataset_graph", PIPELINE)])).listed
    assert not fold([]).listed


def test_files_apply_by_the_time_in_their_names_and_then_by_name(engine: Engine, base_dir: Path) -> None:
    job = base_dir / "job"
    for name, acc in (("z.summary.100.h", 1.0), ("a.summary.200.h", 3.0), ("a.summary.100.h", 2.0)):
        Log().evaluation({"acc": acc, name: 0}).write(job / f"{name}_lineage")
    ingest(engine, base_dir)
    assert column(engine, "SELECT value FROM metric WHERE name = 'acc'") == [3.0]
    (job / "a.summary.200.h_lineage").unlink()
    Log().evaluation({"acc": 4.0}).write(job / "b.summary.100.h_lineage")
    ingest(engine, base_dir)
    assert column(engine, "SELECT value FROM metric WHERE name = 'acc'") == [3.0], (
        "missing files keep their say"
    )


def test_files_of_one_second_apply_by_name(engine: Engine, base_dir: Path) -> None:
    for name in ("b", "c", "a"):
        Log().user_info(who=name).write(base_dir / "job" / f"{name}.summary.100.h_lineage")
        ingest(engine, base_dir)
    assert column(engine, "SELECT text FROM user_info") == ["c"]


def test_every_evaluation_stays_to_be_asked_for(engine: Engine, base_dir: Path) -> None:
    log = Log().train(network="N").evaluation({"acc": 0.25}).evaluation({"acc": 0.75})
    log.write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    assert column(engine, "SELECT value FROM evaluation_metric ORDER BY byte_offset") == [0.25, 0.75]
    assert column(engine, "SELECT value FROM metric") == [0.75]


def test_a_lineage_file_that_grows_late_changes_what_the_job_comes_to(engine: Engine, base_dir: Path) -> None:
    log = Log().train(network="A")
    path = log.write_lineage(base_dir / "job", 100)
    Log().evaluation({"acc": 0.5}).write_lineage(base_dir / "job", 200)
    ingest(engine, base_dir)
    log.train(network="B").dataset_graph(PIPELINE).write(path)
    ingest(engine, base_dir)
    assert column(engine, "SELECT network FROM lineage") == ["B"]
    assert column(engine, "SELECT value FROM metric") == [0.5]


def test_a_damaged_lineage_file_contributes_its_good_frames(engine: Engine, base_dir: Path) -> None:
    log = Log().train(network="A").evaluation({"acc": 0.5}).user_info(team="x").damaged(1, 20)
    log.write_lineage(base_dir / "job").chmod(0o400)
    ingest(engine, base_dir)
    assert column(engine, "SELECT network FROM lineage") == ["A"]
    assert column(engine, "SELECT text FROM user_info") == ["x"]
    assert [kind for kind, _ in open_problems(engine)] == ["damaged_bytes"]


# --- bit by bit ---

CONTENTS = st.tuples(st.sampled_from("abc"), st.integers(0, 3))
EVENTS = st.one_of(
    CONTENTS.map(lambda each: ("train", {"hyper_parameters": {"epoch": each[1]}})),
    CONTENTS.map(lambda each: evaluation(**{each[0]: each[1]})),
    CONTENTS.map(lambda each: ("dataset_graph", {"op_type": each[0], "children": []})),
    CONTENTS.map(lambda each: user(**{each[0]: each[1]})),
    st.sampled_from([{"end/outcome": "failed", "end/error_class": "x"}, {"end/outcome": "completed"}]).map(
        lambda each: user(**each)
    ),
)
PARTS = st.lists(st.lists(EVENTS, max_size=4), max_size=4)


@given(st.lists(PARTS, max_size=4))
def test_what_files_come_to_part_by_part_is_what_all_their_events_come_to(
    files: list[list[list[tuple[str, dict[str, Any]]]]],
) -> None:
    grown, contents = [], {}
    for number, parts in enumerate(files):
        file, place = FileLineage(), 0
        for part in parts:
            rows_of_part = []
            for kind, content in part:
                text = json.dumps(content)
                at, index = divmod(place, 3)  # as if a frame held up to three events
                rows_of_part.append(LineageRow(at, index, kind, None, text, user_values=len(content)))
                contents[number, at, kind] = text
                place += 1
            file = extended(file, rows_of_part)
        grown.append(file)
    bound, first = binding(grown)
    values: dict[str, Any] = {}
    for file in grown[first:]:
        merge(values, json.loads(file.user_info))
    assert come_to({kind: contents[*at, kind] for kind, at in bound.items()}, values) == fold(
        events(*([each for part in parts for each in part] for parts in files))
    )


# --- numbers ---


@pytest.mark.parametrize(
    ("written", "stored", "kind", "shown"),
    [
        (0.01, 0.01, "finite", 0.01),
        (1 / 3, 0.33333334, "finite", 0.33333334),
        (math.nan, None, "nan", "NaN"),
        (math.inf, math.inf, "+inf", "Infinity"),
        (-math.inf, -math.inf, "-inf", "-Infinity"),
    ],
)
def test_a_float_has_its_shortest_decimal_and_says_what_it_is(
    written: float, stored: float | None, kind: str, shown: object, engine: Engine, base_dir: Path
) -> None:
    Log().train(loss=written, learning_rate=written).write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    (row,) = rows(
        engine, "SELECT loss, loss_kind, learning_rate, learning_rate_kind, model_lineage FROM lineage"
    )
    assert tuple(row)[:4] == (stored, kind, stored, kind)
    assert json.loads(row.model_lineage)["loss"] == shown


def test_an_unknown_float_is_null_with_no_kind(engine: Engine, base_dir: Path) -> None:
    Log().train(network="N").write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    assert rows(engine, "SELECT loss, loss_kind FROM lineage") == [(None, None)]


def test_metrics_keep_their_kinds(engine: Engine, base_dir: Path) -> None:
    metrics = (
        '{"f": 0.5, "i": 3, "n": NaN, "p": Infinity, "m": -Infinity, "t": "high", "b": true, "u": null, '
    )
    metrics += f'"l": [1, {{"a": 2.0}}], "huge": {10**400}}}'
    Log().evaluation(metrics).write_lineage(base_dir / "job")
    ingest(engine, base_dir)
    found = rows(engine, "SELECT name, kind, value, text FROM metric ORDER BY position")
    assert [tuple(row) for row in found] == [
        ("f", "float", 0.5, None),
        ("i", "int", 3.0, None),
        ("n", "nan", None, None),
        ("p", "+inf", math.inf, None),
        ("m", "-inf", -math.inf, None),
        ("t", "text", None, "high"),
        ("b", "bool", 1.0, None),
        ("u", "null", None, None),
        ("l", "json", None, '[1,{"a":2}]'),
        ("huge", "json", None, str(10**400)),
    ]


# --- dataset marks ---


def test_equal_pipelines_have_one_mark_and_others_have_others(engine: Engine, base_dir: Path) -> None:
    for name, pipeline in (("a", PIPELINE), ("b", PIPELINE), ("c", OTHER)):
        Log().dataset_graph(pipeline).write_lineage(base_dir / name)
    Log().train(network="N").write_lineage(base_dir / "d")
    Log().train(network="M").write_lineage(base_dir / "e")
    ingest(engine, base_dir)
    query = "SELECT train_id, dataset_mark FROM lineage JOIN train_job t ON t.id = job_id"
    marks = dict(tuple(row) for row in rows(engine, query))
    assert marks["./a"] == marks["./b"]
    assert marks["./d"] == marks["./e"], "jobs without a pipeline share one"
    assert len(set(marks.values())) == 3
    assert all(len(mark) == 12 for mark in marks.values())
    assert column(engine, "SELECT count(*) FROM dataset_graph") == [2]


def test_a_mark_does_not_depend_on_the_order_of_keys() -> None:
    forwards, backwards = ({"a": 1, "b": 2, "children": []}, {"children": [], "b": 2, "a": 1})
    assert (
        fold(events([("dataset_graph", forwards)])).dataset_mark
        == fold(events([("dataset_graph", backwards)])).dataset_mark
    )


@pytest.mark.parametrize("name", ["children", "operations", "sampler", "op_type", "tensor_op_name"])
@pytest.mark.parametrize("value", ["text", 5, True, ["a", "b"]])
def test_a_parameter_with_the_name_of_a_part_of_the_pipeline_stops_nothing(
    name: str, value: object, sqlite_engine: Engine, base_dir: Path
) -> None:
    pipeline = {"op_type": "Map", "operations": [{"tensor_op_name": "Resize", "h": 1}], "children": []}
    from lineage_store.eventlog.mindspore.wire import lineage_pb2

    event = lineage_pb2.LineageEvent()
    parameter = event.dataset_graph.parameter
    if isinstance(value, list):
        parameter.mapStrList[name].strValue.extend(value)
    else:
        maps = {str: parameter.mapStr, bool: parameter.mapBool, int: parameter.mapInt}
        maps[type(value)][name] = value  # type: ignore[index]
    Log().lineage(event).write_lineage(base_dir / "odd")
    Log().dataset_graph(pipeline).write_lineage(base_dir / "plain")
    ingest(sqlite_engine, base_dir)
    assert column(sqlite_engine, "SELECT count(*) FROM lineage") == [2]
