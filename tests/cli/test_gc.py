"""`gc`: it says what it will remove, asks for confirmation, and the jobs can be restored."""

from __future__ import annotations

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from helpers.engines import opened
from helpers.log_writer import Log
from helpers.program import Run, on_terminal
from lineage_store.api.reports import CleanUp
from lineage_store.errors import LineageParamValueError
from lineage_store.store.database.engine import database_time, writing
from lineage_store.store.schema.tables import base_dir as base_dir_table


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


def test_what_restore_and_removed_would_pass_over_is_refused(run: Run, finished: Path) -> None:
    assert run("gc", "--where", "metric/accuracy<0.6", "--yes").code == 0
    for beside in (
        ["--dry-run"],
        ["--where", "metric/accuracy<0.6"],
        ["--condition", "{}"],
        ["--older-than", "0s"],
        ["--missing"],
        ["--policies"],
    ):
        alone = (["--restore", "./poor"], ["--removed"], ["--removals"], ["--restore-removal", "1"])
        for verb in alone:
            refused = run("gc", *verb, *beside)
            assert (refused.code, refused.out) == (2, "")
            assert f"leave out {beside[0]}." in refused.err
    run("ingest", finished)
    assert jobs(run) == ["./good"]
    both = run("gc", "--restore", "./poor", "--removed")
    assert (both.code, "exclude each other" in both.err) == (2, True)
    assert run("gc", finished, "--restore", "./poor", "--yes").code == 0


def test_all_that_is_given_must_hold(run: Run, finished: Path) -> None:
    shutil.rmtree(finished / "good")
    run("ingest", finished)
    assert run("gc", "--missing", "--where", "metric/accuracy<0.6", "--yes").out.startswith("0 jobs")
    assert run("gc", "--missing", "--older-than", "3650d", "--yes").out.startswith("0 jobs")
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
    monkeypatch.setenv("LINEAGE_STORE_KEEP_EVERY_STEP_DAYS", "1")
    assert json.loads(run("gc", "--policies", "--dry-run", "--json", "--limit", 10**30).out) == [listed]
    assert jobs(run) == ["./good", "./poor"]
    assert run("gc", "--policies", "--yes").out.startswith("1 jobs (")
    assert jobs(run) == ["./good"]
    (told,) = json.loads(run("status", "--json").out)["removed_by_policy"]
    assert (told["policy"], told["jobs"]) == ("keep_store_bytes = 1", 1)
    assert "Removed by policy" in run("status").out
    assert "policy keep_store_bytes = 1" in run("why", finished / "poor").out


