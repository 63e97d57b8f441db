"""Images and histograms, written to files."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from helpers.log_writer import Log
from helpers.program import Run

pytestmark = pytest.mark.usefixtures("on_sqlite")
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def job(run: Run, tmp_path: Path) -> Path:
    log = Log().version()
    for step in (1, 2, 10):
        log.image(step, "input", np.full((2, 3, 3), step, np.uint8)).histogram(
            step, "weights", [0.0, 1.0, step]
        )
    log.write_summary(tmp_path / "base" / "run")
    assert run("ingest", tmp_path / "base").code == 0
    return tmp_path / "base" / "run"


def test_images_are_files_by_step(run: Run, job: Path, tmp_path: Path) -> None:
    done = run("images", job, "input", "--to", tmp_path / "new" / "pictures", "--start", 2)
    assert (done.code, done.out) == (0, "")
    assert "2 files are in" in done.err
    files = sorted((tmp_path / "new" / "pictures").iterdir())
    assert [file.name for file in files] == ["10.png", "2.png"]
    assert all(file.read_bytes().startswith(PNG) for file in files)


def test_histograms_are_files_of_their_buckets(run: Run, job: Path, tmp_path: Path) -> None:
    assert run("histograms", job, "weights", "--to", tmp_path / "buckets").code == 0
    with (tmp_path / "buckets" / "10.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["left", "width", "count"]
    assert sum(int(row["count"]) for row in rows) == 3
    assert len(list((tmp_path / "buckets").iterdir())) == 3


def test_very_many_are_all_written(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is asked for some at a time."""
    log = Log()
    for step in range(7):
        log.histogram(3 * step, "w", [1.0])
    log.write_summary(tmp_path / "base" / "run")
    run("ingest", tmp_path / "base")
    for at_a_time in (1, 6, 7, 8):
        monkeypatch.setattr("lineage_store.cli.verbs.samples._AT_A_TIME", at_a_time)
        to = tmp_path / f"to_{at_a_time}"
        assert run("histograms", tmp_path / "base" / "run", "w", "--to", to, "--stop", 16).code == 0
        assert {file.name for file in to.iterdir()} == {f"{3 * step}.csv" for step in range(6)}


def test_what_cannot_be_read_is_told(run: Run, job: Path, tmp_path: Path) -> None:
    (log_file,) = job.glob("*_MS")
    log_file.unlink()
    done = run("images", job, "input", "--to", tmp_path / "pictures")
    assert done.code == 3
    assert log_file.name in done.err
    assert "0 files are in" in done.err


def test_what_cannot_be_written_or_found_is_told(run: Run, job: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = run("images", job, "input", "--to", tmp_path / "file")
    assert refused.code == 1
    assert f"{tmp_path}/file" in refused.err
    unknown = run("images", job, "inpt", "--to", tmp_path / "none")
    assert (unknown.code, "Close: input" in unknown.err) == (1, True)
    assert not (tmp_path / "none").exists()
