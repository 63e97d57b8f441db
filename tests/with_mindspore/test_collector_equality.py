"""The same trainings, with the same seeds, once with MindSpore's SummaryCollector and once with ours.

Each side runs in a process of its own. The decoded events must be equal, but for the fixes that docs/moving.md lists.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.log_contents import Told, told
from lineage_store import LineageStore
from with_mindspore.trainings import TRAININGS

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).with_name("trainings.py")
ALIKE = [name for name in TRAININGS if not name.startswith("differs")]
MINDINSIGHT = Path(__file__).parents[2] / ".venv-mindinsight" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Sides:
    """Where MindSpore's files and ours are."""

    theirs: Path
    ours: Path

    def told(self, name: str) -> tuple[list[Told], list[Told]]:
        """The events of one training on both sides, without what no two runs share."""
        theirs, ours = (
            [_plain(event, side) for event in told(side / name)] for side in (self.theirs, self.ours)
        )
        return theirs, ours


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    directory = tmp_path_factory.mktemp("sides")
    running = {
        side: subprocess.Popen(
            [sys.executable, str(SCRIPT), side, str(directory / side)], stdout=subprocess.PIPE, text=True
        )
        for side in ("mindspore", "ours")
    }
    for process in running.values():
        output, _ = process.communicate()
        assert json.loads(output.splitlines()[-1]) == {"failures": {}}
    return Sides(directory / "mindspore", directory / "ours")


@pytest.mark.parametrize("name", ALIKE)
def test_the_events_are_mindspores(sides: Sides, name: str) -> None:
    theirs, ours = sides.told(name)
    assert ours == theirs
    assert bool(ours) == (name != "nothing_at_all")


@pytest.mark.parametrize("name", ["landscape_by_step", "landscape_by_epoch"])
def test_the_states_for_landscapes_are_mindspores(sides: Sides, name: str) -> None:
    theirs, ours = (_landscape(side / name) for side in (sides.theirs, sides.ours))
    assert ours == theirs


def test_exported_tensors_are_mindspores(sides: Sides) -> None:
    theirs, ours = (
        {path.name: np.load(path).tolist() for path in side.glob("summary_operators/export_*/tensor/*.npy")}
        for side in (sides.theirs, sides.ours)
    )
    assert ours == theirs
    assert len(ours) == 4


def test_a_step_at_an_epochs_end_is_recorded_once(sides: Sides) -> None:
    theirs, ours = sides.told("differs_at_epoch_ends")
    assert [event.step for event in theirs if event.what == "summary"] == [1, 2, 4, 4, 6, 8, 8]
    assert [event.step for event in ours if event.what == "summary"] == [1, 2, 4, 6, 8]
    assert ours == [event for number, event in enumerate(theirs) if event not in theirs[:number]]


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("differs_with_a_list_of_rates", 0.3),
        ("differs_with_a_schedule", 0.25),
        ("differs_with_groups", 0.125),
    ],
)
def test_a_changing_learning_rate_is_recorded_as_it_began(sides: Sides, name: str, rate: float) -> None:
    theirs, ours = sides.told(name)
    assert theirs[-1].what == "train_lineage"
    theirs[-1].content["hyper_parameters"]["learning_rate"] = rate
    assert ours == theirs


def test_every_evaluation_in_fit_is_recorded(sides: Sides) -> None:
    theirs, ours = sides.told("differs_in_fit")
    evaluations = [event for event in ours if event.what == "evaluation_lineage"]
    assert [json.loads(event.content["metric"]).keys() for event in evaluations] == [{"accuracy", "loss"}] * 2
    assert {event.content["valid_dataset"]["valid_dataset_size"] for event in evaluations} == {8}
    assert [(event.content["epoch"], event.content["step"]) for event in evaluations] == [
        ("1", "3"),
        ("2", "6"),
    ]
    others = [event for event in ours if event not in evaluations]
    assert others == [event for number, event in enumerate(theirs) if event not in theirs[:number]]


def test_what_an_evaluation_in_fit_emits_after_a_collected_step_is_no_training_value(sides: Sides) -> None:
    theirs, ours = (
        [event for event in events if event.what == "summary"]
        for events in sides.told("differs_in_fit_with_operators")
    )
    steps = [event.step for event in theirs]
    assert steps == [1, 1, 2, 4, 6, 6, 8, 10, 12, 12]
    assert "evaluated" in {value["tag"] for value in theirs[5].content["value"]}
    assert ours == [event for number, event in enumerate(theirs) if number not in (5, 9)]


def test_optimizers_that_mindspore_passes_over_are_recorded(sides: Sides) -> None:
    theirs, ours = sides.told("differs_with_an_experimental_optimizer")
    assert len(ours) == len(theirs)
    assert "optimizer" not in theirs[-1].content["hyper_parameters"]
    hyper_parameters = ours[-1].content["hyper_parameters"]
    assert (hyper_parameters["optimizer"], hyper_parameters["learning_rate"]) == ("SGD", 0.25)
    histograms = [value for event in ours if event.what == "summary" for value in event.content["value"][2:]]
    assert {"histogram"} == {key for value in histograms for key in value} - {"tag"}


@pytest.mark.skipif(not MINDINSIGHT.exists(), reason="make .venv-mindinsight/requirements first")
def test_mindinsight_reads_our_files_as_the_store_does(sides: Sides, sqlite_url: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("ask_mindinsight.py")
    environment = {"HOME": str(tmp_path), "MINDINSIGHT_LOG_LEVEL": "4"}
    finished = subprocess.run(
        [MINDINSIGHT, script, sides.ours], check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    theirs = json.loads(finished.stdout.splitlines()[-1])
    with LineageStore(sqlite_url) as store:
        store.ingest(sides.ours)
        answer = store.lineage.filter(base_dir=sides.ours)
        lineage = {job["summary_dir"]: job["model_lineage"] for job in answer["object"]}
        scalars = {
            job: {tag: _samples(store, sides.ours, job, tag) for tag in tags["scalar"]}
            for job in (each.train_id for each in store.lineage.jobs(sides.ours))
            if "scalar" in (tags := store.job((sides.ours, job)).tags())
        }
    assert len(lineage) >= 15
    assert _comparable(lineage) == _comparable(theirs["lineage"])
    assert scalars == theirs["scalars"]


def _samples(store: LineageStore, base_dir: Path, job: str, tag: str) -> list[list[float]]:
    samples = store.job((base_dir, job)).scalars(tag)
    return [[int(step), float(value)] for step, value in zip(samples.steps, samples.values, strict=True)]


def _comparable(lineage: dict[str, Any]) -> dict[str, Any]:
    """Without the number of the pipeline, which is ours."""
    return {job: {**model, "dataset_mark": None} for job, model in lineage.items()}


def _plain(event: Told, base_dir: Path) -> Told:
    """Without the base dir, and without the number of compiled graphs in a graph's name."""
    text = json.dumps(event.content).replace(str(base_dir), "BASE")
    if event.what == "graph_def":
        text = re.sub(r'"name": "(?:\d+_)+', '"name": "', re.sub(r"_construct_\d+", "_construct", text))
    return replace(event, content=json.loads(text))


def _landscape(directory: Path) -> tuple[object, dict[str, int]]:
    checkpoints = directory / "ckpt_dir"
    text = (checkpoints / "train_metadata.json").read_text()
    states = {path.name: path.stat().st_mode for path in (checkpoints, *checkpoints.iterdir())}
    return json.loads(text.replace(str(directory), "JOB")), states
