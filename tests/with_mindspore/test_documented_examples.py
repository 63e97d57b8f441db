"""The examples of MindSpore's and MindInsight's documentation, with only the import changed, and our examples run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import mindspore
import pytest
from mindspore import nn

from helpers.base_dirs import ROOT
from helpers.log_contents import told
from with_mindspore.trainings import Net, batches_of

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300)]


def run(name: str, directory: Path) -> Counter[str]:
    """Run an example in a directory, and count its events."""
    script = Path(__file__).parent / "documented" / f"{name}.py"
    subprocess.run([sys.executable, script], cwd=directory, check=True)
    return Counter(event.what for event in told(directory / "summary_dir"))


def test_the_collector_simple_and_specified(tmp_path: Path) -> None:
    told_ = run("summary_collector", tmp_path)
    assert told_["train_lineage"] == 2
    first, second = (
        {value["tag"] for value in event.content["value"]}
        for event in told(tmp_path / "summary_dir", "summary")
        if event.what == "summary"
    )
    assert first >= {"input_data/auto", "loss/auto", "conv1.weight/auto", "fc.bias/auto"}
    assert second == {"input_data/auto", "conv1.weight/auto"}
    assert (tmp_path / "summary_dir" / "ckpt_dir" / "train_metadata.json").is_file()


def test_the_record(tmp_path: Path) -> None:
    assert run("summary_record", tmp_path) == {"version": 1, "summary": 1}


def test_the_lineage_callbacks(tmp_path: Path) -> None:
    told_ = run("lineage_callbacks", tmp_path)
    assert told_ == {"dataset_graph": 1, "train_lineage": 1, "evaluation_lineage": 1}


@pytest.mark.parametrize("document", ["README.md", "docs/moving.md"])
def test_our_own_examples(
    document: str, tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_STORE_DATABASE_URL", sqlite_url)
    monkeypatch.chdir(tmp_path)
    mindspore.set_device("CPU")
    network = Net()
    names = {
        "network": network,
        "loss": nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
        "optimizer": nn.Momentum(network.trainable_params(), 0.01, 0.9),
        "training_rows": batches_of(3),
        "evaluation_rows": batches_of(2, 2),
    }
    blocks = re.findall(r"^```py\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, names)
    events = Counter(event.what for event in told(tmp_path / "summaries" / "run_1"))
    assert events["train_lineage"] >= 1
    assert events["evaluation_lineage"] >= 10
