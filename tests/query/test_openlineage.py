"""Run events conform to OpenLineage's schema, and contain what the store knows of a job."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.fields import OUTCOME

SCHEMA = json.loads((Path(__file__).parent / "openlineage_schema.json").read_text())


def events(store: LineageStore, **options: Any) -> list[dict[str, Any]]:
    out = io.BytesIO()
    store.export(to=out, format="openlineage", **options)
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    base_dir = tmp_path / "base"
    done = Log().train(network="LeNet5", optimizer="Adam", learning_rate=float("nan"), epoch=3, loss=1.0)
    done.evaluation({"accuracy": float("inf"), "classes": [1, 2]}).user_info(team="vision")
    done.write_lineage(base_dir / "done")
    Log().version().scalar(1, "loss", 1.0).write_summary(base_dir / "done").chmod(0o400)
    for path in (base_dir / "done").iterdir():
        path.chmod(0o400)
    Log().version().scalar(1, "loss", 1.0).write_summary(base_dir / "quiet")
    return base_dir


def test_events_of_real_trainings_fit_the_schema(database_url: str, corpus: Path) -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    validator = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)
    with LineageStore(database_url) as store:
        store.ingest(corpus)
        found = events(store)
        jobs = [(job.base_dir, job.train_id) for job in store.lineage.jobs()]
    wrong = {str(error) for event in found for error in validator.iter_errors(event)}
    assert wrong == set()
    assert not validator.is_valid({**found[0], "run": {"runId": "1"}})
    assert len({event["run"]["runId"] for event in found}) == len(jobs)
    assert any(event["inputs"] and event["outputs"] for event in found)


def test_a_run_starts_and_ends_under_one_id_that_every_export_gives(
    database_url: str, base_dir: Path
) -> None:
    with LineageStore(database_url) as store:
        store.ingest(base_dir)
        first, second = events(store), events(store)
    assert first == second
    told = {(event["job"]["name"], event["eventType"]): event for event in first}
    assert {("done", "START"), ("done", "COMPLETE"), ("quiet", "START")} <= told.keys()
    start, end = told["done", "START"], told["done", "COMPLETE"]
    assert start["run"]["runId"] == end["run"]["runId"] != told["quiet", "START"]["run"]["runId"]
    assert start["job"] == {"namespace": str(base_dir), "name": "done", "facets": {}}
    assert "lineageStoreMetrics" not in start["run"]["facets"]
    assert content(end, "HyperParameters", "parameters")["learning_rate"] == "NaN"
    assert content(end, "HyperParameters", "parameters")["optimizer"] == "Adam"
    assert content(end, "Metrics", "metrics") == {"accuracy": "Infinity", "classes": [1, 2]}
    assert content(end, "Metrics", "training") == {"loss": 1.0}
    assert content(end, "UserDefined", "values") == {"team": "vision"}


def test_a_path_of_a_model_may_be_nested_as_deep_as_it_likes(sqlite_url: str, tmp_path: Path) -> None:
    path = "[" * 100_000
    Log().train(network="N", path=path).write_lineage(tmp_path / "base" / "job").chmod(0o400)
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
        _, end = events(store)
    assert [each["name"] for each in end["outputs"]] == [path]


def test_a_job_that_still_grows_has_not_ended_and_a_quiet_unfinished_one_was_aborted(
    sqlite_url: str, base_dir: Path
) -> None:
    with LineageStore(sqlite_url) as store:
        store.ingest(base_dir)
        types = {}
        for state in ("live", "stalled", "missing"):
            with store.engine.begin() as connection:
                connection.exec_driver_sql(f"UPDATE train_job SET state = '{state}'")
            of_job = [(event["job"]["name"], event["eventType"]) for event in events(store)]
            types[state] = sorted(kind for name, kind in of_job if name == "quiet")
        kinds = {kind for name, kind in of_job if name == "done"}
    assert types == {"live": ["START"], "stalled": ["ABORT", "START"], "missing": ["ABORT", "START"]}
    assert kinds == {"START", "COMPLETE"}


@pytest.mark.parametrize(("outcome", "end"), [("failed", "FAIL"), ("interrupted", "ABORT")])
def test_what_a_training_recorded_of_its_end_is_how_its_run_ended(
    sqlite_url: str, tmp_path: Path, outcome: str, end: str
) -> None:
    values: dict[str, Any] = {OUTCOME: outcome}
    Log().user_info(**values).write_lineage(tmp_path / "base" / "job").chmod(0o400)
    with LineageStore(sqlite_url) as store:
        store.ingest(tmp_path / "base")
        assert [event["eventType"] for event in events(store)] == ["START", end]


def content(event: Mapping[str, Any], facet: str, key: str) -> Any:
    return event["run"]["facets"][f"lineageStore{facet}"][key]
