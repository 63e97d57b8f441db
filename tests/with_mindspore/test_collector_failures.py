"""Failures of SummaryCollector: refused before a training, or reported once while the training goes on."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import dataset, nn
from mindspore.train import Callback, Model, RunContext

from helpers.log_contents import log_files, told, told_of
from lineage_store.collect import SummaryCollector
from lineage_store.errors import LogDirectoryError
from with_mindspore.trainings import CLASSES, NO_LANDSCAPE, Net, batches_of, model_of, momentum

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300), pytest.mark.usefixtures("pynative")]


def collector(directory: Path, **options: Any) -> SummaryCollector:
    return SummaryCollector(str(directory), **{"collect_specified_data": NO_LANDSCAPE, **options})


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.startswith("lineage_store")]


def kinds(directory: Path) -> list[str]:
    return [event.what for event in told(directory)]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"summary_dir": 7}, TypeError),
        ({"summary_dir": None}, TypeError),
        ({"summary_dir": "  "}, ValueError),
        ({"collect_freq": "10"}, TypeError),
        ({"collect_freq": True}, TypeError),
        ({"collect_freq": None}, TypeError),
        ({"collect_freq": 0}, ValueError),
        ({"collect_tensor_freq": 1.5}, TypeError),
        ({"collect_tensor_freq": True}, TypeError),
        ({"collect_tensor_freq": -1}, ValueError),
        ({"max_file_size": "1"}, TypeError),
        ({"max_file_size": True}, TypeError),
        ({"max_file_size": 0}, ValueError),
        ({"num_process": "32"}, TypeError),
        ({"num_process": 0}, ValueError),
        ({"keep_default_action": None}, TypeError),
        ({"custom_lineage_data": [1]}, TypeError),
        ({"custom_lineage_data": {1: 2}}, TypeError),
        ({"custom_lineage_data": {"a": None}}, TypeError),
        ({"custom_lineage_data": {"a": 2**31}}, ValueError),
        ({"export_options": "npy"}, TypeError),
        ({"export_options": {1: "npy"}}, TypeError),
        ({"export_options": {"tensor_format": 1}}, TypeError),
        ({"export_options": {"image_format": "npy"}}, ValueError),
        ({"export_options": {"tensor_format": "npz"}}, ValueError),
        ({"collect_specified_data": 1}, TypeError),
        ({"collect_specified_data": {"collect_metric": 1}}, TypeError),
        ({"collect_specified_data": {"collect_everything": True}}, ValueError),
        ({"collect_specified_data": {"collect_landscape": {}}}, TypeError),
    ],
)
def test_an_argument_is_refused_before_anything_is_made(
    arguments: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        SummaryCollector(**{"summary_dir": str(tmp_path / "job"), **arguments})
    assert not (tmp_path / "job").exists()


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("mine")
    with pytest.raises(LogDirectoryError, match="job"):
        collector(tmp_path / "job")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(LogDirectoryError):
        collector(tmp_path)


def test_two_collectors_in_one_list_are_refused_before_the_training(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="more than one SummaryCollector"):
        model_of(Net()).train(1, batches_of(2), [collector(tmp_path), collector(tmp_path)])
    assert log_files(tmp_path) == []


def test_another_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'predict'"):
        collector(tmp_path).begin(RunContext({"mode": "predict"}))


def test_a_network_without_optimizer_output_and_images_is_collected_otherwise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Silent(nn.Cell):
        def construct(self, values: mindspore.Tensor) -> None:
            return None

    rows = dataset.NumpySlicesDataset(np.ones((6, 2), np.float32), shuffle=False).batch(2)
    Model(Silent()).train(2, rows, collector(tmp_path, collect_freq=1))
    assert kinds(tmp_path) == ["dataset_graph", "train_lineage"]
    (training,) = [event.content for event in told(tmp_path) if event.what == "train_lineage"]
    assert training["algorithm"] == {"network": "Silent"}
    assert training["train_dataset"] == {"train_dataset_size": 6}
    lost = sorted(message.partition(":")[0] for message in said(caplog))
    assert lost == [
        f"SummaryCollector does not record {what}"
        for what in ("histograms of parameters", "the graph", "the input data", "the loss")
    ]


def test_a_pipeline_that_cannot_be_serialised_costs_its_graph_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(rows: object) -> None:
        raise RuntimeError("no such operation")

    monkeypatch.setattr(dataset, "serialize", broken)
    model_of(Net()).train(1, batches_of(2), collector(tmp_path))
    assert "train_lineage" in kinds(tmp_path)
    assert "dataset_graph" not in kinds(tmp_path)
    assert [message for message in said(caplog) if "dataset graph" in message] == [
        "SummaryCollector does not record the dataset graph: RuntimeError: no such operation"
    ]


def test_metrics_that_are_not_json_leave_the_evaluation_without_a_metric(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(nn.Metric):
        def clear(self) -> None:
            pass

        def update(self, *inputs: object) -> None:
            pass

        def eval(self) -> object:
            return {1, 2}

    model = Model(Net(), nn.SoftmaxCrossEntropyWithLogits(sparse=True), metrics={"odd": Odd()})
    model.eval(batches_of(2), callbacks=collector(tmp_path))
    (evaluation,) = told(tmp_path)
    assert evaluation.content == {"valid_dataset": {"valid_dataset_size": 8}}
    assert len([message for message in said(caplog) if "the metrics" in message]) == 1


def test_a_metric_that_is_nan_is_told(tmp_path: Path) -> None:
    class Diverged(nn.Metric):
        def clear(self) -> None:
            pass

        def update(self, *inputs: object) -> None:
            pass

        def eval(self) -> float:
            return float("nan")

    model = Model(Net(), nn.SoftmaxCrossEntropyWithLogits(sparse=True), metrics={"loss": Diverged()})
    model.eval(batches_of(2), callbacks=collector(tmp_path))
    assert np.isnan(json.loads(told(tmp_path)[0].content["metric"])["loss"])


def test_a_directory_that_vanishes_costs_the_files_and_not_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    steps = []

    class Vandal(Callback):
        def on_train_step_end(self, run_context: RunContext) -> None:
            steps.append(run_context.original_args().cur_step_num)
            if len(steps) == 2:
                shutil.rmtree(tmp_path / "job")

    specified = {"collect_landscape": {"intervals": [[1, 2, 3, 4]]}}
    callback = SummaryCollector(str(tmp_path / "job"), 1, collect_specified_data=specified)
    model_of(Net()).train(1, batches_of(4), [Vandal(), callback])
    assert steps == [1, 2, 3, 4]
    assert any("states for landscapes" in message for message in said(caplog))


def test_how_many_checkpoints_landscapes_take_is_said_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model_of(Net()).train(1, batches_of(4), SummaryCollector(str(tmp_path), 10))
    (message,) = [each for each in said(caplog) if "landscapes" in each]
    assert message.startswith("For loss landscapes, 4 checkpoints of the network")
    assert len(list((tmp_path / "ckpt_dir").glob("*.ckpt"))) == 4
    assert json.loads((tmp_path / "ckpt_dir" / "train_metadata.json").read_text())["num_samples"] == 128


def test_a_subclass_that_fit_evaluates_with_tells_each_evaluation_once(tmp_path: Path) -> None:
    class Mine(SummaryCollector):
        pass

    mine = Mine(str(tmp_path), 1, collect_specified_data=NO_LANDSCAPE)
    model_of(Net()).fit(2, batches_of(2), batches_of(1), callbacks=mine)
    assert kinds(tmp_path).count("evaluation_lineage") == 2
    assert kinds(tmp_path).count("train_lineage") == 1
    steps = [event.step for event in told(tmp_path, "summary") if event.what == "summary"]
    assert steps == [1, 2, 3, 4]
    assert len(log_files(tmp_path)) == 2


def test_text_that_has_no_utf8_costs_itself_alone_and_is_said_before_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = {"owner": "vision", "note": "caf\udce9", "\ud800": 1, "trial": 7}
    callback = collector(tmp_path, custom_lineage_data=values)
    assert [message.endswith("It is not recorded.") for message in said(caplog)] == [True, True]
    model_of(Net()).train(1, batches_of(2), callback)
    (info,) = [event.content for event in told(tmp_path) if event.what == "user_defined_info"]
    assert info["user_info"] == [{"map_str": {"owner": "vision"}}, {"map_int32": {"trial": 7}}]


def test_a_collectors_second_training_is_told_as_its_first(tmp_path: Path) -> None:
    class Other(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.other = nn.SequentialCell(nn.Flatten(), nn.Dense(16, CLASSES))

        def construct(self, images: mindspore.Tensor) -> mindspore.Tensor:
            return self.other(images)

    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    specified = {**NO_LANDSCAPE, "collect_learning_rate": True}
    ours = collector(tmp_path, collect_freq=1, collect_specified_data=specified)
    first, second = Net(), Other()
    model_of(first, momentum(first, [0.5, 0.25])).train(1, batches_of(2), ours)
    between = log_files(tmp_path)
    model = model_of(second, momentum(second, [0.125, 0.0625, 0.5]))
    model.train(1, batches_of(2), ours)
    assert kinds(tmp_path).count("graph_def") == 2
    assert kinds(tmp_path).count("dataset_graph") == 2
    model.train(1, batches_of(1), ours)
    assert kinds(tmp_path).count("graph_def") == 2, "the same network is described once"
    values = [
        {value["tag"]: value.get("scalar_value") for value in event.content["value"]}
        for path in log_files(tmp_path)
        if path not in between and not path.name.endswith("_lineage")
        for event in told_of(path)
        if event.what == "summary"
    ]
    weights = {"other.1.weight/auto", "other.1.bias/auto"}
    assert [set(each) - {"input_data/auto", "loss/auto", "learning_rate/auto"} for each in values] == [
        weights
    ] * 3
    assert [each["learning_rate/auto"] for each in values] == [0.125, 0.0625, 0.5]


def test_a_training_that_fails_leaves_whole_files(tmp_path: Path) -> None:
    class Failing(Callback):
        def on_train_step_end(self, run_context: RunContext) -> None:
            if run_context.original_args().cur_step_num == 3:
                raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        model_of(Net()).train(1, batches_of(4), [collector(tmp_path, collect_freq=1), Failing()])
    assert [event.step for event in told(tmp_path, "summary") if event.what == "summary"] == [1, 2, 3]
    assert {path.stat().st_mode & 0o777 for path in log_files(tmp_path)} == {0o400}
