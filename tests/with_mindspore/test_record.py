"""Our SummaryRecord compared with MindSpore's own: the same calls give the same events, names and modes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.log_contents import log_files, told

pytestmark = [pytest.mark.mindspore, pytest.mark.timeout(300)]

EVENTS = {
    "summary": {"version", "summary", "graph_def"},
    "lineage": {"train_lineage", "evaluation_lineage", "dataset_graph", "user_defined_info"},
}
SCRIPT = Path(__file__).with_name("record_everything.py")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The directories that the script wrote, by whose SummaryRecord it used."""
    base_dir = tmp_path_factory.mktemp("recorded")
    for whose in ("ours", "mindspore"):
        subprocess.run(
            [sys.executable, str(SCRIPT), whose, str(base_dir / whose)], check=True, capture_output=True
        )
    return {whose: base_dir / whose for whose in ("ours", "mindspore")}


@pytest.mark.parametrize("kind", ["summary", "lineage"])
def test_every_event_is_mindspores(recorded: dict[str, Path], kind: str) -> None:
    ours, theirs = (told(recorded[whose], kind) for whose in ("ours", "mindspore"))
    assert {event.what for event in theirs} == EVENTS[kind]
    assert [event.step for event in ours] == [event.step for event in theirs]
    for our_event, their_event in zip(ours, theirs, strict=True):
        # repr, for NaN does not equal itself
        assert repr(our_event) == repr(their_event)


def test_names_and_modes_are_mindspores(recorded: dict[str, Path]) -> None:
    def shown(directory: Path) -> list[tuple[str, int, int]]:
        return [
            (re.sub(r"\d{9,}", "<second>", path.name), path.stat().st_mode, path.stat().st_size)
            for path in log_files(directory)
        ]

    assert shown(recorded["ours"]) == shown(recorded["mindspore"])
    modes = [recorded[whose].stat().st_mode for whose in ("ours", "mindspore")]
    assert modes[0] == modes[1]


def test_exported_tensors_are_mindspores(recorded: dict[str, Path]) -> None:
    ours, theirs = (
        {path.name: path for path in recorded[whose].glob("export_*/tensor/*")}
        for whose in ("ours", "mindspore")
    )
    assert set(ours) == set(theirs)
    assert len(ours) > 80
    modes = [
        {
            path.relative_to(recorded[whose]).parts[1:]: path.stat().st_mode
            for path in recorded[whose].glob("export_*/**")
        }
        for whose in ("ours", "mindspore")
    ]
    assert modes[0] == modes[1]
    for name, path in ours.items():
        assert path.stat().st_mode == theirs[name].stat().st_mode
        np.testing.assert_array_equal(np.load(path), np.load(theirs[name]), strict=True)
