"""A real training that raises records so, and the facts that reproduce a real training are recorded on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore
import pytest
from mindspore import nn
from mindspore.train import Callback, RunContext

from helpers.log_contents import told
from lineage_store.collect import SummaryCollector, TrainLineage
from with_mindspore.trainings import NO_LANDSCAPE, Net, batches_of, model_of

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300), pytest.mark.usefixtures("pynative")]


class Raising(Callback):
    """Raises after a step, or at the begin."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def begin(self, run_context: RunContext) -> None:
        if self.step == 0:
            raise ArithmeticError("at the begin")

    def step_end(self, run_context: RunContext) -> None:
        if run_context.original_args()["cur_step_num"] == self.step:
            raise ArithmeticError("after a step")


def user_info(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event in told(directory, "lineage"):
        if event.what == "user_defined_info":
            for entry in event.content["user_info"]:
                for values in entry.values():
                    found |= values
    return found


@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize("by", ["collector", "lineage"])
def test_a_training_that_raises_leaves_a_job_that_says_so(tmp_path: Path, by: str, step: int) -> None:
    callback = (
        SummaryCollector(
            tmp_path, collect_specified_data=NO_LANDSCAPE, custom_lineage_data={"owner": {"team": "vision"}}
        )
        if by == "collector"
        else TrainLineage(tmp_path, user_defined_info={"owner": {"team": "vision"}})
    )
    with pytest.raises(ArithmeticError):
        model_of(Net()).train(1, batches_of(4), [callback, Raising(step)], dataset_sink_mode=False)
    ended = {"end/outcome": "failed", "end/error_class": "ArithmeticError", "end/last_step": step}
    assert user_info(tmp_path) == {"owner/team": "vision", **ended}
    assert "dataset_graph" in [event.what for event in told(tmp_path, "lineage")]


def test_what_reproduces_a_training_is_told_on_request(tmp_path: Path) -> None:
    mindspore.set_seed(7)
    network = Net()
    adam = nn.AdamWeightDecay(network.trainable_params(), 0.01, beta1=0.8, weight_decay=0.25)
    specified = {**NO_LANDSCAPE, "collect_environment": True}
    collector = SummaryCollector(tmp_path / "a", collect_specified_data=specified)
    model_of(network, adam).train(1, batches_of(2), collector, dataset_sink_mode=False)
    lineage = TrainLineage(tmp_path / "b", collect_environment=True)
    model_of(Net()).train(1, batches_of(2), lineage, dataset_sink_mode=False)
    first, second = (user_info(tmp_path / name) for name in ("a", "b"))
    assert (first["optimizer/beta1"], first["optimizer/weight_decay"]) == (0.8, 0.25)
    assert second["optimizer/momentum"] == 0.9
    for found in (first, second):
        assert found["environment/seed"] == 7
        assert found["environment/packages/mindspore"] == mindspore.__version__
        assert not any(key.startswith("end/") for key in found)
