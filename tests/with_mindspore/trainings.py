"""Small real trainings: `python trainings.py ours|mindspore BASE_DIR [name …]` runs them, each into BASE_DIR/name.

In: whose SummaryCollector to use. Out: the log files, and on standard output, as JSON, what was lost to failures:
{"failures": {name: text}}. One process runs them all, one after the other, with the same seeds for both sides, so that
both trainings of a name see the same numbers.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindspore import dataset, nn, ops
from mindspore.mindrecord import FileWriter
from mindspore.train import Accuracy, CheckpointConfig, Loss, Model, ModelCheckpoint, RunContext
from mindspore.train.callback import _InternalCallbackParam

BATCH = 4
CLASSES = 3
NO_LANDSCAPE = {"collect_landscape": None}

Collector = Callable[..., Any]
TRAININGS: dict[str, Callable[[Collector, str], None]] = {}


def training(run: Callable[[Collector, str], None]) -> Callable[[Collector, str], None]:
    TRAININGS[run.__name__] = run
    return run


class Net(nn.Cell):
    """Two dense layers over flattened images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.SequentialCell(nn.Flatten(), nn.Dense(16, 10), nn.ReLU(), nn.Dense(10, CLASSES))

    def construct(self, images: mindspore.Tensor) -> mindspore.Tensor:
        return self.layers(images)


class SpeakingNet(nn.Cell):
    """The same, with every summary operator."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.scalar = ops.ScalarSummary()
        self.image = ops.ImageSummary()
        self.tensor = ops.TensorSummary()
        self.histogram = ops.HistogramSummary()

    def construct(self, images: mindspore.Tensor) -> mindspore.Tensor:
        outputs = self.net(images)
        self.scalar("mean", outputs.mean())
        self.image("images", images)
        self.tensor("outputs", outputs)
        self.histogram("spread", outputs)
        return outputs


class LossOutputs(nn.Cell):
    """A network that gives its loss and something else."""

    def __init__(self, network: nn.Cell) -> None:
        super().__init__()
        self.network = network
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True)

    def construct(self, images: mindspore.Tensor, labels: mindspore.Tensor) -> mindspore.Tensor:
        return self.loss(self.network(images), labels)


class Schedule(nn.learning_rate_schedule.LearningRateSchedule):
    """A user's own schedule, made of two of MindSpore's."""

    def __init__(self) -> None:
        super().__init__()
        self.warm_up = nn.WarmUpLR(0.1, 4)
        self.decay = nn.CosineDecayLR(0.01, 0.25, 10)

    def construct(self, global_step: mindspore.Tensor) -> mindspore.Tensor:
        return self.warm_up(global_step) + self.decay(global_step)


def images(batches: int, seed: int = 1, channels: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Random 4x4 pictures and their classes."""
    random = np.random.default_rng(seed)
    count = batches * BATCH
    shape = (count, 1, 4, 4) if channels == 1 else (count, channels, 4, 4)
    return random.random(shape, dtype=np.float32), random.integers(0, CLASSES, count, dtype=np.int32)


def batches_of(batches: int, seed: int = 1) -> dataset.Dataset:
    return dataset.NumpySlicesDataset(images(batches, seed), ["image", "label"], shuffle=False).batch(BATCH)


def loss() -> nn.Cell:
    return nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")


def momentum(network: nn.Cell, rate: Any = 0.05) -> nn.Cell:
    return nn.Momentum(network.trainable_params(), rate, 0.9)


def model_of(network: nn.Cell, optimizer: nn.Cell | None = None, **options: Any) -> Model:
    return Model(
        network,
        loss(),
        optimizer or momentum(network),
        metrics={"accuracy": Accuracy(), "loss": Loss()},
        **options,
    )


