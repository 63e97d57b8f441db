"""The values that jobs have of a field are listed with their numbers of jobs, so that a condition can be completed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import (
    LineageParamTypeError,
    LineageParamValueError,
    LineageSearchConditionParamError,
)

OPTIMIZERS = ("Adam", "AdamW", "SGD", "Adam", "100%_Adam\\x41", "SGD", "Adam")


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[LineageStore]:
    for number, optimizer in enumerate(OPTIMIZERS):
        log = Log().train(optimizer=optimizer, batch_size=32 * (1 + number % 2), learning_rate=0.1)
        log.evaluation({"accuracy": math.nan if number == 0 else number // 4 / 2, "parts": [1]})
        log.user_info(owner="mixed" if number % 2 else 3).write_lineage(tmp_path / "base" / f"{number}")
    with LineageStore(database_url, settings=Settings()) as store:
        store.ingest(tmp_path / "base")
        yield store


def test_the_most_frequent_come_first(store: LineageStore) -> None:
    assert store.values("optimizer") == [("Adam", 3), ("SGD", 2), ("100%_Adam\\x41", 1), ("AdamW", 1)]
    assert store.values("optimizer", most=1) == [("Adam", 3)]
    assert store.values("batch_size") == [(32, 4), (64, 3)]
    assert store.values("learning_rate") == [(0.1, 7)]
    assert store.values("metric/accuracy") == [(0, 3), (0.5, 3)]
    assert store.values("user_defined/owner") == [(3, 4), ("mixed", 3)]


def test_numbers_come_before_texts_of_as_many_jobs(store: LineageStore, tmp_path: Path) -> None:
    for name, accuracy in ("text", "good"), ("number", 0.25), ("infinite", math.inf):
        Log().train().evaluation({"mixed": accuracy}).write_lineage(tmp_path / "base" / name)
    store.ingest(tmp_path / "base")
    assert store.values("metric/mixed") == [(0.25, 1), (math.inf, 1), ("good", 1)]
    assert store.values("metric/mixed", most=1) == [(0.25, 1)]


def test_part_of_a_text_chooses_literally_and_whatever_its_case(store: LineageStore) -> None:
    assert store.values("optimizer", "ADAMW") == [("AdamW", 1)]
    assert store.values("optimizer", "%_a") == [("100%_Adam\\x41", 1)]
    assert store.values("optimizer", "nobody's") == []
    assert store.values("summary_dir", "/3") == [("./3", 1)]
    assert store.values("batch_size", "nobody's") != []  # numbers are few, and chosen by who shows them


def test_lists_and_what_nobody_has_are_no_values(store: LineageStore) -> None:
    assert store.values("metric/parts") == []
    assert store.values("metric/none") == []
    with pytest.raises(LineageSearchConditionParamError, match="networ"):
        store.values("networ")


@pytest.mark.parametrize("most", [-1, 0, 2**70])
def test_a_count_out_of_bounds_is_refused(store: LineageStore, most: int) -> None:
    with pytest.raises(LineageParamValueError, match=r"most = .* must be from 1 to"):
        store.values("optimizer", most=most)


def test_a_count_that_is_no_number_is_refused(store: LineageStore) -> None:
    with pytest.raises(LineageParamTypeError, match="most = '5' must be a whole number from 1"):
        store.values("optimizer", most="5")  # type: ignore[arg-type]


def test_names_that_most_jobs_have_come_first(store: LineageStore, tmp_path: Path) -> None:
    Log().train().evaluation({"a_rare_one": 1.0}).write_lineage(tmp_path / "base" / "rare")
    store.ingest(tmp_path / "base")
    assert store.names()["metric"] == ["accuracy", "parts", "a_rare_one"]
    assert store.names()["user_defined"] == ["owner"]
    assert store.names()["metric_first"] == ["accuracy", "parts", "a_rare_one"]
    assert store.names()["metric_best"] == ["accuracy", "a_rare_one"]
