"""`gc`: what goes is said before, asked for, and can be had back."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from helpers.program import Run, on_terminal
from lineage_store.api.reports import CleanUp
from lineage_store.errors import LineageParamValueError


@pytest.fixture
def finished(run: Run, base_dir: Path, on_each: str) -> Path:
    """The two jobs, closed by their writers and in the store; on each kind of database."""
    for path in base_dir.glob("*/*"):
        path.chmod(0o400)
    assert run("ingest", base_dir).code == 0
    return base_dir


def jobs(run: Run) -> list[str]:
    return sorted(job["job"] for job in json.loads(run("jobs", "--json").out))


def test_dry_run_lists_and_removes_nothing(run: Run, finished: Path) -> None:
    listed = run("gc", "--where", "metric/accuracy<0.6", "--dry-run", "--json")
    assert [job["train_id"] for job in json.loads(listed.out)] == ["./poor"]
    assert jobs(run) == ["./good", "./poor"]


def test_by_condition_and_back(run: Run, finished: Path) -> None:
    run("annotate", "./poor", "--remark", "why?")
    done = run("gc", "--where", "metric/accuracy<0.6", "--yes")
    assert (done.code, done.out.startswith("1 jobs (")) == (0, True)
    assert jobs(run) == ["./good"]
    (removed,) = json.loads(run("gc", "--removed", "--json").out)
    assert (removed["train_id"], "metric/accuracy" in removed["reason"]) == ("./poor", True)
    run("ingest", finished)
    assert jobs(run) == ["./good"]
    assert "gc --restore" in run("why", finished / "poor").out
    assert run("gc", "--restore", "./poor").code == 0
    run("ingest", finished)
    assert jobs(run) == ["./good", "./poor"]
    assert "why?" in run("show", "./poor").out
    assert run("gc", "--restore", "./poor").code == 1


def test_all_that_is_given_must_hold(run: Run, finished: Path) -> None:
    shutil.rmtree(finished / "good")
    run("ingest", finished)
    assert run("gc", "--missing", "--where", "metric/accuracy<0.6", "--yes").out.startswith("0 jobs")
    assert run("gc", "--missing", "--older-than", "1w", "--yes").out.startswith("0 jobs")
    assert run("gc", "--missing", "--older-than", "0s", "--yes").out.startswith("1 jobs")
    assert jobs(run) == ["./poor"]


def test_every_job_missing_is_refused(run: Run, finished: Path) -> None:
    shutil.rmtree(finished)
    finished.mkdir()
    run("ingest", finished)
    refused = run("gc", "--missing", "--yes")
    assert refused.code == 2
    assert "not mounted" in refused.err
    assert jobs(run) == ["./good", "./poor"]


def test_policies_of_the_settings_go_when_asked_for(
    run: Run, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("annotate", "./good", "--label", 1)
    monkeypatch.setenv("LINEAGE_STORE_KEEP_STORE_BYTES", "1")
    (listed,) = json.loads(run("gc", "--policies", "--dry-run", "--json").out)
    assert (listed["train_id"], listed["policy"]) == ("./poor", "keep_store_bytes = 1")
    assert (listed["on_disk"], listed["samples"], listed["store_bytes"] > 1000) == (True, 0, True)
    assert jobs(run) == ["./good", "./poor"]
    assert run("gc", "--policies", "--yes").out.startswith("1 jobs (")
    assert jobs(run) == ["./good"]
    (told,) = json.loads(run("status", "--json").out)["removed_by_policy"]
    assert (told["policy"], told["jobs"]) == ("keep_store_bytes = 1", 1)
    assert "Removed by policy" in run("status").out
    assert "policy keep_store_bytes = 1" in run("why", finished / "poor").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--older-than"),
        (["--policies"], "keep_days, keep_jobs or keep_store_bytes"),
        (["--policies", "--older-than", "90d"], "--policies alone"),
        (["--older-than", "90"], "90d"),
        (["--older-than", "99999999999d", "--yes"], "a thousand years"),
        (["--missing"], "--yes"),
        (["--where", "color=red", "--yes"], "network"),
        (["/elsewhere", "--missing", "--yes"], "/elsewhere"),
    ],
)
def test_it_wants_to_know_which_jobs(run: Run, stored: Path, arguments: list[str], message: str) -> None:
    refused = run("gc", *arguments)
    assert refused.code == 2
    assert message in refused.err
    assert jobs(run) == ["./good", "./poor"]


@pytest.mark.parametrize("age", [float("inf"), float("nan"), 1e300, -1.0])
def test_an_age_that_is_none_is_refused(age: float) -> None:
    with pytest.raises(LineageParamValueError, match=re.escape(f"older than {age} s")):
        CleanUp(older_than_s=age)


def test_on_a_terminal_it_shows_how_far_it_is(finished: Path, on_each: str) -> None:
    shown = on_terminal("gc", "--older-than", "0s", "--yes", url=on_each)
    assert "Removing: 2 jobs (" in shown
    assert "2 jobs (" in shown.splitlines()[-1]
    assert "Verifying" in on_terminal("verify", url=on_each)