@training
def defaults_then_evaluation(collector: Collector, directory: str) -> None:
    """Everything by default but landscapes, a model file, custom data; the evaluation writes a file of its own."""
    model = model_of(Net())
    checkpoint = ModelCheckpoint("small", f"{directory}/model", CheckpointConfig(save_checkpoint_steps=3))
    ours = collector(
        directory,
        collect_freq=3,
        collect_specified_data=NO_LANDSCAPE,
        custom_lineage_data={"owner": "vision", "trial": 7, "dropout": 0.1},
    )
    model.train(2, batches_of(5), [checkpoint, ours], dataset_sink_mode=False)
    # MindSpore names files by the second, and truncates one that is there: what was trained would be gone.
    time.sleep(1)
    again = collector(directory, collect_specified_data=NO_LANDSCAPE)
    model.eval(batches_of(2, 2), callbacks=[again], dataset_sink_mode=False)


@training
def one_collector_for_both(collector: Collector, directory: str) -> None:
    """The same object in a training and in an evaluation, sink mode asked for (a CPU has none)."""
    model = model_of(Net())
    ours = collector(directory, collect_freq=3, collect_specified_data=NO_LANDSCAPE)
    model.train(1, batches_of(5), ours, dataset_sink_mode=True)
    time.sleep(1.1)  # MindSpore names files by the second: within one it writes over the training's
    model.eval(batches_of(2, 2), callbacks=ours)


@training
def pynative_with_chosen_histograms(collector: Collector, directory: str) -> None:
    """PyNative mode: no graph; only the weights; one kind left out."""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    network = Net()
    model = model_of(network, nn.Adam(network.trainable_params(), 0.01))
    specified = {**NO_LANDSCAPE, "histogram_regular": ".*weight", "collect_input_data": False}
    model.train(2, batches_of(4), collector(directory, 3, collect_specified_data=specified))


@training
def only_what_is_named(collector: Collector, directory: str) -> None:
    """keep_default_action=False."""
    specified = {"collect_metric": True, "collect_train_lineage": True}
    ours = collector(directory, 2, collect_specified_data=specified, keep_default_action=False)
    model_of(Net()).train(1, batches_of(5), ours)


@training
def nothing_at_all(collector: Collector, directory: str) -> None:
    """keep_default_action=False alone."""
    model_of(Net()).train(1, batches_of(3), collector(directory, keep_default_action=False))


@training
def summary_operators(collector: Collector, directory: str) -> None:
    """Values that the network emits, tensors at steps of their own, and npy files of them."""
    ours = collector(
        directory,
        collect_freq=3,
        collect_tensor_freq=4,
        collect_specified_data=NO_LANDSCAPE,
        export_options={"tensor_format": "npy"},
    )
    model_of(SpeakingNet()).train(2, batches_of(7), ours)


@training
def loss_in_the_network(collector: Collector, directory: str) -> None:
    """Loss and optimizer are cells of the network; the output is a batch of losses."""
    network = LossOutputs(Net())
    model = Model(nn.TrainOneStepCell(network, momentum(network)))
    model.train(1, batches_of(5), collector(directory, 3, collect_specified_data=NO_LANDSCAPE))


@training
def no_output(collector: Collector, directory: str) -> None:
    """A network that gives an empty tuple: there is no loss."""

    class Silent(LossOutputs):
        def construct(self, images: mindspore.Tensor, labels: mindspore.Tensor) -> tuple[()]:
            return ()

    Model(Silent(Net())).train(1, batches_of(3), collector(directory, 2, collect_specified_data=NO_LANDSCAPE))


@training
def a_pipeline_with_operations(collector: Collector, directory: str) -> None:
    """Map with MindSpore's operations and a Python function, rename, shuffle, repeat, a sampler."""
    from mindspore.dataset import transforms, vision

    pictures, labels = images(6)
    rows = dataset.NumpySlicesDataset(
        (pictures, labels), ["image", "label"], sampler=dataset.SequentialSampler(num_samples=20)
    )
    rows = rows.map([vision.Rescale(1.0, 0.5), vision.HWC2CHW()], "image").map([vision.HWC2CHW()], "image")
    rows = rows.map(transforms.TypeCast(mindspore.int32), "label")
    rows = rows.shuffle(4).batch(BATCH, drop_remainder=True).repeat(2)
    dataset.config.set_seed(3)
    model_of(Net()).train(1, rows, collector(directory, 3, collect_specified_data=NO_LANDSCAPE))