def test_old_scalars_are_thinned_when_asked_for_and_told_to_be(
    run: Run, base_dir: Path, on_each: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log().version()
    for step in range(500):
        log.scalar(step, "long", float(step % 7))
    log.write_summary(base_dir / "old").chmod(0o400)
    run("ingest", base_dir)
    monkeypatch.setenv("LINEAGE_STORE_KEEP_EVERY_STEP_DAYS", "90")
    monkeypatch.setenv("LINEAGE_STORE_KEEP_THINNED_BUCKETS", "10")
    (listed,) = json.loads(run("gc", "--policies", "--dry-run", "--json").out)
    assert (listed["train_id"], listed["tag"], listed["samples"]) == ("./old", "long", 500)
    assert (listed["policy"], listed["on_disk"]) == ("keep_every_step_days = 90", True)
    assert run("scalars", "./old", "long").err == ""
    done = run("gc", "--policies", "--yes")
    assert done.code == 0
    lines = done.out.splitlines()
    assert (lines[0][:6], lines[1][:17]) == ("0 jobs", "1 series thinned:")
    told = run("scalars", "./old", "long", "--json")
    left = json.loads(told.out)
    assert len(left) < 50
    assert f"Thinned: {500 - len(left)} more samples were written" in told.err
    verified = run("verify", base_dir)
    assert (verified.code, "1 series are thinned" in verified.out) == (0, True)
    assert json.loads(run("verify", base_dir, "--json").out)["thinned_series"] == 1
    assert json.loads(run("gc", "--policies", "--dry-run", "--json").out) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--older-than"),
        (["--policies"], "keep_days, keep_jobs, keep_store_bytes or keep_every_step_days"),
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


def test_a_removal_is_listed_by_its_number_and_comes_back_by_it(run: Run, finished: Path) -> None:
    run("annotate", "./poor", "--label", 2)
    done = run("gc", "--older-than", "1d", "--yes")
    (number,) = re.findall(r"--restore-removal (\d+)", done.out)
    (removal,) = json.loads(run("gc", "--removals", "--json").out)
    assert (removal["number"], removal["jobs"], removal["restorable"]) == (int(number), 2, 2)
    assert (removal["by"], "older than 1 day" in removal["reason"]) == ("a person", True)
    shutil.rmtree(finished / "good")
    restored = run("gc", "--restore-removal", number)
    assert (restored.code, restored.out.startswith("1 jobs are read again")) == (3, True)
    assert "1 cannot come back" in restored.err
    assert "./good" in restored.err
    run("ingest", finished)
    assert jobs(run) == ["./poor"]
    assert json.loads(run("show", "./poor", "--json").out)["job"]["label"] == 2
    gone = run("gc", "--restore", "./good")
    assert (gone.code, "No log file of it is on disk" in gone.err) == (0, True)
    unknown = run("gc", "--restore-removal", 99)
    assert (unknown.code, "gc --removals" in unknown.err) == (1, True)


def test_what_waits_for_a_person_is_told_and_goes_when_confirmed(
    run: Run, base_dir: Path, on_each: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        log = Log(wall_time=1_700_000_000.0 + number).version().scalar(1, "loss", 0.5)
        log.write_summary(base_dir / f"job_{number:02}").chmod(0o400)
    for path in base_dir.glob("*/*"):
        path.chmod(0o400)
    run("ingest", base_dir)
    monkeypatch.setenv("LINEAGE_STORE_KEEP_DAYS", "90")
    listed = json.loads(run("gc", "--policies", "--dry-run", "--json").out)
    assert [job["waits"] for job in listed] == [False] * 10 + [True] * 4
    done = run("gc", "--policies", "--yes")
    assert (done.out[:7], "4 more wait" in done.err) == ("10 jobs", True)
    well = run("status", "--check", "--within", "1d")
    assert (well.code, "4 jobs wait to be removed" in well.out) == (3, True)
    assert "4 jobs wait" in run("status").err
    assert len(json.loads(run("status", "--json").out)["policies_wait"]) == 1
    assert run("gc", "--policies", "--yes").out.startswith("0 jobs")
    assert run("gc", "--policies", "--confirm", "--yes").out.startswith("4 jobs")
    assert run("status", "--check", "--within", "1d").out == "All is well.\n"
    refused = run("gc", "--missing", "--confirm", "--yes")
    assert (refused.code, "--confirm goes with" in refused.err) == (2, True)


def test_while_the_clock_is_wrong_nothing_goes_by_age_until_a_person_says_it_is_right(
    run: Run, finished: Path, on_each: str
) -> None:
    with opened(on_each) as engine, writing(engine) as connection:
        long_ago = database_time(connection) - timedelta(days=800)
        connection.execute(update(base_dir_table).values(clock_at=long_ago))
    refused = run("gc", "--older-than", "90d", "--yes")
    assert (refused.code, "800.0 days ahead of" in refused.err, "--confirm" in refused.err) == (1, True, True)
    assert jobs(run) == ["./good", "./poor"]
    assert run("gc", "--where", "metric/accuracy<0.6", "--yes").out.startswith("1 jobs")
    assert run("gc", "--older-than", "90d", "--confirm", "--yes").out.startswith("1 jobs")
