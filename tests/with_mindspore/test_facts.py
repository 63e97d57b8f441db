"""The facts that are read from datasets and optimizers, on MindSpore's own objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import dataset, nn
from mindspore.mindrecord import FileWriter

from lineage_store.collect import facts
from lineage_store.collect.learning_rates import LearningRates
from lineage_store.collect.lineage_messages import graph_of
from lineage_store.errors import LineageLogError
from with_mindspore.trainings import BATCH, Net, batches_of

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300)]

DIRECTORIES = [
    dataset.ImageFolderDataset,
    dataset.MnistDataset,
    dataset.Cifar10Dataset,
    dataset.Cifar100Dataset,
    dataset.CelebADataset,
]


@pytest.mark.parametrize("kind", DIRECTORIES)
def test_a_source_that_is_a_directory_gives_it(kind: Callable[..., Any], tmp_path: Path) -> None:
    rows = kind(str(tmp_path)).repeat(2).batch(4)
    assert facts.source_path(rows) == str(tmp_path)


def test_a_voc_source_gives_its_directory(tmp_path: Path) -> None:
    names = tmp_path / "ImageSets" / "Segmentation"
    names.mkdir(parents=True)
    (names / "train.txt").touch()
    assert facts.source_path(dataset.VOCDataset(str(tmp_path)).batch(4)) == str(tmp_path)


def test_a_source_that_is_a_file_gives_its_directory(tmp_path: Path) -> None:
    for name in ("rows.txt", "rows.tfrecord", "rows.manifest"):
        (tmp_path / name).write_text("one\n")
    text = dataset.TextFileDataset(str(tmp_path / "rows.txt"))
    records = dataset.TFRecordDataset([str(tmp_path / "rows.tfrecord")])
    manifest = dataset.ManifestDataset(str(tmp_path / "rows.manifest"))
    assert {facts.source_path(rows.batch(4)) for rows in (text, records, manifest)} == {str(tmp_path)}


def test_a_mindrecord_source_gives_the_directory_of_its_first_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.mindrecord"
    writer = FileWriter(str(path), 1)
    writer.add_schema({"label": {"type": "int32"}})
    writer.write_raw_data([{"label": number} for number in range(4)])
    writer.commit()
    assert facts.source_path(dataset.MindDataset(str(path))) == str(tmp_path)
    assert facts.source_path(dataset.MindDataset([str(path)]).shuffle(2)) == str(tmp_path)


def test_of_joined_sources_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("one\ntwo\n")
    first = dataset.TextFileDataset(str(tmp_path / "rows.txt"))
    other = dataset.NumpySlicesDataset(np.arange(2), "other")
    assert facts.source_path(dataset.zip((first, other))) == str(tmp_path)
    assert facts.source_path(dataset.zip((other, first))) is None


def test_sizes_are_of_examples_and_of_a_batch() -> None:
    found = facts.facts_of(batches_of(3))
    assert (found.path, found.count, found.batch_size) == (None, 3 * BATCH, BATCH)


@pytest.mark.parametrize(
    ("outputs", "loss"),
    [
        (None, None),
        ((), None),
        (mindspore.Tensor([0.5, 1.5]), 1.0),
        ((mindspore.Tensor(0.5), mindspore.Tensor(7.0)), 0.5),
        ([3, 4], 3.0),
        (mindspore.Tensor(0.5, mindspore.bfloat16), 0.5),
    ],
)
def test_the_loss_is_the_mean_of_the_first_output(outputs: Any, loss: float | None) -> None:
    assert facts.loss_of({"net_outputs": outputs}) == loss


def test_what_the_format_has_no_room_for_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {
        "op_type": "Map",
        "seed": 2**40,
        "columns": ["a", None],
        "options": {"b": 1},
        "operations": [None, {"tensor_op_name": "Crop", "size": [2, 3], "weights": [0.5], "names": ["x"]}],
        "children": [{"op_type": "Source", "children": []}, None],
    }
    monkeypatch.setattr(dataset, "serialize", lambda rows: content)
    message = graph_of(object())
    assert dict(message.parameter.mapStr) == {"op_type": "Map", "seed": str(2**40), "options": '{"b": 1}'}
    assert list(message.parameter.mapStrList["columns"].strValue) == ['"a"', ""]
    assert [child.parameter.mapStr["op_type"] for child in message.children] == ["Source"]
    crop = message.operations[1]
    assert (list(crop.size), list(crop.weights)) == ([2, 3], [0.5])
    assert list(crop.operationParam.mapStrList["names"].strValue) == ['"x"']


def after(steps: int, optimizer: Any) -> Any:
    """The optimizer as it is after so many steps."""
    optimizer.global_step.set_data(mindspore.Tensor([steps], mindspore.int32))
    return optimizer


@pytest.mark.parametrize("mode", [mindspore.GRAPH_MODE, mindspore.PYNATIVE_MODE])
@pytest.mark.parametrize(
    ("rate", "first", "third"),
    [
        (0.5, 0.5, 0.5),
        ([0.5, 0.25, 0.125], 0.5, 0.125),
        (mindspore.Tensor([0.5, 0.25, 0.125]), 0.5, 0.125),
        (nn.ExponentialDecayLR(0.5, 0.25, 2, is_stair=True), 0.5, 0.125),
    ],
)
def test_learning_rates(mode: int, rate: Any, first: float, third: float) -> None:
    mindspore.set_context(mode=mode)
    rates = LearningRates(after(3, nn.Momentum(Net().trainable_params(), rate, 0.9)))
    assert rates.initial() == first
    assert rates.last() == [third]


def test_groups_have_rates_of_their_own() -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    weight, *others = Net().trainable_params()
    fixed = LearningRates(nn.Momentum([{"params": [weight], "lr": 0.5}, {"params": others}], 0.25, 0.9))
    assert (fixed.initial(), fixed.last()) == (0.5, [0.5, 0.25])
    halving = nn.ExponentialDecayLR(0.5, 0.5, 1)
    mixed = nn.Momentum([{"params": [weight], "lr": 0.1}, {"params": others, "lr": halving}], 0.25, 0.9)
    assert LearningRates(after(2, mixed)).last() == [pytest.approx(0.1, rel=1e-7), 0.25]


def test_an_experimental_schedule_remembers_where_it_began() -> None:
    from mindspore.experimental.optim import SGD, lr_scheduler

    optimizer = SGD(Net().trainable_params(), 0.5)
    schedule = lr_scheduler.StepLR(optimizer, 1, 0.5)
    schedule.step()
    rates = LearningRates(optimizer)
    assert (rates.initial(), rates.last()) == (0.5, [0.25])


def test_a_schedule_that_holds_a_network_is_not_copied() -> None:
    class Holding(nn.learning_rate_schedule.LearningRateSchedule):
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.Dense(2000, 2000)

        def construct(self, global_step: mindspore.Tensor) -> mindspore.Tensor:
            return self.network.weight.mean()

    with pytest.raises(LineageLogError, match="Holding holds too much to be copied"):
        LearningRates(nn.Momentum(Net().trainable_params(), Holding(), 0.9)).initial()