@training
def mindrecord_source(collector: Collector, directory: str) -> None:
    """A dataset with a path: the file's directory is recorded."""
    source = Path(directory).parent.parent / "source"
    source.mkdir(exist_ok=True)
    path = source / "rows.mindrecord"
    if not path.exists():
        writer = FileWriter(str(path), 1)
        writer.add_schema({"image": {"type": "float32", "shape": [16]}, "label": {"type": "int32"}})
        pictures, labels = images(3)
        writer.write_raw_data(
            [
                {"image": image.ravel(), "label": int(label)}
                for image, label in zip(pictures, labels, strict=True)
            ]
        )
        writer.commit()
    rows = dataset.MindDataset(str(path), shuffle=False).batch(BATCH)
    model_of(Net()).train(1, rows, collector(directory, 2, collect_specified_data=NO_LANDSCAPE))


@training
def metrics_that_are_not_json(collector: Collector, directory: str) -> None:
    network = Net()
    model = Model(network, loss(), momentum(network), metrics={"matrix": nn.ConfusionMatrix(CLASSES)})
    model.eval(batches_of(2), callbacks=collector(directory, collect_specified_data=NO_LANDSCAPE))


@training
def landscape_by_step(collector: Collector, directory: str) -> None:
    landscape = {"intervals": [[1, 2, 3], [4, 5, 6]], "landscape_size": 5, "num_samples": 12, "unit": "step"}
    ours = collector(directory, 4, collect_specified_data={"collect_landscape": landscape})
    model_of(Net()).train(1, batches_of(5), ours)


@training
def landscape_by_epoch(collector: Collector, directory: str) -> None:
    landscape = {
        "intervals": [[1, 2, 3]],
        "unit": "epoch",
        "num_samples": 12,
        "create_landscape": {"train": True, "result": False},
    }
    ours = collector(directory, 4, collect_specified_data={"collect_landscape": landscape})
    model_of(Net()).train(3, batches_of(3), ours)


@training
def sunk_epochs(collector: Collector, directory: str) -> None:
    """Sink mode, which a CPU lacks: the calls that a model makes there, around steps that are really trained."""
    network = Net()
    trained = nn.TrainOneStepCell(nn.WithLossCell(network, loss()), momentum(network))
    rows = batches_of(5)
    run = _InternalCallbackParam(
        mode="train",
        cur_step_num=0,
        train_network=trained,
        epoch_num=7,
        batch_num=5,
        loss_fn=None,
        optimizer=None,
        parallel_mode="stand_alone",
        device_number=1,
        train_dataset=rows,
        list_callback=[],
        network=network,
        dataset_sink_mode=True,
    )
    context = RunContext(run)
    with collector(directory, 3, collect_specified_data=NO_LANDSCAPE) as callback:
        callback.on_train_begin(context)
        for epoch in range(1, 8):
            run.cur_epoch_num = epoch
            for run.train_dataset_element in rows:
                run.cur_step_num += 1
                run.net_outputs = trained(*run.train_dataset_element)
            callback.on_train_step_end(context)
            callback.on_train_epoch_end(context)
        callback.on_train_end(context)


@training
def differs_at_epoch_ends(collector: Collector, directory: str) -> None:
    """Epochs end at collected steps: MindSpore records those twice."""
    model_of(Net()).train(2, batches_of(4), collector(directory, 2, collect_specified_data=NO_LANDSCAPE))


