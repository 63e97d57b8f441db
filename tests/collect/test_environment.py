"""The facts that reproduce a run: found in its environment, without secrets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lineage_store.collect.environment import masked

SCRIPT = """
import json, sys
import numpy
from lineage_store.collect import collect_environment
print(json.dumps(collect_environment(seed=int(sys.argv[1]))["environment"]))
assert "mindspore" not in sys.modules
"""


def git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    command = ["git", "-C", str(directory), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def environment_of(script: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(script), *arguments]
    found: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return found


def test_a_script_in_a_repository_is_told_with_its_commit_and_versions(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    assert "git_commit" not in environment_of(script, "1")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    (tmp_path / "untracked").touch()
    found = environment_of(script, "7", "--token", "hunter2")
    assert (found["git_commit"], found["git_clean"]) == (git(tmp_path, "rev-parse", "HEAD"), True)
    assert (found["seed"], found["python"]) == (7, ".".join(map(str, sys.version_info[:3])))
    assert set(found) >= {"host", "platform"}
    assert "numpy" in found["packages"]
    assert found["command"].endswith("train.py 7 --token ***")
    script.write_text(SCRIPT + "# changed\n")
    found = environment_of(script, str(2**40))
    assert (found["git_clean"], found["seed"]) == (False, str(2**40))


def test_what_an_upgrade_left_of_a_package_is_left_out(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    (tmp_path / "numpy-0.9.dist-info").mkdir()
    (tmp_path / "numpy-0.9.dist-info" / "top_level.txt").write_text("numpy\n")
    packages = environment_of(script, "1")["packages"]
    assert packages.keys().isdisjoint({"numpy"})
    assert None not in packages.values()


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("--password=hunter2", "--password=***"),
        ("--api-key=x y", "--api-key=***"),
        ("db.auth_token=x", "db.auth_token=***"),
        ("https://me:hunter2@host/x", "https://***@host/x"),
        ("ghp_abcdefgh12345678", "***"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("0123456789abcdef0123456789abcdef", "***"),
        ("Zm9vYmFy_Zm9vYmFyMTIzNDU2Nzg5-Zm9vYmFy", "***"),
        ("WANDB_API_KEY=abc", "WANDB_API_KEY=***"),
    ],
)
def test_what_looks_like_a_secret_is_masked(argument: str, shown: str) -> None:
    line = masked(["python", "train.py", argument])
    assert line.replace("'", "") == f"python train.py {shown}"


@pytest.mark.parametrize("option", ["--token", "-password", "--hf-token", "--aws_secret_access_key"])
def test_the_value_after_a_secret_option_is_masked(option: str) -> None:
    assert masked([option, "-hunter2", "next"]) == f"{option} *** next"


@pytest.mark.parametrize(
    "argument",
    [
        "--lr=0.1",
        "--max_tokens=100",
        "--tokenizer=bert",
        "/data/runs/exp_2026_11_23_resnet50_batch_256_lr_0_1",
        "author=ana",
        "--passes=3",
    ],
)
def test_what_is_no_secret_is_told(argument: str) -> None:
    assert masked(["train.py", argument]) == f"train.py {argument}"
