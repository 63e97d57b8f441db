"""The examples of MindSpore's and MindInsight's documentation run with nothing but the import changed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from helpers.log_contents import told

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