@training
def differs_with_a_list_of_rates(collector: Collector, directory: str) -> None:
    network = Net()
    model = model_of(network, momentum(network, [0.3, 0.2, 0.1]))
    model.train(1, batches_of(3), collector(directory, 2, collect_specified_data=NO_LANDSCAPE))


@training
def differs_with_a_schedule(collector: Collector, directory: str) -> None:
    network = Net()
    model = model_of(network, momentum(network, Schedule()))
    model.train(1, batches_of(3), collector(directory, 2, collect_specified_data=NO_LANDSCAPE))


@training
def differs_with_groups(collector: Collector, directory: str) -> None:
    network = Net()
    first, *others = network.trainable_params()
    groups = [{"params": [first], "lr": nn.ExponentialDecayLR(0.125, 0.9, 4)}, {"params": others, "lr": 0.5}]
    model = model_of(network, nn.Momentum(groups, 0.1, 0.9))
    model.train(1, batches_of(3), collector(directory, 2, collect_specified_data=NO_LANDSCAPE))


@training
def differs_in_fit(collector: Collector, directory: str) -> None:
    """Model.fit evaluates after each epoch."""
    model = model_of(Net())
    ours = collector(directory, 2, collect_specified_data=NO_LANDSCAPE)
    model.fit(2, batches_of(3), batches_of(2, 2), callbacks=ours)


@training
def differs_in_fit_with_operators(collector: Collector, directory: str) -> None:
    """The evaluations emit values, too: one after a collected step, one after another."""

    class Evaluated(SpeakingNet):
        def construct(self, images: mindspore.Tensor) -> mindspore.Tensor:
            outputs = super().construct(images)
            if not self.training:
                self.scalar("evaluated", outputs.mean())
            return outputs

    ours = collector(directory, 2, collect_specified_data=NO_LANDSCAPE)
    model_of(Evaluated()).fit(4, batches_of(3), batches_of(2, 2), valid_frequency=[2, 3], callbacks=ours)


@training
def differs_with_an_experimental_optimizer(collector: Collector, directory: str) -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    from mindspore.experimental.optim import SGD

    class Step(nn.Cell):
        """A training step as it is written for such optimizers."""

        def __init__(self, network: nn.Cell) -> None:
            super().__init__()
            self.network = network
            self.optimizer = SGD(network.trainable_params(), lr=0.25)
            self.gradients = mindspore.value_and_grad(network, None, network.trainable_params())

        def construct(self, images: mindspore.Tensor, labels: mindspore.Tensor) -> mindspore.Tensor:
            value, gradients = self.gradients(images, labels)
            self.optimizer(gradients)
            return value

    class MeanLoss(LossOutputs):
        def construct(self, images: mindspore.Tensor, labels: mindspore.Tensor) -> mindspore.Tensor:
            return self.loss(self.network(images), labels).mean()

    model = Model(Step(MeanLoss(Net())))
    model.train(1, batches_of(3), collector(directory, 2, collect_specified_data=NO_LANDSCAPE))


@training
def summary_operators_in_pynative(collector: Collector, directory: str) -> None:
    """The last one: MindSpore's recorder would take over what its last step emitted into the next training."""
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    model_of(SpeakingNet()).train(
        1, batches_of(7), collector(directory, 3, collect_specified_data=NO_LANDSCAPE)
    )


def main() -> None:
    side, base_dir, *names = sys.argv[1:]
    module = importlib.import_module("lineage_store.collect" if side == "ours" else "mindspore.train")
    mindspore.set_device("CPU")
    failures = {}
    for name in names or TRAININGS:
        mindspore.set_context(mode=mindspore.GRAPH_MODE)
        mindspore.set_seed(1)
        try:
            TRAININGS[name](module.SummaryCollector, str(Path(base_dir, name)))
        except Exception:  # noqa: BLE001 - the parent process tells
            failures[name] = traceback.format_exc()
    print(json.dumps({"failures": failures}))


if __name__ == "__main__":
    main()
