"""Jobs as a table: every column there is, on both databases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import (
    LineageParamSummaryPathError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageSearchConditionParamError,
)
from lineage_store.fields import SEARCHABLE

BEGUN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[LineageStore]:
    """`good` and `poor` were trained, `curve` has no lineage."""
    base = tmp_path / "base"
    good = Log().train(network="LeNet5", optimizer="Adam", learning_rate=0.5, epoch=3)
    good.evaluation({"accuracy": 0.5}).evaluation({"accuracy": 0.9, "recall": math.nan})
    good.user_info(team="vision", seed=7).write_lineage(base / "good")
    poor = Log().train(network="LeNet5", optimizer="SGD", learning_rate=math.nan, epoch=5)
    poor.evaluation({"accuracy": 0.25}).write_lineage(base / "poor")
    Log().version().scalar(1, "loss", 4.0).scalar(2, "loss", math.nan).write_summary(base / "curve")
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(base)
        store.annotate(base, "./good", tag=3, remark="keep")
        yield store


def test_all_jobs_come_with_all_columns(store: LineageStore, tmp_path: Path) -> None:
    table = store.jobs()
    named = ["metric/accuracy", "metric/recall", "user_defined/seed", "user_defined/team"]
    fields = [field.name for field in SEARCHABLE if field.name != "summary_dir"]
    assert list(table.columns[:2]) == ["base_dir", "summary_dir"]
    assert list(table.columns[-len(named) - len(fields) :]) == [*fields, *named]
    rows = {row[1]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(rows) == {"./good", "./poor", "./curve"}
    good = rows["./good"]
    assert (good["base_dir"], good["tag"], good["remark"]) == (str(tmp_path / "base"), 3, "keep")
    assert (good["first_started_at"], good["epoch"], good["metric/accuracy"]) == (BEGUN, 3, 0.9)
    assert math.isnan(good["metric/recall"])
    assert math.isnan(rows["./poor"]["learning_rate"])
    assert (rows["./poor"]["user_defined/seed"], rows["./curve"]["network"]) == (None, None)


def test_columns_limit_and_order_are_those_asked_for(store: LineageStore) -> None:
    columns = ["metric/accuracy", "epoch", "updated_at"]
    table = store.jobs({"sorted_name": "epoch", "sorted_type": "descending"}, columns=columns, limit=1)
    assert list(table.columns) == columns
    ((accuracy, epoch, updated),) = table.rows
    assert (accuracy, epoch, updated.tzinfo) == (0.25, 5, UTC)
    assert store.jobs({"epoch": {"lt": 4}}, columns="summary_dir").rows == [("./good",)]
    assert "metric/recall" not in store.jobs({"epoch": {"eq": 5}}).columns


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
    ],
)
def test_a_column_that_there_is_not_is_refused_with_the_closest(
    store: LineageStore, columns: list[str], told: str
) -> None:
    with pytest.raises((LineageParamValueError, LineageSearchConditionParamError), match=told):
        store.jobs(columns=columns)


def test_what_is_asked_wrongly_is_refused(store: LineageStore, tmp_path: Path) -> None:
    with pytest.raises(LineageParamValueError, match="limit = 0"):
        store.jobs(limit=0)
    with pytest.raises(LineageParamTypeError, match="limit = 'x'"):
        store.jobs(limit="x")  # type: ignore[arg-type]
    with pytest.raises(LineageSearchConditionParamError, match=r"metric/accuracy"):
        store.jobs({"metric/acuracy": {"gt": 0.5}})
    with pytest.raises(LineageParamSummaryPathError, match="does not know"):
        store.jobs(base_dir=tmp_path / "other")
