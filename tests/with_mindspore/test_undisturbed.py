"""A training goes step for step as without our callbacks: losses, weights and random numbers, bit for bit.

Each pair is the same training with the same seeds, once alone and once with all our callbacks. The trainings use what
a callback could disturb: schedules that keep state or draw random numbers, optimizers around others.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Parameter, Tensor, dataset, nn, ops
from mindspore.nn.learning_rate_schedule import LearningRateSchedule
from mindspore.train import Callback, RunContext

from helpers.log_contents import told
from lineage_store.collect import EvalLineage, SummaryCollector, TrainLineage
from with_mindspore.trainings import (
    BATCH,
    NO_LANDSCAPE,
    Net,
    Schedule,
    batches_of,
    images,
    model_of,
    momentum,
)

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(600)]

STEPS, EPOCHS = 3, 2


class Counting(LearningRateSchedule):
    """Keeps in a parameter how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Parameter(Tensor([0.0], mindspore.float32), name="asked", requires_grad=False)

    def construct(self, global_step: Tensor) -> Tensor:
        return 0.5 / ops.assign_add(self.asked, Tensor([1.0], mindspore.float32))


class SlowlyCounting(Counting):
    """The same, but two answers that follow each other are equal."""

    def construct(self, global_step: Tensor) -> Tensor:
        asked = ops.assign_add(self.asked, Tensor([1.0], mindspore.float32))
        return 0.5 / ops.floor(asked / 4 + 1)


class Drawing(LearningRateSchedule):
    """Draws random numbers in a kernel."""

    def construct(self, global_step: Tensor) -> Tensor:
        return 0.1 * ops.abs(ops.standard_normal((1,)))


class DrawingOnce(LearningRateSchedule):
    """Draws from numpy's generator when it is compiled."""

    def construct(self, global_step: Tensor) -> Tensor:
        return Tensor(np.random.rand(1), mindspore.float32) * 0.1


class DrawingElsewhere(LearningRateSchedule):
    """Draws in a function beside it."""

    def construct(self, global_step: Tensor) -> Tensor:
        return Tensor([0.1], mindspore.float32) * drawn()


def drawn() -> float:
    return random.random()


def counting_elsewhere() -> LearningRateSchedule:
    """Asks a schedule that is none of its own cells."""
    counting = Counting()

    class Asking(LearningRateSchedule):
        def construct(self, global_step: Tensor) -> Tensor:
            return counting(global_step)

    return Asking()


class Halving(LearningRateSchedule):
    """Has functions, its own and one beside it, which are without effect."""

    def construct(self, global_step: Tensor) -> Tensor:
        return self.rate(global_step)

    def rate(self, step: Tensor) -> Tensor:
        return halved(ops.cast(step, mindspore.float32))


def halved(step: Tensor) -> Tensor:
    return FIRST / (step + 1)


FIRST = 0.5


class Based(LearningRateSchedule):
    """Reads a parameter, which something else may set."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Parameter(Tensor([0.5], mindspore.float32), name="base", requires_grad=False)

    def construct(self, global_step: Tensor) -> Tensor:
        return self.base / (global_step + 1)


class Forked(LearningRateSchedule):
    """Takes one of two ways."""

    def construct(self, global_step: Tensor) -> Tensor:
        if global_step < 2:
            return (global_step + 1) * 0.125
        return global_step * 0.0625


def grouped(network: nn.Cell) -> nn.Cell:
    first, *others = network.trainable_params()
    groups = [{"params": [first], "lr": nn.ExponentialDecayLR(0.5, 0.5, 1)}, {"params": others, "lr": 0.25}]
    return nn.Momentum(groups, 0.1, 0.9)


def lars(optimizer: nn.Cell, **options: Any) -> nn.Cell:
    """LARS around an optimizer; what it adds to a gradient is no operator of a CPU."""
    return nn.LARS(optimizer, lars_filter=lambda parameter: False, **options)


class Case:
    """A training's optimizer, the rate that its lineage tells, and those of its steps (None: not told)."""

    def __init__(
        self, optimizer: Callable[[nn.Cell], nn.Cell], initial: float | None, steps: list[float] | None
    ) -> None:
        self.optimizer, self.initial, self.steps = optimizer, initial, steps


