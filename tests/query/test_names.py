"""Names of metrics and user-defined values that no job has are reported, with a few look-ups in an index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import LineageSearchConditionParamError


@pytest.fixture(scope="module")
def store(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineageStore]:
    """Twelve jobs, each with a metric of its own, accuracy, and a team."""
    base_dir = tmp_path_factory.mktemp("names")
    for number in range(12):
        log = Log().train(network="LeNet5").evaluation({"accuracy": 0.5, f"own_{number:02}": 1.0})
        log.user_info(team="vision").write_lineage(base_dir / f"run_{number}")
    with LineageStore(module_database_url, settings=Settings()) as store:
        store.ingest(base_dir)
        yield store


def test_what_jobs_have_is_taken(store: LineageStore) -> None:
    store.lineage.require_names()
    condition = {
        "or": [{"metric/accuracy": {"gt": 0.1}}, {"not": {"metric_own_03": {"lt": 2}}}],
        "sorted_by": [["user_defined/team", "ascending"], ["tag", "descending"], ["epoch", "ascending"]],
    }
    store.lineage.require_names(condition, ["metric/own_11"])


@pytest.mark.parametrize(
    ("condition", "names", "told"),
    [
        ({"metric/accurracy": {"gt": 0.1}}, [], "metric 'accurracy'. Did you mean metric/accuracy?"),
        ({"not": {"or": [{"metric/none": {"gt": 0}}]}}, [], "There are metric/accuracy, metric/own_00"),
        ({"sorted_name": "metric/own_1"}, [], "and 3 more"),
        ({}, ["user_defined/accuracy"], "There are user_defined/team."),
    ],
)
def test_what_no_job_has_is_refused(
    store: LineageStore, condition: dict[str, Any], names: list[str], told: str
) -> None:
    with pytest.raises(LineageSearchConditionParamError) as refused:
        store.lineage.require_names(condition, names)
    assert told in str(refused.value)
    assert "object" in store.lineage.filter(condition)  # where it is legal all the same


def test_a_store_without_any_metric_says_so(sqlite_url: str) -> None:
    with (
        LineageStore(sqlite_url, settings=Settings()) as store,
        pytest.raises(LineageSearchConditionParamError, match="No job has any metric"),
    ):
        store.lineage.require_names({"metric/accuracy": {"gt": 0}})


def test_names_are_looked_up_by_index(sqlite_url: str) -> None:
    asked: list[tuple[str, Any]] = []
    with LineageStore(sqlite_url, settings=Settings()) as store:
        event.listen(store.engine, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
        with pytest.raises(LineageSearchConditionParamError):
            store.lineage.require_names({"metric/accuracy": {"gt": 0}})
        with store.engine.connect() as connection:
            steps = [
                str(step.detail)
                for statement, parameters in asked[:]
                for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            ]
    of_metrics = [step for step in steps if " metric " in f"{step} "]
    assert of_metrics
    assert all(
        step.startswith("SEARCH metric USING") and "ix_metric_name_value" in step for step in of_metrics
    )
