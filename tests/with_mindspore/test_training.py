"""A real training with MindSpore, ingested by the installed wheel, and queried through the public API."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import lineage_store
from lineage_store import LineageStore

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(600)]

TRAIN = Path(__file__).with_name("train.py")


@dataclass(frozen=True, slots=True)
class Training:
    """Where a training wrote, and what its own loop saw."""

    base_dir: Path
    losses: dict[int, float]
    metrics: dict[str, float]


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Training:
    base_dir = tmp_path_factory.mktemp("summary_base")
    command = [sys.executable, str(TRAIN), str(base_dir / "small")]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    witnessed = json.loads(finished.stdout.splitlines()[-1])
    return Training(base_dir, dict(witnessed["losses"]), witnessed["metrics"])


@pytest.fixture
def store(training: Training, sqlite_url: str) -> LineageStore:
    """A store that has ingested the training."""
    store = LineageStore(sqlite_url)
    store.ingest(training.base_dir)
    return store


def test_the_wheel_is_tested_not_the_checkout() -> None:
    installed = distribution("lineage-store").locate_file("lineage_store")
    assert Path(lineage_store.__file__).parent == Path(str(installed))
    assert not Path(lineage_store.__file__).is_relative_to(Path.cwd() / "lineage_store")


def test_lineage_is_what_was_trained(training: Training, store: LineageStore) -> None:
    answer = store.lineage.filter(base_dir=training.base_dir)
    assert answer["count"] == 1
    (job,) = answer["object"]
    assert job["summary_dir"] == "./small"
    model = job["model_lineage"]
    expected = {
        "network": "SmallNet",
        "optimizer": "Momentum",
        "loss_function": "SoftmaxCrossEntropyWithLogits",
        "learning_rate": 0.05,
        "epoch": 2,
        "batch_size": 8,
        "train_dataset_count": 48,
        "test_dataset_count": 16,
        "user_defined": {"owner": "vision", "trial": 7, "dropout": 0.1},
        "metric": training.metrics,
    }
    assert {field: model[field] for field in expected} == expected
    last_loss = training.losses[max(training.losses)]
    assert model["loss"] == pytest.approx(last_loss, rel=1e-6)


def test_a_condition_finds_the_job_by_its_metric(training: Training, store: LineageStore) -> None:
    accuracy = training.metrics["accuracy"]
    assert store.lineage.filter({"metric/accuracy": {"ge": accuracy}})["count"] == 1
    assert store.lineage.filter({"metric/accuracy": {"gt": accuracy}})["count"] == 0


def test_scalars_are_the_losses_of_the_training_loop(training: Training, store: LineageStore) -> None:
    scalars = store.job((training.base_dir, "./small")).scalars("loss/auto")
    np.testing.assert_array_equal(scalars.steps, sorted(training.losses))
    # The loop's losses are float32, as the file's are: equal, not close.
    np.testing.assert_array_equal(scalars.values, [training.losses[step] for step in sorted(training.losses)])


def test_histograms_and_graph_of_the_training_are_there(training: Training, store: LineageStore) -> None:
    plugins = set(store.job((training.base_dir, "./small")).tags())
    assert plugins >= {"scalar", "histogram", "graph"}


@pytest.mark.parametrize("name", ["SummaryCollector", "TrainLineage", "EvalLineage", "SummaryStep"])
def test_a_callback_loads_mindspore_before_protobuf(name: str) -> None:
    # MindSpore 2.7 to 2.9 choose the implementation of protobuf that their messages need, unless one is loaded.
    watch = (
        "import sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, *_):\n"
        "        assert name != 'google.protobuf' or 'mindspore' in sys.modules\n"
        "sys.meta_path.insert(0, Watch())\n"
        f"from lineage_store.collect import {name}\n"
        "assert 'google.protobuf' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", watch], check=True)


def test_mindspore_and_the_package_share_a_process() -> None:
    # Both define the same protobuf messages; ours must stay out of the pool that MindSpore's are in.
    both = (
        "from mindspore.train import lineage_pb2 as theirs, summary_pb2\n"
        "from lineage_store.eventlog.mindspore.wire import lineage_pb2 as ours\n"
        "event = theirs.LineageEvent(wall_time=1.5)\n"
        "assert ours.LineageEvent.FromString(event.SerializeToString()).wall_time == 1.5\n"
    )
    subprocess.run([sys.executable, "-c", both], check=True)
    backwards = "\n".join(both.splitlines()[i] for i in (1, 0, 2, 3))
    subprocess.run([sys.executable, "-c", backwards], check=True)