HALVES = [0.5 / step for step in range(1, 7)]
DECAYING = [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625]
FORKED = [0.125, 0.25, 0.125, 0.1875, 0.25, 0.3125]
CASES = {
    "fixed": Case(lambda network: momentum(network, 0.25), 0.25, [0.25] * 6),
    "a list": Case(lambda network: momentum(network, DECAYING), 0.5, DECAYING),
    "MindSpore's schedule": Case(
        lambda network: momentum(network, nn.ExponentialDecayLR(0.5, 0.5, 1)), 0.5, DECAYING
    ),
    "a schedule of schedules": Case(lambda network: momentum(network, Schedule()), 0.25, None),
    "a schedule with a parameter": Case(lambda network: momentum(network, Based()), 0.5, HALVES),
    "a schedule with branches": Case(lambda network: momentum(network, Forked()), 0.125, FORKED),
    "groups": Case(grouped, 0.5, DECAYING),
    "LARS": Case(lambda network: lars(momentum(network, DECAYING)), 0.5, DECAYING),
    "LARS with clipping": Case(
        lambda network: lars(momentum(network, DECAYING), use_clip=True), 0.5, DECAYING
    ),
    "a decay of weights": Case(
        lambda network: nn.Adam(network.trainable_params(), 0.25, weight_decay=Counting()), 0.25, [0.25] * 6
    ),
    "a schedule with state": Case(lambda network: momentum(network, Counting()), None, []),
    "a schedule with slow state": Case(lambda network: momentum(network, SlowlyCounting()), None, []),
    "LARS around state": Case(lambda network: lars(momentum(network, Counting())), None, []),
    "a schedule with functions": Case(lambda network: momentum(network, Halving()), 0.5, HALVES),
    "a schedule with state elsewhere": Case(
        lambda network: momentum(network, counting_elsewhere()), None, []
    ),
    "a schedule that draws elsewhere": Case(lambda network: momentum(network, DrawingElsewhere()), None, []),
    "a schedule that draws": Case(lambda network: momentum(network, Drawing()), None, []),
    "a schedule that draws once": Case(lambda network: momentum(network, DrawingOnce()), None, []),
}
"""Two epochs of three steps are six answers."""
STATEFUL = [name for name, case in CASES.items() if case.initial is None]


class Witness(Callback):
    """Remembers each step's loss by a way that is not ours."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[bytes] = []

    def on_train_step_end(self, run_context: RunContext) -> None:
        self.losses.append(run_context.original_args().net_outputs.asnumpy().tobytes())


Rows = Callable[[], dataset.Dataset]


def shuffled() -> dataset.Dataset:
    return batches_of(STEPS).shuffle(2)


def noisy() -> dataset.Dataset:
    """Draws from numpy's generator in a thread of the pipeline, ahead of the training."""

    def noise(image: np.ndarray) -> np.ndarray:
        return image + np.random.rand(*image.shape).astype(np.float32)

    return batches_of(STEPS).map(noise, "image", num_parallel_workers=1)


class Remembering:
    """A source of rows that are others whenever it is read again."""

    def __init__(self) -> None:
        self.reads = 0

    def __len__(self) -> int:
        return STEPS

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        self.reads += 1
        pictures, labels = images(STEPS, self.reads)
        for batch in range(STEPS):
            rows = slice(batch * BATCH, (batch + 1) * BATCH)
            yield pictures[rows], labels[rows]


def remembered() -> dataset.Dataset:
    return dataset.GeneratorDataset(Remembering(), ["image", "label"], shuffle=False)


def counted_by_reading() -> dataset.Dataset:
    """Its length is known when it has been read."""
    return batches_of(STEPS).filter(lambda label: np.random.rand() >= 0, "label")


def trained(case: Case, mode: int, callbacks: list[Callback], rows: Rows = shuffled) -> dict[str, Any]:
    """What a training came to, and what its process would draw next."""
    mindspore.set_device("CPU")
    mindspore.set_context(mode=mode)
    mindspore.set_seed(1)
    random.seed(1)
    network, witness = Net(), Witness()
    optimizer = case.optimizer(network)
    model_of(network, optimizer).fit(
        EPOCHS, rows(), rows(), callbacks=[*callbacks, witness], dataset_sink_mode=False
    )
    assert len(witness.losses) == EPOCHS * STEPS
    cells = {"network": network, "optimizer": optimizer}
    return {
        "losses": witness.losses,
        **{
            f"{kind}: {parameter.name}": parameter.asnumpy().tobytes()
            for kind, cell in cells.items()
            for parameter in cell.get_parameters()
        },
        "next": (random.random(), np.random.rand(), mindspore.get_rng_state().asnumpy().tolist()),
    }


def ours(directory: Path) -> list[Callback]:
    specified = {**NO_LANDSCAPE, "collect_learning_rate": True}
    collector = SummaryCollector(str(directory / "collector"), 1, collect_specified_data=specified)
    callbacks = directory / "callbacks"
    return [TrainLineage(str(callbacks)), collector, EvalLineage(str(callbacks))]


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, mindspore.GRAPH_MODE) for name in CASES] + [(name, mindspore.PYNATIVE_MODE) for name in STATEFUL],
)
def test_a_training_that_is_watched_is_the_same_training(name: str, mode: int, tmp_path: Path) -> None:
    case = CASES[name]
    alone = trained(case, mode, [])
    watched = trained(case, mode, ours(tmp_path))
    assert watched == alone
    for job in ("collector", "callbacks"):
        (training,) = [event.content for event in told(tmp_path / job) if event.what == "train_lineage"]
        assert training["hyper_parameters"].get("learning_rate") == case.initial
    rates = [
        value["scalar_value"]
        for event in told(tmp_path / "collector", "summary")
        if event.what == "summary"
        for value in event.content["value"]
        if value["tag"] == "learning_rate/auto"
    ]
    assert case.steps is None or rates == pytest.approx(case.steps, rel=1e-7)


@pytest.mark.parametrize("rows", [noisy, remembered, counted_by_reading])
def test_the_rows_of_a_training_that_is_watched_are_the_same_rows(rows: Rows, tmp_path: Path) -> None:
    case = CASES["a schedule with a parameter"]
    alone = trained(case, mindspore.GRAPH_MODE, [], rows)
    assert trained(case, mindspore.GRAPH_MODE, ours(tmp_path), rows) == alone
