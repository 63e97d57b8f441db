"""The example of a script without MindSpore: what it recorded can be queried."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lineage_store import LineageStore

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "plain_numpy.py"


def test_a_script_without_mindspore_is_a_job_like_any_other(tmp_path: Path, sqlite_url: str) -> None:
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "base" / "line")]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    assert said.stdout.startswith("slope 3.0")
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
        (job,) = store.lineage.filter({"network": {"eq": "Line"}}, base_dir=tmp_path / "base")["object"]
        losses = store.job((tmp_path / "base", "./line")).scalars("loss")
    model = job["model_lineage"]
    assert (model["optimizer"], model["learning_rate"], model["batch_size"]) == ("GradientDescent", 0.1, 256)
    assert model["metric"]["mse"] == pytest.approx(losses.values[-1])
    assert losses.steps.tolist() == list(range(1, 201))
    assert losses.values[-1] < 0.02 < losses.values[0]
