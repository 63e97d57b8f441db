"""The examples of MindSpore's documentation of SummaryRecord, with the import changed; and a faulty operator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.log_contents import log_files, told

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300)]

EXAMPLES = """
import mindspore as ms
from mindspore import Tensor
from lineage_store.collect import SummaryRecord

if __name__ == '__main__':
    # use in with statement to auto close
    with SummaryRecord(log_dir="./summary_dir") as summary_record:
        pass

    # use in try .. finally .. to ensure closing
    try:
        summary_record = SummaryRecord(log_dir="./summary_dir")
    finally:
        summary_record.close()

    with SummaryRecord(log_dir="./summary_dir", file_prefix="xx_", file_suffix="_yy") as summary_record:
        summary_record.add_value('scalar', 'loss', Tensor(0.1))
        result = summary_record.record(step=2)
        assert result is True
        summary_record.flush()
        log_dir = summary_record.log_dir
        summary_record.set_mode('eval')
        summary_record.set_mode('train')
"""

NETWORK_EXAMPLE = """
import numpy as np
import mindspore as ms
from mindspore import Tensor, nn, ops
from lineage_store.collect import SummaryRecord

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(2, 1)
        self.summary = ops.ScalarSummary()
        self.image = ops.ImageSummary()

    def construct(self, x):
        y = self.dense(x)
        self.summary("mean", y.mean())
        self.image("no image", x)
        return y

ms.set_context(mode=ms.PYNATIVE_MODE)
net = Net()
with SummaryRecord("./summary_dir", network=net, raise_exception=True) as summary_record:
    for step in range(3):
        net(Tensor(np.ones((4, 2), np.float32)))
        summary_record.record(step, net)
    try:
        summary_record.add_value("scalar", "loss", Tensor(np.ones(3)))
    except ValueError:
        summary_record.record(3)
"""

GRAPH_EXAMPLE = """
import numpy as np
import mindspore as ms
from mindspore import Tensor, nn
from lineage_store.collect import SummaryRecord

ms.set_context(mode=ms.GRAPH_MODE)
net = nn.Dense(2, 1)
net(Tensor(np.ones((4, 2), np.float32)))
with SummaryRecord("./summary_dir", network=net) as summary_record:
    for step in (1, 2):
        summary_record.add_value("scalar", "loss", Tensor(step / 2))
        summary_record.record(step)
"""


def run(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], cwd=directory, check=True, capture_output=True, text=True
    )


def test_the_documented_examples_run_as_written(tmp_path: Path) -> None:
    run(EXAMPLES, tmp_path)
    (path,) = log_files(tmp_path / "summary_dir")
    assert path.name.startswith("xx_.out.events.summary.")
    assert path.name.endswith("_yy")
    assert [event.step for event in told(tmp_path / "summary_dir")] == [None, 2]


def test_an_operator_that_emits_no_image_costs_one_warning(tmp_path: Path) -> None:
    said = run(NETWORK_EXAMPLE, tmp_path)
    events = told(tmp_path / "summary_dir")[1:]
    assert [(event.step, event.content["value"][0]["tag"]) for event in events] == [
        (step, "mean") for step in range(3)
    ]
    assert said.stderr.count("Not recorded: values of the operator 'no image'") == 1


def test_the_step_that_writes_the_graph_keeps_its_values(tmp_path: Path) -> None:
    run(GRAPH_EXAMPLE, tmp_path)
    version, graph, first, second = told(tmp_path / "summary_dir")
    assert (version.what, graph.what) == ("version", "graph_def")
    assert [(event.step, event.content["value"]) for event in (first, second)] == [
        (step, [{"tag": "loss", "scalar_value": step / 2}]) for step in (1, 2)
    ]
