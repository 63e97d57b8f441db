"""--where and --sort texts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lineage_store.errors import LineageSearchConditionParamError
from lineage_store.query.condition_dict import condition_in_words, parse
from lineage_store.query.condition_text import combined, read_removal, read_sort, read_where


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


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("user_defined/note='this is null'", {"user_defined/note": {"eq": "this is null"}}),
        ('user_defined/note = "a > b, c"', {"user_defined/note": {"eq": "a > b, c"}}),
        ("user_defined/note='it''s in use'", {"user_defined/note": {"eq": "it's in use"}}),
        ("'user_defined/note=this' is null", {"user_defined/note=this": {"is_null": True}}),
        ("'user_defined/note=this' IS NOT NULL", {"user_defined/note=this": {"is_null": False}}),
        ("'user_defined/a in b'=c is null", {"user_defined/a in b": {"eq": "c is null"}}),
        ("user_defined/team in 'a, b', c", {"user_defined/team": {"in": ["a, b", "c"]}}),
        ("remark like '% like %'", {"remark": {"like": "% like %"}}),
        ("remark=''", {"remark": {"eq": ""}}),
        ("user_defined/trial='3'", {"user_defined/trial": {"eq": "3"}}),
        ("network='LeNet5'", {"network": {"eq": "LeNet5"}}),
        ("remark=it's fine", {"remark": {"eq": "it's fine"}}),
        ("updated_at < 'last 90 days'", {"updated_at": {"lt": "last 90 days"}}),
    ],
)
def test_what_is_in_quotes_is_taken_as_it_stands_by_questions_and_removals(
    text: str, condition: dict[str, Any]
) -> None:
    assert read_where(text) == condition
    assert read_removal(text) == condition
    parse(read_where(text))


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("user_defined/note=this is null", {"user_defined/note": {"eq": "this is null"}}),
        ("user_defined/note=not in use", {"user_defined/note": {"eq": "not in use"}}),
        ("updated_at< last 7 days", {"updated_at": {"lt": "last 7 days"}}),
    ],
)
def test_a_question_takes_the_first_operator(text: str, condition: dict[str, Any]) -> None:
    assert read_where(text) == condition


@pytest.mark.parametrize(
    "text",
    [
        "metric/accuracy<0.5",
        "loss >= 1e-3",
        "optimizer in Adam, SGD",
        "state NOT IN live,stalled",
        "network like Le%",
        "metric/accuracy is null",
        "user_defined/two words=3",
        "user_defined/note=two words",
        "updated_at last 7 days",
        "updated_at not in the last hour",
        "updated_at < last 90 days",
        "updated_at<=2026-11-01 08:00+02:00",
        "updated_at < 36 hours ago",
        "label=3",
        "summary_dir=./run_7",
    ],
)
def test_a_removal_takes_what_has_one_reading(text: str) -> None:
    assert read_removal(text) == read_where(text)


TWO_READINGS = {
    "user_defined/note=this is null": (
        "'user_defined/note=this' is null",
        "user_defined/note='this is null'",
    ),
    "user_defined/note = this  IS NOT\tNULL ": ("'user_defined/note = this' is not null",),
    "user_defined/note=this is in use": ("'user_defined/note=this is' in 'use'",),
    "summary_dir=./not in use": ("summary_dir='./not in use'", "'summary_dir=./not' in 'use'"),
    "remark=a>b": ("remark='a>b'", "'remark=a'>'b'"),
    "user_defined/a=b=c": ("user_defined/a='b=c'", "'user_defined/a=b'='c'"),
    "user_defined/a<b is null": ("user_defined/a<'b is null'", "'user_defined/a<b' is null"),
    "remark like %a like b%": ("remark like '%a like b%'",),
    "tag like in": ("tag like 'in'",),
    "remark='a' is null": ("remark='''a'' is null'",),
    "optimizer=Adam and loss<1": ("optimizer='Adam and loss<1'",),
    "optimizer!=Adam or SGD": ("optimizer!='Adam or SGD'",),
    "optimizer != Adam && SGD": ("optimizer!='Adam && SGD'",),
    "optimizer!=Adam,SGD": ("optimizer!='Adam,SGD'", "optimizer not in 'Adam','SGD'"),
    "optimizer not in (Adam, SGD)": ("optimizer not in '(Adam','SGD)'",),
    "optimizer not in Adam SGD": ("optimizer not in 'Adam SGD'", "optimizer not in 'Adam','SGD'"),
    "optimizer not in Adam;SGD": ("optimizer not in 'Adam;SGD'",),
    "optimizer not in Adam,": ("optimizer not in 'Adam',''",),
    "network=Le%": ("network='Le%'", "network like 'Le%'"),
    "network!=Le*": ("network!='Le*'", "network like 'Le%'"),
    "remark!=": ("remark!=''",),
    "remark!='a": ("remark!='''a'",),
    "remark!=\u201ca\u201d": ("remark!='\u201ca\u201d'",),
    "loss<>3": ("loss<'>3'",),
    "loss=>3": ("loss='>3'",),
    "user_defined/x=last 7 days": ("user_defined/x='last 7 days'",),
    "user_defined/x<36 hours ago": ("user_defined/x<'36 hours ago'",),
    "network in last 3 layers": ("network in 'last 3 layers'",),
}


@pytest.mark.parametrize("text", TWO_READINGS)
def test_a_removal_refuses_what_two_readings_fit_and_says_how_to_write_each(text: str) -> None:
    with pytest.raises(
        LineageSearchConditionParamError, match="two ways, and a removal does not guess"
    ) as told:
        read_removal(text)
    for spelled in TWO_READINGS[text]:
        assert spelled in str(told.value)
        read_removal(spelled)


@pytest.mark.parametrize(
    "text",
    ["user_defined/x last 7 days", "network not like Le%", "user_defined/a b is null", "epoch in", "a"],
)
def test_what_is_no_comparison_is_none_for_a_removal_either(text: str) -> None:
    with pytest.raises(LineageSearchConditionParamError, match="is no comparison"):
        read_removal(text)


def test_a_condition_is_said_in_words() -> None:
    condition = {
        "optimizer": {"ne": "Adam"},
        "or": [
            {"metric/accuracy": {"lt": 0.5}},
            {"not": {"remark": {"like": "%keep%"}}, "loss": {"is_null": True}},
        ],
        "user_defined/a = b": {"in": [*range(12)]},
        "updated_at": {"lt": "last 90 days"},
    }
    assert condition_in_words(condition) == (
        '(optimizer is not "Adam" or is missing) and (metric/accuracy is less than 0.5 or (not (remark matches '
        '"%keep%") and loss is missing)) and "user_defined/a = b" is one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2 more '
        'and updated_at is less than "last 90 days"'
    )


@pytest.mark.parametrize("text", ["a" + " " * 60_000 + "b", "x last" + " " * 60_000 + "!", "x " * 30_000])
def test_a_hostile_text_takes_time_in_proportion_to_its_length(text: str) -> None:
    before = time.process_time()
    with pytest.raises(LineageSearchConditionParamError):
        read_where(text)
    assert time.process_time() - before < 5, "which backtracking exceeds by far"
