"""`problems`, `retry`, `reingest` and the history of passes, as an operator meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.log_writer import Log
from helpers.program import Run
from lineage_store.cli.verbs import repair


@pytest.fixture
def damaged(run: Run, base_dir: Path, on_each: str) -> Path:
    """A closed file of `good` with a flipped bit in its last scalar; on each kind of database."""
    log = Log().version().scalar(1, "accuracy", 0.5).scalar(2, "accuracy", 0.6)
    log.buffer[-6] ^= 1
    path = log.write_summary(base_dir / "good", timestamp=1_700_000_001)
    path.chmod(0o400)
    assert run("ingest", base_dir).code == 3
    return path


def test_problems_say_what_where_since_when_and_the_remedy(run: Run, damaged: Path) -> None:
    shown = run("problems")
    assert shown.code == 0
    for word in (str(damaged), "damaged_bytes", "bytes", "since", "remedy"):
        assert word in shown.out
    (problem,) = json.loads(run("problems", damaged.parent.parent, "--json").out)
    assert (problem["subject"], problem["kind"]) == (str(damaged), "damaged_bytes")
    assert problem["range_end"] == damaged.stat().st_size


def _damaged_jobs(base_dir: Path, number: int) -> Path:
    for job in range(number):
        Log().scalar(1, "loss", 0.5).frame(b"\xff").write_summary(base_dir / f"job_{job}").chmod(0o400)
    return base_dir


@pytest.mark.slow
def test_very_many_problems_are_shown_in_part_and_the_rest_is_told(
    run: Run, base_dir: Path, on_each: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "SHOWN_PROBLEMS", 10)
    hostile = Log()
    for step in range(300):
        hostile.scalar(step, "loss", 0.5).frame(b"\xff")
    for number in range(70):
        hostile.write_summary(base_dir / "hostile", 1_700_000_000 + number).chmod(0o400)
    ingested = run("ingest", _damaged_jobs(base_dir, 12))
    assert ingested.code == 3
    assert "82 problems are open" in ingested.out
    assert "... and 79 more: see `lineage-store problems`." in ingested.err
    assert len([*ingested.out.splitlines(), *ingested.err.splitlines()]) < 20
    shown = run("problems")
    assert sum(line.startswith(str(base_dir)) for line in shown.out.splitlines()) == 10
    assert len({line for line in shown.out.splitlines() if line.startswith(str(base_dir))}) == 10
    assert "... and more" in shown.err
    listed = json.loads(run("problems", "--json").out)
    assert len(listed) == 50 + 1 + 12, (
        "a row per file and kind, as many as a job may have, and one for its others"
    )
    assert sum(row["problems"] for row in listed) == 82
    (row,) = (
        row
        for row in listed
        if row["subject"].endswith("summary.1700000000.0.host_MS") and "hostile" in row["subject"]
    )
    assert (row["kind"], row["count"]) == ("undecodable_event", 300)
    assert "300 places with" in run("problems", "--limit", "100").out
    status = run("status", "--problems", "5")
    assert "... and 77 more: see `lineage-store problems`." in status.err
    again = run("retry")
    assert len(again.err.splitlines()) <= 12
    assert "... and 72 more: see `lineage-store problems`." in again.err
    job = run("show", base_dir / "hostile")
    assert "... and 60 more problems" in job.out


def test_a_job_with_very_many_problems_leaves_room_for_those_of_others(
    run: Run, base_dir: Path, on_each: str
) -> None:
    run("ingest", _damaged_jobs(base_dir, 1))
    for number in range(30):
        Log().frame(b"\xff").write_summary(base_dir / "hostile", 1_700_000_000 + number)
    shown = run("ingest", base_dir)
    assert f"{base_dir / 'job_0'}/" in shown.err
    assert f"{base_dir / 'job_0'}/" in run("status", "--problems", "2").out


def test_retry_finds_what_was_mended(run: Run, damaged: Path) -> None:
    still = run("retry", damaged)
    assert (still.code, "1 of them from the start" in still.out) == (3, True)
    assert "damaged" in still.err or "checksum" in still.err
    damaged.chmod(0o600)
    Log().version().scalar(1, "accuracy", 0.5).scalar(2, "accuracy", 0.6).write(damaged)
    mended = run("retry", damaged.parent.parent)
    assert mended.code == 0
    assert "No open problems" in run("problems").err


def test_resolved_problems_are_shown_on_demand(run: Run, stored: Path) -> None:
    path = next((stored / "poor").iterdir())
    path.rename(stored / "away")
    run("ingest", stored)
    (stored / "away").rename(path)
    assert run("retry").code == 0
    assert json.loads(run("problems", "--json").out) == []
    (gone,) = json.loads(run("problems", "--all", "--json").out)
    assert gone["kind"] == "missing_file"
    assert gone["until"] is not None


def test_reingest_brings_a_removed_job_back(run: Run, stored: Path) -> None:
    for path in (stored / "poor").iterdir():
        path.chmod(0o400)
    run("ingest", stored)
    assert run("gc", "--where", "metric/accuracy<0.6", "--yes").out.startswith("1 jobs")
    back = run("reingest", "./poor")
    assert back.code == 0
    assert "./poor" in run("jobs").out
    again = run("reingest", stored / "poor")
    assert "1 of them from the start" in again.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["retry", "/elsewhere"], 2), (["reingest", "./none"], 1), (["problems", "/elsewhere"], 2)],
)
def test_what_is_unknown_is_said_to_be(run: Run, stored: Path, arguments: list[str], code: int) -> None:
    refused = run(*arguments)
    assert refused.code == code
    assert arguments[1].removeprefix("./") in refused.err


def test_the_history_of_passes_is_shown(run: Run, stored: Path) -> None:
    run("ingest", stored)
    report = json.loads(run("status", "--cycles", "5", "--json").out)
    assert [row["events"] for row in report["last_cycles"]] == [0, 10]
    assert "Last passes" in run("status", "--cycles", "1").out
