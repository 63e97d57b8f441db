"""Jobs as a table: every column there is, on both databases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from helpers.databases import copied
from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import (
    LineageFileNotFoundError,
    LineageParamSummaryPathError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageSearchConditionParamError,
    SampleNotFoundError,
    TrainJobNotFoundError,
)
from lineage_store.fields import MINDINSIGHTS

BEGUN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.fixture(scope="module")
def base(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`good` and `poor` were trained, `curve` has no lineage."""
    base = tmp_path_factory.mktemp("tables") / "base"
    good = Log().train(network="LeNet5", optimizer="Adam", learning_rate=0.5, epoch=3)
    good.evaluation({"accuracy": 0.5}).evaluation({"accuracy": 0.9, "recall": math.nan})
    good.user_info(team="vision", seed=7).write_lineage(base / "good").chmod(0o400)
    poor = Log().train(network="LeNet5", optimizer="SGD", learning_rate=math.nan, epoch=5)
    poor.evaluation({"accuracy": 0.25}).write_lineage(base / "poor")
    Log().version().scalar(1, "loss", 4.0).scalar(2, "loss", math.nan).write_summary(base / "curve")
    return base


def fill(base: Path, url: str) -> None:
    with LineageStore(url, settings=Settings()) as store:
        store.ingest(base)
        store.job((base, "./good")).annotate(label=3, remark="keep")


@pytest.fixture(scope="module")
def store(module_database_url: str, base: Path) -> Iterator[LineageStore]:
    """A store of them."""
    fill(base, module_database_url)
    with LineageStore(module_database_url, settings=Settings()) as store:
        yield store


@pytest.fixture
def own(store: LineageStore, module_database_url: str, base: Path, tmp_path: Path) -> Iterator[LineageStore]:
    """A copy of it, for a test that changes it."""
    store.engine.dispose()
    with (
        copied(module_database_url, tmp_path, partial(fill, base)) as url,
        LineageStore(url, settings=Settings()) as own,
    ):
        yield own


def test_all_jobs_come_with_all_columns(store: LineageStore, base: Path) -> None:
    table = store.jobs()
    named = ["metric/accuracy", "metric/recall", "user_defined/seed", "user_defined/team"]
    fields = [field.name for field in MINDINSIGHTS if field.name != "summary_dir"]
    assert list(table.columns[:2]) == ["base_dir", "summary_dir"]
    assert list(table.columns[-len(named) - len(fields) :]) == [*fields, *named]
    rows = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(rows) == {"./good", "./poor", "./curve"}
    good = rows["./good"]
    assert (good["base_dir"], good["tag"], good["remark"]) == (str(base), 3, "keep")
    assert (good["first_started_at"], good["epoch"], good["metric/accuracy"]) == (BEGUN, 3, 0.9)
    assert math.isnan(good["metric/recall"])
    assert math.isnan(rows["./poor"]["learning_rate"])
    assert {row["outcome"] for row in rows.values()} == {None, "completed"}
    assert (rows["./poor"]["user_defined/seed"], rows["./curve"]["network"]) == (None, None)


def test_columns_limit_and_order_are_those_asked_for(store: LineageStore) -> None:
    columns = ["metric/accuracy", "epoch", "updated_at"]
    table = store.jobs({"sorted_name": "epoch", "sorted_type": "descending"}, columns=columns, limit=1)
    assert list(table.columns) == columns
    ((accuracy, epoch, updated),) = table.rows
    assert (accuracy, epoch, updated.tzinfo) == (0.25, 5, UTC)
    assert store.jobs({"epoch": {"lt": 4}}, columns="summary_dir").rows == [("./good",)]
    assert "metric/recall" not in store.jobs({"epoch": {"eq": 5}}).columns


def test_the_best_and_the_first_of_a_metric_are_columns_where_asked_for(store: LineageStore) -> None:
    asked = ["summary_dir", "metric_best/accuracy", "metric_first/accuracy"]
    assert sorted(store.jobs({"epoch": {"gt": 0}}, columns=asked).rows) == [
        ("./good", 0.9, 0.5),
        ("./poor", 0.25, 0.25),
    ]


