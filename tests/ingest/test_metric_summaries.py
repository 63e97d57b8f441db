"""Summaries of all evaluations of a job: the first and the best result of each metric, least or greatest."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.fields import less_is_better
from lineage_store.operations.doctor import examine

is_less_better = less_is_better(Settings().less_is_better)


def _log(*evaluations: dict[str, Any]) -> Log:
    log = Log().train(network="N")
    for metrics in evaluations:
        log.evaluation(metrics)
    return log


def _summaries(store: LineageStore, train_id: str = "./job") -> dict[str, tuple[Any, ...]]:
    query = (
        "SELECT name, first_value, best_value, best_evaluation_no FROM v_metric_latest WHERE train_id = :id"
    )
    with store.engine.connect() as connection:
        return {name: tuple(row) for name, *row in connection.execute(text(query), {"id": train_id})}


def _found(store: LineageStore, condition: dict[str, Any]) -> list[str]:
    return [each["summary_dir"] for each in store.lineage.filter(condition)["object"]]


def test_the_first_and_the_best_are_told_and_searched_by(database_url: str, tmp_path: Path) -> None:
    steps = [
        {"accuracy": 0.5, "val_loss": 2.0},
        {"accuracy": 0.9, "val_loss": 0.5},
        {"accuracy": 0.9, "val_loss": 1.0},
    ]
    _log(*steps, {"accuracy": 0.7, "val_loss": 3.0}).write_lineage(tmp_path / "job")
    _log({"accuracy": 0.8, "val_loss": 0.7}).write_lineage(tmp_path / "other")
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(tmp_path)
        assert _summaries(store) == {"accuracy": (0.5, 0.9, 2), "val_loss": (2.0, 0.5, 2)}
        assert _found(store, {"metric/accuracy": {"gt": 0.75}}) == ["./other"]
        assert _found(store, {"metric_best/accuracy": {"gt": 0.85}}) == ["./job"]
        assert _found(store, {"metric_best/val_loss": {"lt": 0.6}}) == ["./job"]
        assert _found(store, {"metric_first/accuracy": {"ge": 0.8}}) == ["./other"]
        order = {"sorted_name": "metric_best/accuracy", "sorted_type": "descending", "limit": 1}
        assert _found(store, order) == ["./job"]
        found = store.lineage.columns(names=["metric_best/accuracy", "metric_first/val_loss"])
        assert dict(zip(found.train_id, found.values["metric_best/accuracy"], strict=True))["./job"] == 0.9
        store.lineage.require_names({"metric_best/accuracy": {"gt": 0}})
        with pytest.raises(LineageSearchConditionParamError, match="Did you mean metric_best/accuracy"):
            store.lineage.require_names({"metric_best/acuracy": {"gt": 0}})


def test_they_follow_what_log_files_gain_and_lose(database_url: str, tmp_path: Path) -> None:
    log = _log({"acc": 0.5})
    path = log.write_lineage(tmp_path / "job", 100)
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(tmp_path)
        assert _summaries(store) == {"acc": (0.5, 0.5, 1)}
        log.evaluation({"acc": 0.9}).write_lineage(tmp_path / "job", 100)
        store.ingest(tmp_path)
        assert _summaries(store) == {"acc": (0.5, 0.9, 2)}
        _log({"acc": 0.6}).write_lineage(
            tmp_path / "job", 200
        )  # a restart: what was reached before it counts
        store.ingest(tmp_path)
        assert _summaries(store) == {"acc": (0.5, 0.9, 2)}
        assert _found(store, {"metric/acc": {"eq": 0.6}, "metric_best/acc": {"eq": 0.9}}) == ["./job"]
        path.chmod(0o600)
        path.unlink()
        _log({"acc": 0.1}).write_lineage(tmp_path / "job", 100)  # another content in its place
        store.ingest(tmp_path)
        assert _summaries(store) == {"acc": (0.1, 0.6, 2)}


def test_what_is_no_finite_number_is_never_best(sqlite_url: str, tmp_path: Path) -> None:
    _log(
        {"acc": math.nan, "text": "a"}, {"acc": math.inf, "text": "b"}, {"acc": 0.1, "text": "c"}
    ).write_lineage(tmp_path / "job")
    with LineageStore(sqlite_url, settings=Settings()) as store:
        store.ingest(tmp_path)
        assert _summaries(store) == {"acc": (None, 0.1, 3), "text": (None, None, None)}
        assert _found(store, {"metric_first/text": {"like": "a"}}) == ["./job"]


def test_a_setting_says_which_way_is_better(sqlite_url: str, tmp_path: Path) -> None:
    _log({"gap": 1.0, "loss": 1.0}, {"gap": 2.0, "loss": 2.0}).write_lineage(tmp_path / "job")
    with LineageStore(sqlite_url, settings=Settings(less_is_better="Gap, regret")) as store:
        store.ingest(tmp_path)
        assert _summaries(store) == {"gap": (1.0, 1.0, 1), "loss": (1.0, 2.0, 2)}


def test_bests_that_another_setting_chose_are_told_and_chosen_anew_from_what_is_stored(
    database_url: str, tmp_path: Path
) -> None:
    _log({"gap": 1.0, "acc": 1.0}, {"gap": 2.0, "acc": 2.0}).write_lineage(tmp_path / "job")
    _log({"gap": 1.0}).write_lineage(tmp_path / "once")
    later = Settings(less_is_better="gap")

    def told() -> list[str]:
        return [each.what for each in examine(database_url, later, []) if each.kind == "other_best"]

    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(tmp_path)
        assert [each.kind for each in examine(database_url, Settings(), [])].count("other_best") == 0
    assert told() == ["1 jobs have a better gap than their stored best, by the present `less_is_better`."]
    shutil.rmtree(tmp_path / "job")
    with LineageStore(database_url, settings=later) as store:
        since = store.changes.since("now").since
        assert store.repair.choose_best() == 1
        assert _summaries(store) == {"gap": (1.0, 1.0, 1), "acc": (1.0, 2.0, 2)}
        assert _summaries(store, "./once") == {"gap": (1.0, 1.0, 1)}
        assert [change.train_id for change in store.changes.since(since).changes] == ["./job"]
        assert store.repair.choose_best() == 0
    assert told() == []


@pytest.mark.parametrize(
    "name", ["loss", "Loss", "val_loss", "eval/loss", "valLoss", "MAE", "hausdorff_distance"]
)
def test_less_is_better_of_what_has_one_of_the_words_as_a_part(name: str) -> None:
    assert is_less_better(name)


@pytest.mark.parametrize(
    "name", ["accuracy", "Top1CategoricalAccuracy", "lossless", "F1", "times", "meanness", ""]
)
def test_more_is_better_of_all_else(name: str) -> None:
    assert not is_less_better(name)
