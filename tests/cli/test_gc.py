"""`gc`: it says what it will remove, asks for confirmation, and the jobs can be restored."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from helpers.engines import opened
from helpers.log_writer import Log
from helpers.program import PROGRAM, Run, on_terminal
from lineage_store import LineageStore
from lineage_store.api.reports import CleanUp
from lineage_store.errors import LineageParamValueError, LineageSearchConditionParamError
from lineage_store.store.database.db import writing
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


@pytest.fixture
def noted(run: Run, base_dir: Path, on_each: str) -> Path:
    """Finished jobs: `noted` with the note "this is null", `plain` without one; both with a metric."""
    for name in ("noted", "plain"):
        log = Log().train(network="LeNet5", optimizer="Adam", loss=1.0).evaluation({"accuracy": 0.7})
        log = log.user_info(note="this is null") if name == "noted" else log.user_info(team="vision")
        log.write_lineage(base_dir / name)
    for path in base_dir.glob("*/*"):
        path.chmod(0o400)
    assert run("ingest", base_dir).code == 0
    return base_dir


ALL = ["./good", "./noted", "./plain", "./poor"]


@pytest.mark.usefixtures("noted")
def test_what_may_be_meant_otherwise_or_names_nothing_removes_nothing(run: Run) -> None:
    for wheres in (
        ["user_defined/note=this is null"],
        ["user_defined/note = this  IS  NULL"],
        ["metric/accuracy<0.9", "user_defined/note=this is null"],
        ["metric/typo is null"],
        ["metric/typo!=1"],
        ["metric_best/typo is null"],
        ["metric_first/typo not in 1"],
        ["user_defined/Note is null"],
        ["metric/accuracy ", "metric/accuracy is null"],
        ["optimizer!=Adam or SGD"],
        ["epoch not in three"],
    ):
        options = [word for where in wheres for word in ("--where", where)]
        for way in (["--yes"], ["--dry-run"], ["--dry-run", "--json"]):
            refused = run("gc", *options, *way)
            assert (refused.code, refused.out) == (2, ""), wheres
            assert refused.err.startswith("Error: "), wheres
        assert jobs(run) == ALL, wheres


def test_each_reading_can_be_written(run: Run, noted: Path) -> None:
    text = "user_defined/note='this is null'"
    listed = run("gc", "--where", text, "--dry-run", "--json")
    assert [job["train_id"] for job in json.loads(listed.out)] == ["./noted"]
    assert listed.err == 'Would remove jobs where user_defined/note is "this is null" (1 of 4 jobs).\n'
    done = run("gc", "--where", text, "--yes")
    assert (done.code, done.out[:7]) == (0, "1 jobs ")
    assert 'Removes jobs where user_defined/note is "this is null" (1 of 4 jobs).\n' in done.err
    assert jobs(run) == ["./good", "./plain", "./poor"]
    refused = run("gc", "--where", "'user_defined/note=this' is null", "--yes")
    assert (refused.code, "note=this" in refused.err) == (2, True)


def test_the_closest_name_is_told_and_only_of_the_base_dirs_in_question(
    run: Run, noted: Path, tmp_path: Path
) -> None:
    other = Log().train(network="VGG", loss=1.0).evaluation({"f1": 0.5})
    other.write_lineage(tmp_path / "other" / "job").chmod(0o400)
    assert run("ingest", tmp_path / "other").code == 0
    told = run("gc", "--where", "metric/acuracy is null", "--yes").err
    assert "Did you mean metric/accuracy?" in told
    refused = run("gc", tmp_path / "other", "--where", "metric/accuracy is null", "--yes")
    assert (refused.code, "There are metric/f1." in refused.err) == (2, True)
    assert "metric/accuracy" not in refused.err.partition("There are")[2]
    assert run("gc", "--where", "metric/accuracy is null", "--yes").out[:7] == "1 jobs "
    assert jobs(run) == ALL


def test_all_jobs_are_told_to_be_all(run: Run, noted: Path) -> None:
    told = run("gc", noted, "--where", "metric/accuracy>0", "--dry-run", "--csv").err
    assert told == "Would remove jobs where metric/accuracy is greater than 0 (all 4 jobs).\n"
    assert (
        "without a sign of life for 0:00:00 (all 4 jobs)" in run("gc", "--older-than", "0s", "--dry-run").err
    )
    (noted / "live").mkdir()
    Log().evaluation({"accuracy": 0.7}).write_lineage(noted / "live")  # its training has not ended
    run("ingest", noted)
    told = run("gc", "--where", "metric/accuracy>0", "--dry-run").err
    assert "(all 4 jobs that are not live)" in told
    assert "(all 4 jobs that are not live)" in run("gc", "--where", "metric/accuracy>0", "--yes").err


@pytest.mark.usefixtures("noted")
def test_a_dict_that_restricts_nothing_or_names_nothing_removes_nothing(run: Run, on_each: str) -> None:
    conditions: list[dict[str, Any]] = [
        {"limit": 1},
        {"sorted_name": "loss", "optimizer": {"eq": "Adam"}},
        {"metric/accuracy": {}},
        {"and": [{}]},
        {"or": [{"optimizer": {"eq": "none"}}, {"metric/accuracy": {}}]},
        {"not": {"or": [{"optimizer": {"eq": "none"}}, {"not": {}}]}},
        {"optimizer": {"not_in": []}},
        {"optimizer": {"not_in": [1]}},
        {"epoch": {"not_in": ["3"]}},
        {"metric/accuracy": {"not_in": ["0.9"]}},
        {"metric/typo": {"is_null": True}},
        {"metric_typo": {"ne": 1}},
        {"or": [{"optimizer": {"eq": "none"}}, {"and": [{"not": {"metric_best/typo": {"gt": 1}}}]}]},
        {"loss": {"ne": float("nan")}},
    ]
    with LineageStore(on_each) as store:
        for condition in conditions:
            rules = CleanUp(condition=condition)
            for ask in (
                store.remove_jobs,
                store.removal_plan,
                lambda rules: list(store.removable_jobs(rules)),
            ):
                with pytest.raises(LineageSearchConditionParamError):
                    ask(rules)
            assert run("gc", "--yes", "--condition", json.dumps(condition)).code == 2, condition
            assert jobs(run) == ALL, condition


def test_of_a_name_that_stands_twice_no_comparison_is_lost(run: Run, noted: Path) -> None:
    twice = '{"metric/accuracy": {"lt": 0.6}, "metric/accuracy": {"gt": 0}}'
    for verb in (["gc", "--yes"], ["filter"]):
        refused = run(*verb, "--condition", twice)
        assert (refused.code, "has 'metric/accuracy' twice" in refused.err) == (2, True)
    assert jobs(run) == ALL


def test_nothing_goes_from_any_base_dir_if_the_rules_are_refused_for_one(
    run: Run, noted: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    Log().train(network="VGG", loss=1.0).write_lineage(other / "job").chmod(0o400)
    run("ingest", other)
    shutil.rmtree(noted / "poor")
    shutil.rmtree(other)
    run("ingest", noted)
    assert run("gc", "--missing", "--yes").code == 2
    assert len(jobs(run)) == 5


def test_the_question_says_which_jobs(noted: Path, on_each: str) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n")
    command = [str(PROGRAM), "--database", on_each, "-q", "gc", "--where", "metric/accuracy<0.6"]
    ended = subprocess.run(command, stdin=theirs, stderr=subprocess.PIPE, check=False, timeout=300, text=True)
    os.close(ours)
    os.close(theirs)
    assert ended.returncode == 1
    assert "where metric/accuracy is less than 0.6 from the store?" in ended.stderr


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
    monkeypatch.setenv("LINEAGE_STORE_LIMITS", "keep_thinned_buckets=10")
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
    assert "1 cannot be restored" in restored.err
    assert "./good" in restored.err
    run("ingest", finished)
    assert jobs(run) == ["./poor"]
    assert json.loads(run("show", "./poor", "--json").out)["job"]["label"] == 2
    gone = run("gc", "--restore", "./good")
    assert (gone.code, "Its log files are gone" in gone.err) == (0, True)
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
    assert (done.out[:7], "4 more need confirmation" in done.err) == ("10 jobs", True)
    well = run("status", "--check", "--within", "1d")
    assert (well.code, "4 jobs need confirmation" in well.out) == (3, True)
    assert "4 jobs need confirmation" in run("status").err
    assert len(json.loads(run("status", "--json").out)["policies_wait"]) == 1
    assert run("gc", "--policies", "--yes").out.startswith("0 jobs")
    assert run("gc", "--policies", "--confirm", "--yes").out.startswith("4 jobs")
    assert run("status", "--check", "--within", "1d").out == "All is well.\n"
    refused = run("gc", "--missing", "--confirm", "--yes")
    assert (refused.code, "--confirm goes with" in refused.err) == (2, True)


def test_while_the_clock_is_wrong_nothing_goes_by_age_until_a_person_says_it_is_right(
    run: Run, finished: Path, on_each: str
) -> None:
    with opened(on_each) as engine, writing(engine) as session:
        long_ago = session.now() - timedelta(days=800)
        session.change(update(base_dir_table).values(clock_at=long_ago))
    refused = run("gc", "--older-than", "90d", "--yes")
    assert (refused.code, "800.0 days ahead of" in refused.err, "--confirm" in refused.err) == (1, True, True)
    assert jobs(run) == ["./good", "./poor"]
    assert run("gc", "--where", "metric/accuracy<0.6", "--yes").out.startswith("1 jobs")
    assert run("gc", "--older-than", "90d", "--confirm", "--yes").out.startswith("1 jobs")