def test_a_frame_has_times_and_whole_numbers(store: LineageStore) -> None:
    pytest.importorskip("pandas")
    frame = store.jobs().to_pandas().set_index("summary_dir")
    assert str(frame["first_started_at"].dtype) == "datetime64[us, UTC]"
    assert frame["epoch"].dtype == "Int64"
    assert frame.loc["./good", "user_defined/seed"] == 7
    none = store.jobs({"network": {"eq": "nobody's"}}).to_pandas()
    assert len(none) == 0
    assert str(none["updated_at"].dtype) == "datetime64[us, UTC]"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["accuracy"], r"no column\. Did you mean metric/accuracy\?"),
        (["optimiser"], r"Did you mean optimizer\?"),
        (["update_at"], r"Did you mean updated_at\?"),
        (["metric/acuracy"], r"Did you mean metric/accuracy\?"),
        (["metric_best/acuracy"], r"Did you mean metric_best/accuracy\?"),
    ],
)
def test_a_column_that_there_is_not_is_refused_with_the_closest(
    store: LineageStore, columns: list[str], told: str
) -> None:
    with pytest.raises((LineageParamValueError, LineageSearchConditionParamError), match=told):
        store.jobs(columns=columns)


def test_jobs_that_have_but_user_defined_values_are_found_by_them_and_compared(
    own: LineageStore, base: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    Log().user_info(team="vision", seed=8).write_lineage(other / "alone")
    Log().user_info(team="speech", seed=9).write_lineage(other / "another")
    own.ingest(other)
    found = own.jobs({"user_defined/team": {"eq": "vision"}}, columns="summary_dir").rows
    assert sorted(found) == [("./alone",), ("./good",)]
    unlike = {"not": {"user_defined/seed": {"lt": 9}}, "or": [{"user_defined/seed": {"is_null": False}}]}
    assert own.jobs(unlike, columns="summary_dir").rows == [("./another",)]
    assert own.compare(["./alone", "./another"]).rows == [
        ("user_defined/team", "vision", "speech"),
        ("user_defined/seed", 8, 9),
    ]


def test_a_value_that_is_named_by_an_empty_text_keeps_no_table_from_being_made(
    own: LineageStore, tmp_path: Path
) -> None:
    nameless: dict[str, Any] = {"": "x"}
    Log().train(network="N").evaluation({"": 0.5}).user_info(**nameless).write_lineage(tmp_path / "b" / "run")
    own.ingest(tmp_path / "b")
    assert len(own.jobs()) == 4


def test_without_values_metrics_are_numbers(store: LineageStore) -> None:
    columns = ["metric/accuracy", "metric_best/accuracy", "user_defined/team", "label"]
    none = store.jobs({"network": {"eq": "nobody's"}}, columns=columns)
    assert [column.kind for column in none.by_name.values()] == ["float", "float", "text", "integer"]
    assert store.job("./curve").evaluations().by_name["value"].kind == "float"


def test_jobs_may_be_a_frame_of_a_library(store: LineageStore) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = store.jobs({"summary_dir": {"eq": "./curve"}}, columns=["base_dir", "summary_dir"])
    for jobs in (table, table.to_pandas(), table.to_arrow(), table.to_pandas()["summary_dir"]):
        assert next(iter(store.curves(jobs, "loss")))[1:3] == ("./curve", 1)
    with pytest.raises(LineageParamTypeError, match="no columns base_dir"):
        store.curves(table.to_pandas()[["summary_dir"]], "loss")


def test_what_is_asked_wrongly_is_refused(store: LineageStore, tmp_path: Path) -> None:
    with pytest.raises(LineageParamValueError, match="limit = 0"):
        store.jobs(limit=0)
    with pytest.raises(LineageParamTypeError, match="limit = 'x'"):
        store.jobs(limit="x")  # type: ignore[arg-type]
    with pytest.raises(LineageSearchConditionParamError, match=r"metric/accuracy"):
        store.jobs({"metric/acuracy": {"gt": 0.5}})
    with pytest.raises(LineageParamSummaryPathError, match="does not know"):
        store.jobs(base_dir=tmp_path / "other")


def test_an_evaluation_has_its_epoch_and_step_where_the_log_file_tells_them(
    own: LineageStore, base: Path
) -> None:
    log = (
        Log()
        .train(network="Net")
        .evaluation({"acc": 0.1}, epoch=1, step=100)
        .evaluation({"acc": 0.2}, step=2**40)
    )
    log.evaluation({"acc": 0.3}, epoch=0).evaluation({"acc": 0.4}).write_lineage(base / "told")
    own.ingest(base)
    table = own.job("./told").evaluations("acc")
    assert table["epoch"] == [1, None, 0, None]
    assert table["step"] == [100, 2**40, None, None]
    assert table["value"] == [0.1, 0.2, 0.3, 0.4]
    assert [verdict.path for verdict in own.repair.verify() if verdict.differences] == []


def test_evaluations_come_in_their_order_with_their_times(store: LineageStore, base: Path) -> None:
    table = store.job("./good").evaluations("accuracy")
    assert table["metric"] == ["accuracy", "accuracy"]
    assert (table["evaluation_no"], table["value"], table["is_latest"]) == ([1, 2], [0.5, 0.9], [False, True])
    assert table["evaluated_at"] == [BEGUN + timedelta(seconds=1), BEGUN + timedelta(seconds=2)]
    assert store.job(base / "good").evaluations("metric/accuracy").rows == table.rows
    assert (table["epoch"], table["step"]) == ([None, None], [None, None])
    every = store.job((base, "good")).evaluations()
    assert every["metric"] == ["accuracy", "accuracy", "recall"]
    assert math.isnan(every["value"][2])
    assert len(store.job("./curve").evaluations()) == 0


def test_a_metric_or_job_that_there_is_not_is_refused(store: LineageStore) -> None:
    with pytest.raises(SampleNotFoundError, match=r"Did you mean accuracy\? There are accuracy, recall"):
        store.job("./good").evaluations("acuracy")
    with pytest.raises(TrainJobNotFoundError, match="none"):
        store.job("./none").evaluations()


def test_jobs_are_compared_side_by_side_where_they_differ(store: LineageStore) -> None:
    table = store.compare(["./good", "./poor"])
    assert table.columns == ("name", "./good", "./poor")
    rows = {name: rest for name, *rest in table.rows}
    assert rows["optimizer"] == ["Adam", "SGD"]
    assert (rows["epoch"], rows["user_defined/team"]) == ([3, 5], ["vision", None])
    assert math.isnan(rows["learning_rate"][1])
    assert "network" not in rows
    assert "network" in store.compare(["./good", "./poor"], alike=True)["name"]
    of_table = store.compare(store.jobs({"epoch": {"is_null": False}, "sorted_name": "epoch"}))
    assert repr(of_table.rows) == repr(table.rows)
    of_listed = store.compare(job for job in store.lineage.jobs() if job.train_id != "./curve")
    assert len(of_listed) == len(table)


def test_jobs_of_one_name_are_told_apart(own: LineageStore, base: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    Log().train(network="MLP").write_lineage(other / "good")
    own.ingest(other)
    table = own.compare([(base, "./good"), (other, "./good")])
    assert table.columns == ("name", f"{base}/good", f"{other}/good")
    with pytest.raises(LineageParamSummaryPathError, match="Several base dirs"):
        own.compare(["./good", "./poor"])


def test_what_cannot_be_compared_is_refused(store: LineageStore) -> None:
    with pytest.raises(LineageParamValueError, match="at least two"):
        store.compare(["./good", "./good"])
    with pytest.raises(LineageFileNotFoundError, match=r"\./curve has no lineage"):
        store.compare(["./good", "./curve"])
    with pytest.raises(TrainJobNotFoundError, match="none"):
        store.compare(["./good", "./none"])
    with pytest.raises(LineageParamTypeError, match="list of jobs"):
        store.compare("./good")
    with pytest.raises(LineageParamTypeError, match="is no job"):
        store.compare([1, 2])
    with pytest.raises(LineageParamTypeError, match="no columns base_dir"):
        store.compare(store.jobs(columns=["epoch"]))


def test_curves_are_one_long_table_with_nan(own: LineageStore, base: Path) -> None:
    Log().version().scalar(7, "loss", -math.inf).scalar(8, "loss", 0.5).write_summary(base / "poor")
    own.ingest(base)
    table = own.curves(["./curve", "./poor"], "loss")
    assert table.columns == ("base_dir", "summary_dir", "step", "wall_at", "value")
    assert table["summary_dir"] == ["./curve", "./curve", "./poor", "./poor"]
    assert (set(table["base_dir"]), table["step"]) == ({str(base)}, [1, 2, 7, 8])
    assert str(table["value"]) == "[4.0, nan, -inf, 0.5]"
    assert table["wall_at"][:2] == [BEGUN + timedelta(seconds=1), BEGUN + timedelta(seconds=2)]
    assert own.curves(["./curve", "./poor"], "loss", start=2, stop=8)["step"] == [2, 7]
    with pytest.raises(SampleNotFoundError, match=r"The job \./good has no scalar 'loss'"):
        own.curves(["./curve", "./good"], "loss")
    assert own.curves(["./curve", "./good"], "loss", skip_unknown=True)["step"] == [1, 2]
    assert own.curves([], "loss").rows == []


def test_curves_go_into_pandas_and_arrow(store: LineageStore) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table = store.curves(["./curve"], "loss")
    frame = table.to_pandas()
    assert list(map(str, frame.dtypes[2:])) == ["int64", "datetime64[us, UTC]", "float64"]
    assert frame.pivot(index="step", columns="summary_dir", values="value").shape == (2, 1)
    assert str(table.to_arrow()["value"].to_pylist()) == "[4.0, nan]"
