"""What the verbs print, on a small base dir."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from helpers.log_writer import Log
from helpers.program import Run
from lineage_store.states import JobState

pytestmark = pytest.mark.usefixtures("on_sqlite")


def test_ingest_says_what_it_did_and_a_second_one_reads_nothing(run: Run, base_dir: Path) -> None:
    first, second = run("ingest", base_dir), run("ingest", base_dir)
    assert (first.code, second.code) == (0, 0)
    assert "2 jobs, 3 log files; read 10 events (4 samples" in first.out
    assert "read 0 events" in second.out
    assert first.err == ""


def test_a_dry_run_tells_what_there_is_and_reads_nothing(run: Run, base_dir: Path) -> None:
    planned = run("ingest", "--dry-run", base_dir)
    assert planned.code == 0
    assert "3 files new" in planned.out
    assert "no jobs" in run("jobs").err


def test_ingest_with_problems_exits_3_and_names_them_with_the_remedy(run: Run, base_dir: Path) -> None:
    good = base_dir / "good"
    Log().version().scalar(1, "loss", 1.0).raw(bytes(64)).write_summary(good, timestamp=1_700_000_001)
    finished = run("ingest", base_dir)
    assert finished.code == 3
    assert "1 problems are open" in finished.out
    assert "all zero bytes" in finished.err
    assert "read again until it makes sense" in finished.err


def test_one_jobs_directory_is_told_from_a_base_dir(run: Run, base_dir: Path) -> None:
    job = base_dir / "good"
    assert (
        f"one job's directory, not a base dir: all log files are in the directory itself. Ingest {base_dir}"
        in (run("ingest", "--dry-run", job).out)
    )
    told = run("ingest", job).out
    assert f"`lineage-store forget {job}`, then `lineage-store ingest {base_dir}`" in told
    assert f"lineage-store forget {job}" in run("ingest", base_dir).err
    assert run("forget", "--yes", job).code == 0
    assert "one job's directory" not in run("ingest", base_dir).out


def test_recursive_finds_what_lies_deeper(run: Run, base_dir: Path) -> None:
    deep = base_dir.parent / "deep"
    Log().version().write_summary(deep / "team" / "run")
    assert "use --recursive" in run("ingest", deep).out
    assert "1 jobs, 1 log files" in run("ingest", "--recursive", deep).out


def test_jobs_can_be_asked_by_state(run: Run, stored: Path) -> None:
    assert {row["job"] for row in json.loads(run("jobs", stored, "--json").out)} == {"./good", "./poor"}
    assert json.loads(run("jobs", "--state", "missing", "--json").out) == []


def test_a_job_may_be_a_directory_or_an_id(run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [run("show", job).out for job in (stored / "good", "./good", "good", "base/good")]
    monkeypatch.chdir(stored)
    reports += [run("show", "good").out, run("show", "./good", "--base-dir", ".").out]
    assert all("accuracy  0.9" in report and "vision" in report for report in reports)


def test_an_id_that_two_base_dirs_have_must_say_which(run: Run, stored: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    Log().train(network="MLP").write_lineage(other / "good")
    run("ingest", other)
    refused = run("show", "./good")
    assert refused.code == 2
    assert "--base-dir" in refused.err
    assert "MLP" in run("show", "./good", "--base-dir", other).out
    assert "LeNet5" in run("show", "./poor").out


@pytest.mark.parametrize("job", ["./none", "/nowhere/else", "none"])
def test_a_job_that_is_unknown_is_an_error_that_helps(run: Run, stored: Path, job: str) -> None:
    refused = run("show", job)
    assert refused.code == 1
    assert refused.err.startswith("Error: ")
    assert "lineage-store" in refused.err or str(stored) in refused.err


def test_show_lists_tags_and_log_files(run: Run, stored: Path) -> None:
    report = json.loads(run("show", stored / "good", "--json").out)
    assert report["job"]["optimizer"] == "Adam"
    assert [(row["tag"], row["sample_count"], row["nan_count"]) for row in report["series"]] == [
        ("loss", 4, 1)
    ]
    assert {row["pending_bytes"] for row in report["log_files"]} == {0}
    assert report["problems"] == []


def test_filter_shows_a_page_and_says_which(run: Run, stored: Path) -> None:
    shown = run("filter", "--sort", "metric/accuracy:desc", "--limit", 1, "--page", 2, "--csv")
    (row,) = csv.DictReader(io.StringIO(shown.out))
    assert (row["summary_dir"], row["metric/accuracy"], row["epoch"]) == ("./poor", "0.5", "5")
    assert shown.err == "page 2 of 2 (2 jobs)\n"
    uncounted = run("filter", "--limit", 1, "--no-count")
    assert "page 1, how many match was not counted" in uncounted.err
    beyond = run("filter", "--limit", 1, "--page", 200)
    assert beyond.err == "There is no page 200: the last one is 2 (2 jobs).\n"


def test_filter_takes_comparisons_and_a_condition_together(run: Run, stored: Path, tmp_path: Path) -> None:
    condition = tmp_path / "condition.json"
    condition.write_text('{"or": [{"epoch": {"eq": 3}}, {"epoch": {"eq": 5}}]}')
    answer = run("filter", stored, "--condition", f"@{condition}", "--where", "metric/accuracy<0.9", "--json")
    assert [found["summary_dir"] for found in json.loads(answer.out)["object"]] == ["./poor"]


def test_filter_shows_the_columns_that_are_asked_for(run: Run, stored: Path) -> None:
    columns = "summary_dir,user_defined/team,metric/accuracy"
    shown = run("filter", "--all", "--columns", columns, "--sort", "summary_dir")
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines == [columns.split(","), ["./good", "vision", "0.9"], ["./poor", "-", "0.5"]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--where", "metric/acc>0.5"],
            "No job of the store has a metric 'acc'. Did you mean metric/accuracy?",
        ),
        (["--sort", "metric/acc:desc"], "Did you mean metric/accuracy?"),
        (["--columns", "network,metric/acc"], "Did you mean metric/accuracy?"),
        (["--columns", "accuracy"], "Did you mean metric/accuracy?"),
        (["--where", "user_defined/taem is null"], "Did you mean user_defined/team?"),
    ],
)
def test_filter_refuses_what_no_job_has(run: Run, stored: Path, words: list[str], told: str) -> None:
    refused = run("filter", *words)
    assert (refused.code, refused.out) == (2, "")
    assert told in refused.err


def test_filter_takes_names_that_come_with_the_refresh(run: Run, stored: Path) -> None:
    Log().train(network="New").evaluation({"recall": 0.25}).write_lineage(stored / "new")
    assert run("filter", "--where", "metric/recall>0").code == 2
    assert "0.25" in run("filter", stored, "--where", "metric/recall>0", "--columns", "metric/recall").out


def test_jobs_takes_every_state(run: Run, stored: Path) -> None:
    found = [json.loads(run("jobs", "--state", state, "--json").out) for state in JobState]
    assert sum(map(len, found)) == 2


def test_filter_on_a_base_dir_reads_new_lineage_first(run: Run, stored: Path) -> None:
    Log().train(network="New").write_lineage(stored / "new")
    assert "New" not in run("filter").out
    assert "New" not in run("filter", stored, "--no-refresh").out
    assert "New" in run("filter", stored).out


def test_filter_explains(run: Run, stored: Path) -> None:
    assert "SELECT" in run("filter", "--where", "epoch>1", "--explain").out


def test_scalars_come_as_rows(run: Run, stored: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run("scalars", "./good", "loss", "--csv").out)))
    assert [(row["step"], row["value"]) for row in rows] == [
        ("1", "4.0"),
        ("2", "2.0"),
        ("3", "NaN"),
        ("4", "1.0"),
    ]
    assert rows[0]["wall_at"] == "2023-11-14T22:13:21Z"
    assert json.loads(run("scalars", "./good", "loss", "--start", 3, "--stop", 4, "--json").out) == [
        {"step": 3, "wall_at": "2023-11-14T22:13:23Z", "value": "NaN"}
    ]


def test_scalars_can_be_drawn(run: Run, stored: Path) -> None:
    drawn = run("scalars", "./good", "loss", "--plot").out
    assert drawn.startswith("loss of ./good\n")
    assert "Not drawn: 1 NaN of 4 values." in drawn


@pytest.mark.parametrize("beside", [["--csv"], ["--json"], ["--limit", 2], ["--columns", "step,value"]])
def test_what_is_for_rows_is_refused_beside_a_plot(run: Run, stored: Path, beside: list[object]) -> None:
    refused = run("scalars", "./good", "loss", "--plot", *beside)
    assert (refused.code, refused.out) == (2, "")
    assert f"leave out {beside[0]}." in refused.err


def test_scalars_of_several_jobs_come_as_rows_or_in_one_plot(run: Run, stored: Path) -> None:
    Log().version().scalar(2, "loss", 8.0).scalar(9, "loss", 6.0).write_summary(stored / "poor")
    run("ingest", stored)
    rows = list(csv.DictReader(io.StringIO(run("scalars", "./good", "./poor", "loss", "--csv").out)))
    assert [(row["summary_dir"], row["step"]) for row in rows] == [
        *(("./good", step) for step in "1234"),
        *(("./poor", step) for step in "29"),
    ]
    assert {row["base_dir"] for row in rows} == {str(stored)}
    drawn = run("scalars", "./good", "./poor", "loss", "--plot").out.splitlines()
    assert drawn[0] == "loss"
    assert drawn[-2:] == ["a ./good  Not drawn: 1 NaN of 4 values.", "b ./poor"]
    assert any("b" in line.split("┤")[1] for line in drawn if "┤" in line)
    assert run("scalars", "./good", "./none", "loss").code == 1


def test_tags_are_listed_by_plugin(run: Run, stored: Path) -> None:
    assert json.loads(run("tags", "./good", "--json").out) == [{"plugin": "scalar", "tag": "loss"}]
    assert run("tags", "./none").code == 1


def test_evaluations_are_listed_with_their_times(run: Run, stored: Path) -> None:
    Log().train().evaluation({"accuracy": 0.5}).evaluation({"accuracy": 0.75, "recall": 1}).write_lineage(
        stored / "more"
    )
    run("ingest", stored)
    rows = json.loads(run("evaluations", "./more", "accuracy", "--json").out)
    assert [(row["evaluation_no"], row["value"]) for row in rows] == [(1, 0.5), (2, 0.75)]
    assert rows[0]["evaluated_at"] == "2023-11-14T22:13:21Z"
    assert "recall" in run("evaluations", "./more").out
    refused = run("evaluations", "./more", "recal")
    assert (refused.code, "Did you mean recall?" in refused.err) == (1, True)


def test_an_unknown_tag_names_close_ones(run: Run, stored: Path) -> None:
    refused = run("scalars", "./good", "los")
    assert refused.code == 1
    assert "loss" in refused.err.splitlines()[1]


def test_compare_marks_what_differs(run: Run, stored: Path) -> None:
    rows = csv.DictReader(io.StringIO(run("compare", "./good", "./poor", "--csv").out))
    marks = {row["name"]: row["differs"] for row in rows}
    assert (marks["network"], marks["learning_rate"]) == ("", "")
    assert marks["optimizer"] == marks["metric/accuracy"] == marks["user_defined/team"] == "*"
    differing = run("compare", "./good", "./poor", "--differing", "--csv").out
    assert "network" not in differing
    assert "optimizer" in differing


def test_compare_needs_two_jobs(run: Run, stored: Path) -> None:
    assert run("compare", "./good").code == 2


def test_annotations_are_kept_and_shown(run: Run, stored: Path) -> None:
    assert run("annotate", "./poor", "--label", 3, "--remark", "=1+1").code == 0
    assert run("annotate", "./poor").code == 2
    assert run("annotate", "./poor", "--remark", "x" * 129).code == 2
    (first, *_) = csv.DictReader(io.StringIO(run("filter", "--sort", "tag:desc", "--csv").out))
    assert (first["summary_dir"], first["tag"], first["remark"]) == ("./poor", "3", "'=1+1")


def test_status_tells_how_the_store_stands(run: Run, stored: Path) -> None:
    report = json.loads(run("status", "--json").out)
    (place,) = report["base_dirs"]
    assert (place["base_dir"], place["jobs"], place["open_problems"]) == (str(stored), 2, 0)
    assert report["last_cycles"][0]["events"] == 10
    assert str(stored) in run("status", stored).out
    assert run("status", "/elsewhere").code == 2


def test_names_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    base_dir = tmp_path / "hostile"
    Log().scalar(1, "\x1b]0;owned\x07", 1.0).write_summary(base_dir / "\x1b[2J")
    Log().train(network="\x1b[31m").write_lineage(base_dir / "\x1b[2J")
    reports = [run("ingest", base_dir), run("jobs"), run("filter"), run("status"), run("filter", "--csv")]
    reports.append(run("show", base_dir / "\x1b[2J"))
    assert not any("\x1b" in report.out + report.err for report in reports[:4] + reports[5:])
    assert "\\x1b[31m" in reports[2].out


def test_config_show_tells_origins_and_hides_passwords(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_STORE_POLL_INTERVAL_S", "5")
    shown = run("--database", "postgresql://me:secret@host/db", "config", "show", "--json")
    rows = {row["setting"]: row for row in json.loads(shown.out)}
    assert (rows["poll_interval_s"]["value"], rows["poll_interval_s"]["origin"]) == (
        5,
        "LINEAGE_STORE_POLL_INTERVAL_S",
    )
    assert rows["database_url"]["origin"] == "flag"
    assert "secret" not in shown.out + shown.err
    assert rows["lease_s"]["origin"] == "default"


def test_a_misspelt_variable_ends_the_program_as_wrong_usage(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_STORE_BASE_DIR", "/shared/summaries")
    refused = run("status")
    assert (refused.code, "Did you mean LINEAGE_STORE_BASE_DIRS?" in refused.err) == (2, True)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    "words", [("filter", "--explain", "--where", "network=\u2028\x1b[2J"), ("-v", "show", "\x1b[2J")]
)
def test_neither_a_plan_nor_a_traceback_can_steer_a_terminal(run: Run, words: tuple[str, ...]) -> None:
    finished = run(*words)
    assert (finished.out + finished.err).replace("\n", "").isprintable()


def test_bests_are_chosen_anew_after_the_setting_was_changed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Log().train().evaluation({"gap": 1.0}).evaluation({"gap": 2.0}).write_lineage(tmp_path / "base" / "job")
    run("ingest", tmp_path / "base")
    assert run("db", "choose-best").out == "Nothing to do: no job has another best.\n"
    monkeypatch.setenv("LINEAGE_STORE_LESS_IS_BETTER", "gap")
    assert "lineage-store db choose-best" in run("doctor").out
    assert run("db", "choose-best").out == "1 jobs have another best now.\n"
    assert "db choose-best" not in run("doctor").out
