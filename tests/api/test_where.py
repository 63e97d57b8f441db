"""--where and --sort texts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lineage_store.api.where import combined, read_sort, read_where
from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.query.search.condition import parse


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("metric/accuracy>=0.9", {"metric/accuracy": {"ge": 0.9}}),
        ("epoch = 3", {"epoch": {"eq": 3}}),
        ("epoch==3", {"epoch": {"eq": 3}}),
        ("epoch!=3", {"epoch": {"ne": 3}}),
        ("loss <1e-3", {"loss": {"lt": 1e-3}}),
        ("loss<=NaN", {"loss": {"le": pytest.approx(float("nan"), nan_ok=True)}}),
        ("network=123", {"network": {"eq": "123"}}),
        ("network=a=b>c", {"network": {"eq": "a=b>c"}}),
        ("user_defined/team=vision", {"user_defined/team": {"eq": "vision"}}),
        ('user_defined/trial="3"', {"user_defined/trial": {"eq": "3"}}),
        ("user_defined/trial=3", {"user_defined/trial": {"eq": 3}}),
        ("user_defined/two words>1", {"user_defined/two words": {"gt": 1}}),
        ("optimizer in Adam, SGD", {"optimizer": {"in": ["Adam", "SGD"]}}),
        ("epoch not in 1,2", {"epoch": {"not_in": [1, 2]}}),
        ('optimizer in ["a,b", "c"]', {"optimizer": {"in": ["a,b", "c"]}}),
        ("network like Le%", {"network": {"like": "Le%"}}),
        ("loss is null", {"loss": {"is_null": True}}),
        ("loss is not null", {"loss": {"is_null": False}}),
        ("state in live, stalled", {"state": {"in": ["live", "stalled"]}}),
        ("label=3", {"label": {"eq": 3}}),
        ("remark like %paper%", {"remark": {"like": "%paper%"}}),
        ("host=7", {"host": {"eq": "7"}}),
        ("updated_at > 2026-11-01", {"updated_at": {"gt": "2026-11-01"}}),
        ("updated_at<=2026-11-01 08:00+02:00", {"updated_at": {"le": "2026-11-01 08:00+02:00"}}),
        ("updated_at < 20261101", {"updated_at": {"lt": "20261101"}}),
        ("updated_at > 1790000000", {"updated_at": {"gt": 1790000000}}),
        ("updated_at in 2026-11-01, 1790000000.5", {"updated_at": {"in": ["2026-11-01", 1790000000.5]}}),
        ("updated_at last 7 days", {"updated_at": {"ge": "last 7 days"}}),
        ("updated_at in the last hour", {"updated_at": {"ge": "the last hour"}}),
        ("updated_at not in last 7 days", {"updated_at": {"lt": "last 7 days"}}),
        ("updated_at LAST 7 DAYS", {"updated_at": {"ge": "LAST 7 DAYS"}}),
        ("network in last 3 layers", {"network": {"in": ["last 3 layers"]}}),
        ("state NOT IN live,stalled", {"state": {"not_in": ["live", "stalled"]}}),
        ("network LIKE Le%", {"network": {"like": "Le%"}}),
        ("loss IS NOT NULL", {"loss": {"is_null": False}}),
        ("updated_at >= 36 hours ago", {"updated_at": {"ge": "36 hours ago"}}),
    ],
)
def test_a_text_is_a_comparison(text: str, condition: dict[str, Any]) -> None:
    assert read_where(text) == condition
    parse(read_where(text))


@pytest.mark.parametrize("text", ["", "epoch", "=3", "epoch in", "optimizer in [1", "epoch is nothing"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(LineageSearchConditionParamError) as refused:
        read_where(text)
    assert "--where" not in str(refused.value), "the server has it from a query, Python from a function"


@pytest.mark.parametrize("text", ["a" * 9000, f"user_defined/a in {'[' * 90_000}"])
def test_a_text_that_is_refused_is_not_repeated_for_ever(text: str) -> None:
    with pytest.raises(LineageSearchConditionParamError) as refused:
        read_where(text)
    assert len(str(refused.value)) < 500


def test_brackets_that_are_nested_too_deep_for_json_are_text() -> None:
    deep = "[" * 90_000
    assert read_where(f"user_defined/a={deep}") == {"user_defined/a": {"eq": deep}}


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("loss", ["loss", "ascending"]),
        ("loss:desc", ["loss", "descending"]),
        ("metric/top:5:asc", ["metric/top:5", "ascending"]),
        ("metric/top:5", ["metric/top:5", "ascending"]),
    ],
)
def test_a_sort_key_may_say_its_direction(text: str, pair: list[str]) -> None:
    assert read_sort(text) == pair


def test_texts_are_added_to_a_condition_without_changing_it() -> None:
    given = {"epoch": {"gt": 1}, "limit": 5, "sorted_name": "loss", "sorted_type": "ascending"}
    whole = combined(given, ["epoch<9", "loss<1"], ["epoch:desc", "loss"])
    assert whole == {
        "limit": 5,
        "and": [{"epoch": {"gt": 1}}, {"epoch": {"lt": 9}}, {"loss": {"lt": 1}}],
        "sorted_by": [["epoch", "descending"], ["loss", "ascending"]],
    }
    assert given == {"epoch": {"gt": 1}, "limit": 5, "sorted_name": "loss", "sorted_type": "ascending"}
    parse(whole)


@pytest.mark.parametrize("text", ["a" + " " * 60_000 + "b", "x last" + " " * 60_000 + "!", "x " * 30_000])
def test_a_hostile_text_takes_time_in_proportion_to_its_length(text: str) -> None:
    before = time.process_time()
    with pytest.raises(LineageSearchConditionParamError):
        read_where(text)
    assert time.process_time() - before < 5, "which backtracking exceeds by far"
