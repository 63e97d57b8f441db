"""TrainLineage, EvalLineage and SummaryStep in real trainings, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import dataset, nn
from mindspore.train import Model, ModelCheckpoint, RunContext
from mindspore.train.summary import SummaryRecord as MindSporeRecord

from helpers.log_contents import told
from lineage_store.collect import EvalLineage, SummaryCollector, SummaryRecord, SummaryStep, TrainLineage
from lineage_store.errors import (
    LineageLogError,
    LineageParamRaiseExceptionError,
    LineageParamRunContextError,
    LineageParamSummaryRecordError,
    LineageParamTypeError,
    LineageParamValueError,
)
from with_mindspore.trainings import Net, batches_of, model_of, momentum

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300), pytest.mark.usefixtures("pynative")]

USER_INFO: dict[str, str | int | float] = {"owner": "vision", "trial": 7, "dropout": 0.5}


def lineage(directory: Path, what: str) -> list[Any]:
    return [event.content for event in told(directory, "lineage") if event.what == what]


@pytest.mark.parametrize("record_type", [SummaryRecord, MindSporeRecord, str])
def test_a_training_and_its_evaluation_are_told(record_type: Any, tmp_path: Path) -> None:
    model = model_of(Net())
    checkpoint = ModelCheckpoint("small", str(tmp_path / "model"))
    place = record_type(str(tmp_path / "job"))
    callbacks = [checkpoint, TrainLineage(place, True, USER_INFO)]
    model.train(2, batches_of(3), callbacks)
    metrics = model.eval(batches_of(2, 2), callbacks=EvalLineage(place, True, {"reviewer": "anna"}))
    if record_type is not str:
        place.close()

    (training,) = lineage(tmp_path / "job", "train_lineage")
    file = (tmp_path / "model" / "small-2_3.ckpt").resolve()
    assert json.loads(training["model"]["path"]) == {"ckpt": str(file)}
    assert int(training["model"]["size"]) == file.stat().st_size
    loss = training["algorithm"].pop("loss")
    assert 0 < loss < 5
    del training["model"]
    assert training == {
        "hyper_parameters": {
            "optimizer": "Momentum",
            "learning_rate": 0.05,
            "loss_function": "SoftmaxCrossEntropyWithLogits",
            "epoch": 2,
            "parallel_mode": "stand_alone",
            "device_num": 1,
            "batch_size": 4,
        },
        "algorithm": {"network": "Net"},
        "train_dataset": {"train_dataset_size": 12},
    }
    (evaluation,) = lineage(tmp_path / "job", "evaluation_lineage")
    assert json.loads(evaluation["metric"]) == metrics
    assert evaluation["valid_dataset"] == {"valid_dataset_size": 8}
    assert not {"epoch", "step"} & evaluation.keys()
    (graph,) = lineage(tmp_path / "job", "dataset_graph")
    assert graph["parameter"]["mapStr"]["op_type"] == "Batch"
    values = [entry for info in lineage(tmp_path / "job", "user_defined_info") for entry in info["user_info"]]
    assert values == [
        {"map_str": {"owner": "vision"}},
        {"map_int32": {"trial": 7}},
        {"map_double": {"dropout": 0.5}},
        {"map_str": {"reviewer": "anna"}},
    ]


def test_fit_tells_one_training_and_every_evaluation(tmp_path: Path) -> None:
    directory = str(tmp_path)
    model = model_of(Net())
    callbacks = [TrainLineage(directory, True, USER_INFO), EvalLineage(directory, True)]
    model.fit(3, batches_of(2), batches_of(2, 2), callbacks=callbacks)
    assert len(lineage(tmp_path, "train_lineage")) == 1
    evaluations = lineage(tmp_path, "evaluation_lineage")
    assert [(each["epoch"], each["step"]) for each in evaluations] == [("1", "2"), ("2", "4"), ("3", "6")]
    files = [path.name for path in tmp_path.iterdir()]
    assert len(files) == 2, "one file for each callback, however often fit enters them"
    training = lineage(tmp_path, "user_defined_info")
    assert len(training) == 1


def test_lineage_beside_a_collector_leaves_summary_operators_to_it(tmp_path: Path) -> None:
    from with_mindspore.trainings import SpeakingNet

    network = SpeakingNet()
    collector = SummaryCollector(str(tmp_path), 1, collect_specified_data={}, keep_default_action=False)
    model_of(network).train(1, batches_of(3), [TrainLineage(str(tmp_path), True), collector])
    steps = [event.step for event in told(tmp_path, "summary") if event.what == "summary"]
    assert steps == [1, 2, 3]


def test_summary_step_records_every_few_steps(tmp_path: Path) -> None:
    from with_mindspore.trainings import SpeakingNet

    with SummaryRecord(str(tmp_path)) as record:
        step = SummaryStep(record, flush_step=2)
        model_of(SpeakingNet()).train(1, batches_of(5), step)
        assert step.summary_file == record.full_file_name
    assert [event.step for event in told(tmp_path, "summary") if event.what == "summary"] == [2, 4]


@pytest.mark.parametrize("flush_step", [0, -1, True, 2.5, "2"])
def test_summary_step_refuses_what_is_no_count_of_steps(flush_step: Any, tmp_path: Path) -> None:
    with SummaryRecord(str(tmp_path)) as record, pytest.raises((TypeError, ValueError), match="flush_step"):
        SummaryStep(record, flush_step)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((7, True), LineageParamSummaryRecordError),
        (("  ", True), LineageParamTypeError),
        (("job", "yes"), LineageParamRaiseExceptionError),
        (("job", True, {"a": [b"x"]}), LineageParamTypeError),
        (("job", True, {1: "a"}), LineageParamTypeError),
        (("job", True, ["a"]), LineageParamTypeError),
        (("job", True, {"network": "mine"}), LineageParamValueError),
        (("job", True, {"big": 2**31}), LineageParamValueError),
    ],
)
@pytest.mark.parametrize("callback", [TrainLineage, EvalLineage])
def test_wrong_arguments_are_refused(
    callback: Any, arguments: Any, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error):
        callback(*arguments)


def test_without_raise_exception_a_wrong_argument_is_said_once_and_the_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callback = TrainLineage(7)  # type: ignore[arg-type]
    model_of(Net()).train(1, batches_of(2), callback)
    (message,) = [each.getMessage() for each in caplog.records if each.name.startswith("lineage_store")]
    assert "summary_record must be a SummaryRecord or a directory, not int" in message


def test_a_user_defined_value_that_cannot_be_kept_costs_itself_alone_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    info: dict[Any, Any] = {
        "owner": "vision",
        "layers": [b"x"],
        "network": "mine",
        "flag": True,
        "large": 2**40,
        "note": "caf\udce9",
        7: "number",
        "dropout": np.float32(0.5),
        "trial": np.int64(7),
    }
    callback = TrainLineage(str(tmp_path), user_defined_info=info)
    for _ in range(2):
        model_of(Net()).train(1, batches_of(2), callback)
    told_lineage = [event.what for event in told(tmp_path, "lineage")]
    assert told_lineage.count("train_lineage") == 2
    (first, _) = lineage(tmp_path, "user_defined_info")
    assert first["user_info"] == [
        {"map_str": {"owner": "vision"}},
        {"map_int32": {"flag": 1}},
        {"map_double": {"dropout": 0.5}},
        {"map_int32": {"trial": 7}},
    ]
    messages = [each.getMessage() for each in caplog.records if each.name.startswith("lineage_store")]
    assert [message.partition(": ")[0] for message in messages] == [
        "TrainLineage does not record the entry 'layers' of user_defined_info",
        "TrainLineage does not record the entry 'network' of user_defined_info",
        "TrainLineage does not record the entry 'large' of user_defined_info",
        "TrainLineage does not record the entry 'note' of user_defined_info",
        "TrainLineage does not record the entry 7 of user_defined_info",
    ]
    assert "or a list of these, not list" in messages[0]


def test_user_defined_info_that_is_no_dict_costs_itself_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model_of(Net()).train(1, batches_of(2), TrainLineage(str(tmp_path), user_defined_info=["vision"]))  # type: ignore[arg-type]
    assert len(lineage(tmp_path, "train_lineage")) == 1
    (message,) = [each.getMessage() for each in caplog.records if each.name.startswith("lineage_store")]
    assert "user_defined_info must be a dict or None, not list" in message


def test_a_failure_is_raised_where_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(LineageParamRunContextError, match="RunContext, not dict"):
        TrainLineage(str(tmp_path), True).begin({"mode": "train"})
    with pytest.raises(LineageLogError, match="cannot record"):
        TrainLineage(str(tmp_path), True).begin(RunContext({"mode": "train"}))


def test_a_record_that_is_closed_costs_the_lineage_and_not_the_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = SummaryRecord(str(tmp_path))
    record.close()
    model_of(Net()).train(1, batches_of(2), [TrainLineage(record), SummaryStep(record, 1)])
    assert told(tmp_path) == []
    messages = [each.getMessage() for each in caplog.records if each.name.startswith("lineage_store")]
    assert len(messages) == 1
    assert "closed" in messages[0]


def test_a_pipeline_that_cannot_be_serialised_costs_its_graph_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(rows: object) -> None:
        raise RuntimeError("no such operation")

    monkeypatch.setattr(dataset, "serialize", broken)
    model_of(Net()).train(1, batches_of(2), TrainLineage(str(tmp_path)))
    assert [event.what for event in told(tmp_path)] == ["train_lineage"]
    messages = [each.getMessage() for each in caplog.records if each.name.startswith("lineage_store")]
    assert messages == ["TrainLineage does not record the dataset graph: RuntimeError: no such operation"]


def test_a_training_without_optimizer_and_loss_function_has_a_lineage(tmp_path: Path) -> None:
    class Alone(nn.Cell):
        def construct(self, values: mindspore.Tensor) -> mindspore.Tensor:
            return values.mean()

    rows = dataset.NumpySlicesDataset(np.ones((4, 2), np.float32), shuffle=False).batch(2)
    Model(Alone()).train(1, rows, TrainLineage(str(tmp_path), True))
    (training,) = lineage(tmp_path, "train_lineage")
    assert "optimizer" not in training["hyper_parameters"]
    assert "learning_rate" not in training["hyper_parameters"]
    assert training["algorithm"] == {"network": "Alone", "loss": 1.0}


def test_the_learning_rate_is_the_first_also_when_something_lowers_it(tmp_path: Path) -> None:
    from mindspore.train import LearningRateScheduler

    network = Net()
    model = model_of(network, momentum(network, 0.5))
    lower = LearningRateScheduler(lambda rate, step: rate / 2)
    model.train(1, batches_of(3), [lower, TrainLineage(str(tmp_path), True)])
    (training,) = lineage(tmp_path, "train_lineage")
    assert training["hyper_parameters"]["learning_rate"] == 0.5


def test_learning_rates_are_scalars_when_asked_for(tmp_path: Path) -> None:
    network = Net()
    model = model_of(network, momentum(network, [0.5, 0.25, 0.125]))
    specified = {"collect_learning_rate": True}
    collector = SummaryCollector(
        str(tmp_path), 1, collect_specified_data=specified, keep_default_action=False
    )
    model.train(1, batches_of(3), collector)
    values = [(event.step, event.content["value"]) for event in told(tmp_path) if event.what == "summary"]
    assert values == [
        (step, [{"tag": "learning_rate/auto", "scalar_value": rate}])
        for step, rate in [(1, 0.5), (2, 0.25), (3, 0.125)]
    ]
