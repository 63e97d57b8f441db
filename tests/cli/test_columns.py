"""The contents of lists: --columns and --limit of every verb that lists, fields beside lineage, and misspelt names."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from helpers.log_writer import Log
from helpers.program import Finished, Run

pytestmark = pytest.mark.usefixtures("on_sqlite")

LISTS = [
    (["jobs"], "state"),
    (["filter"], "state"),
    (["scalars", "./good", "loss"], "value"),
    (["compare", "./good", "./poor"], "name"),
    (["config", "show"], "setting"),
    (["sql", "SELECT train_id, network FROM v_job"], "network"),
    (["gc", "--older-than", "1s", "--dry-run"], "train_id"),
    (["doctor"], "kind"),
    (["problems"], "subject"),
    (["tags", "./good"], "tag"),
    (["evaluations", "./good"], "metric"),
]


@pytest.fixture
def stored(run: Run, base_dir: Path, on_sqlite: str) -> Path:
    Log().version().raw(bytes(64)).write_summary(base_dir / "poor")
    assert run("ingest", base_dir).code == 3
    return base_dir


def _rows(told: Finished) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(told.out)))


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(("verb", "column"), LISTS, ids=lambda each: str(each))
def test_every_list_shows_the_columns_and_as_many_rows_as_asked(
    run: Run, verb: list[str], column: str
) -> None:
    told = run(*verb, "--columns", column, "--limit", 1, "--csv")
    assert told.out.splitlines()[0] == column
    assert len(_rows(told)) <= 1


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    "verb",
    [
        *([*verb, "--limit"] for verb, _ in LISTS),
        ["status", "--problems"],
        ["status", "--cycles"],
        ["verify", "--sample"],
    ],
    ids=str,
)
def test_more_rows_than_can_be_counted_are_all_or_refused(run: Run, verb: list[str]) -> None:
    told = run(*verb, 10**30)
    assert told.code in (0, 2, 3), told.err
    assert (told.code == 2) == ("must be" in told.err), told.err


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(("verb", "column"), LISTS, ids=lambda each: str(each))
def test_a_misspelt_column_is_told_with_the_closest(run: Run, verb: list[str], column: str) -> None:
    told = run(*verb, "--columns", f"{column[:-1].upper()}x")
    assert told.code == 2
    assert "--columns" in told.err
    assert f"Did you mean {column}?" in told.err


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("paged", [["--limit", 5], ["--all"]], ids=["a page", "all"])
def test_filter_shows_the_best_and_the_first_of_a_metric(
    run: Run, base_dir: Path, paged: list[object]
) -> None:
    log = Log().train(network="N").evaluation({"accuracy": 0.25}).evaluation({"accuracy": 0.75})
    log.evaluation({"accuracy": 0.5}).write_lineage(base_dir / "thrice")
    run("ingest", base_dir)
    columns = "metric/accuracy,metric_best/accuracy,metric_first/accuracy,state"
    found = _rows(run("filter", "--where", "network=N", "--columns", columns, "--csv", *paged))
    values = {"metric/accuracy": "0.5", "metric_best/accuracy": "0.75", "metric_first/accuracy": "0.25"}
    assert found == [{**values, "state": "finished"}]
    told = run("filter", "--columns", "metric_best/acuracy")
    assert (told.code, "Did you mean metric_best/accuracy?" in told.err) == (2, True)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("paged", [["--limit", 5], ["--all"]], ids=["a page", "all"])
def test_filter_shows_the_base_dir_however_many_there_are(
    run: Run, base_dir: Path, tmp_path: Path, paged: list[object]
) -> None:
    def shown(*asked: object, columns: str = "summary_dir,base_dir") -> list[list[str]]:
        told = run("filter", *asked, "--sort", "summary_dir", "--columns", columns, "--csv", *paged)
        return [list(row.values()) for row in _rows(told)]

    here = [["./good", str(base_dir)], ["./poor", str(base_dir)]]
    assert shown() == shown(base_dir) == shown("base") == here
    assert shown(columns="state,base_dir") == [["finished", str(base_dir)]] * 2
    Log().train(network="N").write_lineage(tmp_path / "other" / "third")
    run("ingest", tmp_path / "other")
    assert shown(base_dir) == here
    assert shown() == [*here, ["./third", str(tmp_path / "other")]]


def test_inspect_shows_the_columns_and_as_many_frames_as_asked(run: Run, tmp_path: Path) -> None:
    log = Log().version().scalar(1, "loss", 4.0).scalar(2, "loss", 2.0).raw(bytes(64))
    told = run("inspect", log.write_summary(tmp_path / "run"), "--limit", 2, "--columns", "step,state").out
    frames = [line.split() for line in told.partition("\n\n")[0].splitlines()]
    assert frames[:3] == [["step", "state"], ["-", "good"], ["1", "good"]]
    assert {state for _, state in frames[3:]} == {"suspect"}


@pytest.mark.usefixtures("stored")
def test_filter_says_when_what_matches_has_no_lineage(run: Run, base_dir: Path) -> None:
    ended: dict[str, Any] = {"end/outcome": "failed", "team": "speech"}
    Log().user_info(**ended).write_lineage(base_dir / "broken").chmod(0o400)
    run("ingest", base_dir)
    for where in ("outcome=failed", "user_defined/team=speech"):
        told = run("filter", "--where", where, "--sort", "loss")
        assert "What matches has no lineage: `lineage-store jobs` lists it." in told.err
    assert "no lineage" not in run("filter", "--where", "network=none").err


@pytest.mark.usefixtures("stored")
def test_filter_shows_and_searches_what_is_known_beside_lineage(run: Run) -> None:
    run("annotate", "./good", "--label", 3, "--remark", "the one in the paper")
    wanted = ["--where", "label=3", "--where", "remark like %paper%", "--where", "updated_at last 7 days"]
    columns = "summary_dir,state,host,updated_at,tag,remark"
    (found,) = _rows(run("filter", *wanted, "--columns", columns, "--csv"))
    assert (found["summary_dir"], found["tag"], found["remark"]) == ("./good", "3", "the one in the paper")
    (job,) = (each for each in json.loads(run("jobs", "--json").out) if each["job"] == "./good")
    assert (found["state"], found["host"]) == (job["state"], job["host"])
    assert found["updated_at"][:10] == job["updated"][:10]
    assert _rows(run("filter", "--where", "updated_at < 2020-01-01", "--csv")) == []
    both = _rows(run("filter", "--where", "state in live, stalled, finished", "--sort", "tag:desc", "--csv"))
    assert [each["summary_dir"] for each in both] == ["./good", "./poor"]


def test_jobs_are_listed_and_found_by_how_their_trainings_ended(
    run: Run, base_dir: Path, stored: Path
) -> None:
    ended: dict[str, Any] = {"end/outcome": "failed"}
    failed = Log().dataset_graph({"op_type": "Batch"}).user_info(**ended)
    failed.write_lineage(base_dir / "broken").chmod(0o400)
    assert run("ingest", stored).code == 3
    (found,) = _rows(run("filter", "--where", "outcome=failed", "--columns", "summary_dir,outcome", "--csv"))
    assert found == {"summary_dir": "./broken", "outcome": "failed"}
    (listed,) = _rows(run("jobs", "--outcome", "failed", "--columns", "job,outcome", "--csv"))
    assert listed == {"job": "./broken", "outcome": "failed"}
    (best,) = _rows(run("filter", "--sort", "outcome:desc", "--limit", 1, "--csv"))
    assert best["summary_dir"] == "./broken"
    wrong = run("jobs", "--outcome", "faild")
    assert (wrong.code, "Did you mean failed?" in wrong.err) == (2, True)


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("state=finishd", "Did you mean finished?"),
        ("outcome=faild", "Did you mean failed?"),
        ("Optimiser=Adam", "Did you mean optimizer?"),
        ("updated > 2026-11-01", "Did you mean updated_at?"),
        ("metric/Acuracy>0.5", "Did you mean metric/accuracy?"),
        ("user_defined/TEAM=vision", "Did you mean user_defined/team?"),
        ("updated_at > 2026-13-01", "'2026-13-01' must be a datetime"),
    ],
)
def test_what_is_misspelt_in_a_condition_is_told_with_the_closest(run: Run, where: str, told: str) -> None:
    answer = run("filter", "--where", where)
    assert answer.code == 2
    assert told in answer.err


def test_a_misspelt_variable_is_told_with_the_closest(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_STORE_POL_INTERVAL", "2")
    told = run("jobs")
    assert told.code == 2
    assert "Did you mean LINEAGE_STORE_POLL_INTERVAL_S?" in told.err
