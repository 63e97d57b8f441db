"""`--limit` and `--page`, as `filter` has them, on every list that may be long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.program import Run


@pytest.fixture
def filled(on_each: str, run: Run, base_dir: Path) -> Path:
    """A store with two jobs, one of them with a problem."""
    (damaged,) = (base_dir / "poor").glob("*_lineage")
    damaged.write_bytes(damaged.read_bytes()[:-3])
    damaged.chmod(0o400)
    run("ingest", base_dir)
    return base_dir


def listed(run: Run, *words: str) -> list[str]:
    """The jobs or paths of a list."""
    done = run(*words, "--json")
    assert done.code == 0, done.err
    return [row.get("job") or row.get("subject") or row["train_id"] for row in json.loads(done.out)]


@pytest.mark.usefixtures("filled")
def test_jobs_come_in_pages(run: Run) -> None:
    whole = listed(run, "jobs")
    assert len(whole) == 2
    assert listed(run, "jobs", "--limit", "1") == whole[:1]
    assert listed(run, "jobs", "--limit", "1", "--page", "2") == whole[1:]
    assert listed(run, "jobs", "--page", "2") == []
    told = run("jobs", "--limit", "1").err
    assert listed(run, "jobs", "--after", told.split()[-1]) == whole[1:]
    assert "--after" not in run("jobs", "--limit", "2").err
    assert listed(run, "jobs", "--state", "missing", "--limit", "1") == []


@pytest.mark.usefixtures("filled")
def test_problems_come_in_pages(run: Run) -> None:
    whole = listed(run, "problems")
    assert len(whole) == 1
    assert listed(run, "problems", "--limit", "1") == whole
    assert listed(run, "problems", "--limit", "1", "--page", "2") == []


def test_removed_jobs_come_in_pages(run: Run, filled: Path) -> None:
    for path in (filled / "good", filled / "poor"):
        for file in path.iterdir():
            file.unlink()
    (filled / "stays").mkdir()
    run("ingest", filled)
    assert run("gc", "--older-than", "0s", "--yes").code == 0
    whole = listed(run, "gc", "--removed")
    assert sorted(whole) == ["./good", "./poor"]
    assert listed(run, "gc", "--removed", "--limit", "1", "--page", "2") == whole[1:]


@pytest.mark.usefixtures("filled")
def test_a_page_of_what_would_be_removed_is_refused(run: Run) -> None:
    for refused in (["--dry-run", "--page", "3"], ["--yes", "--limit", "3"]):
        done = run("gc", "--older-than", "90d", *refused)
        assert done.code == 2
        assert "--removed" in done.err
