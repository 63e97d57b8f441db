"""What a condition may say, what it may not, and how a refusal helps."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_store import LineageSearchConditionParamError
from lineage_store.query.condition import AllOf, AnyOf, Leaf, Not, PageBounds, Subject
from lineage_store.query.condition_dict import parse
from lineage_store.query.job_sql import Want, compile_ranges

SELF_CONTAINING: list[Any] = []
SELF_CONTAINING.append(SELF_CONTAINING)
CYCLE: dict[str, Any] = {}
CYCLE["or"] = [CYCLE, CYCLE]


def _leaves(condition: dict[str, Any], base_dir: str | None = "/logs") -> list[Leaf]:
    where = parse(condition, base_dir=base_dir).where
    assert isinstance(where, AllOf)
    return [leaf for leaf in where.parts if isinstance(leaf, Leaf)]


def _leaf(condition: dict[str, Any], base_dir: str | None = "/logs") -> Leaf:
    (leaf,) = _leaves(condition, base_dir)
    return leaf


def _values(condition: dict[str, Any], base_dir: str | None = "/logs") -> list[Any]:
    """Of the condition's parameters."""
    return list(parse(condition, base_dir=base_dir).values.values())


# --- what is accepted ---


@pytest.mark.parametrize("condition", [None, {}, {"epoch": {}}, {"lineage_type": None}, {"lineage_type": {}}])
def test_nothing_asked_shows_everything(condition: dict[str, Any] | None) -> None:
    read = parse(condition)
    assert (read.where, read.sort, read.page) == (AllOf(()), (), None)
    assert read.shows_model
    assert read.shows_dataset


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("metric/acc", Subject("metric", "acc")),
        ("metric_acc", Subject("metric", "acc")),
        ("metric/a/b", Subject("metric", "a/b")),
        ("metric/metric_x", Subject("metric", "metric_x")),
        ("user_defined/team", Subject("user_defined", "team")),
        ("user_defined/a/b", Subject("user_defined", "a/b")),
        ("metric/nul\0", Subject("metric", "nul\\x00")),
        ("epoch", Subject("integer", "epoch")),
        ("loss", Subject("float", "loss")),
    ],
)
def test_a_field_is_found_under_each_of_its_spellings(name: str, subject: Subject) -> None:
    assert _leaf({name: {"in": [1]}}).subject == subject


@pytest.mark.parametrize(
    ("wanted", "model", "dataset"),
    [
        ("model", True, False),
        ("dataset", False, True),
        ({"eq": "model"}, True, False),
        ({"in": ["dataset", "model"]}, True, True),
        ({"in": ("dataset",), "eq": "model"}, True, True),
    ],
)
def test_lineage_type_takes_every_documented_form(wanted: object, model: bool, dataset: bool) -> None:
    read = parse({"lineage_type": wanted})
    assert (read.shows_model, read.shows_dataset) == (model, dataset)


@pytest.mark.parametrize(
    ("value", "job"),
    [
        ("./run", "./run"),
        ("/logs/run", "./run"),
        ("/logs/run/", "./run"),
        ("/logs/./x/../run", "./run"),
        ("/logs", "./"),
        ("/logs/a/b", "./a/b"),
        ("run", "run"),
    ],
)
def test_an_absolute_summary_dir_becomes_the_id_of_the_job(value: str, job: str) -> None:
    assert _values({"summary_dir": {"eq": value}}) == [job]
    assert _values({"summary_dir": {"not_in": [value, None]}}) == [job]


@pytest.mark.parametrize(
    ("condition", "page"),
    [
        ({"limit": 5}, PageBounds(5, 0)),
        ({"offset": 3}, PageBounds(10, 30)),
        ({"limit": 100, "offset": 100_000}, PageBounds(100, 10_000_000)),
    ],
)
def test_a_page_has_ten_jobs_and_number_nought_unless_said_otherwise(
    condition: dict[str, Any], page: PageBounds
) -> None:
    assert parse(condition).page == page


def test_sort_keys_keep_their_order_and_only_descending_descends() -> None:
    read = parse({"sorted_by": [["metric/acc", "descending"], ("tag", None), ["metric_acc", "ascending"]]})
    keys = [(key.subject.name, key.descending) for key in read.sort]
    assert keys == [("acc", True), ("tag", False)]
    (single,) = parse({"sorted_name": "loss", "sorted_type": None}).sort
    assert (single.subject.name, single.descending) == ("loss", False)


def test_groups_nest() -> None:
    where = parse({"or": [{"epoch": {"ge": 2}}, {"not": {"loss": {"lt": 1}}}], "and": [{}]}).where
    assert isinstance(where, AllOf)
    any_of, all_of = where.parts
    assert isinstance(any_of, AnyOf)
    assert isinstance(any_of.parts[1], AllOf)
    assert isinstance(any_of.parts[1].parts[0], Not)
    assert all_of == AllOf((AllOf(()),))


def test_the_callers_dict_stays_as_it_was() -> None:
    condition: dict[str, Any] = {
        "summary_dir": {"in": ["/logs/a", "./b"]},
        "lineage_type": {"in": ["model"], "eq": "dataset"},
        "or": [{"epoch": {"not_in": [1, 2]}}],
        "sorted_by": [["epoch", "descending"]],
    }
    before = copy.deepcopy(condition)
    parse(condition, base_dir="/logs")
    assert condition == before


def test_a_summary_dir_may_be_spelled_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    asked = {"summary_dir": {"eq": str(tmp_path / "link" / "run")}}
    assert _values(asked, str(tmp_path / "real")) == ["./run"]


# --- which questions share their statements ---

ONE = {"epoch": {"ge": 2}, "metric/acc": {"in": [0.5, "n/a", [1], None]}, "network": {"like": "Res%"}}
OTHER = {"epoch": {"ge": 0}, "metric/acc": {"in": [-1, "", {}, None]}, "network": {"like": "x"}}


def test_conditions_that_differ_in_values_alone_have_one_shape() -> None:
    one, other = parse(ONE), parse(OTHER)
    assert one.where == other.where
    assert list(one.values.values()) == [2, 0.5, "n/a", "[1]", "res%"]
    assert list(other.values.values()) == [0, -1.0, "", "{}", "x"]
    asked = (one.where, one.sort, None), (other.where, other.sort, None)
    assert compile_ranges(*asked[0], want=Want()) is compile_ranges(*asked[1], want=Want())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"epoch": {"ge": 2}}, {"epoch": {"gt": 2}}),
        ({"epoch": {"in": [1]}}, {"epoch": {"in": [1, 2]}}),
        ({"epoch": {"in": [1]}}, {"epoch": {"in": [1, None]}}),
        ({"epoch": {"in": [1]}}, {"epoch": {"in": [1.5]}}),  # which no integer equals
        ({"loss": {"in": ["NaN"]}}, {"loss": {"in": ["Infinity"]}}),
        ({"loss": {"gt": 1}}, {"loss": {"gt": float("nan")}}),
        ({"epoch": {"is_null": True}}, {"epoch": {"is_null": False}}),
        ({"metric/a": {"gt": 1}}, {"metric/b": {"gt": 1}}),
        ({"user_defined/a": {"gt": 1}}, {"user_defined/a": {"gt": "1"}}),
        (
            {"network": {"in": [f"n{n}" for n in range(100)]}},
            {"network": {"in": [f"m{n}" for n in range(100)]}},
        ),
    ],
)
def test_what_decides_about_the_statement_is_part_of_the_shape(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert parse(one).where != parse(other).where


def test_no_parameters_name_holds_what_the_caller_wrote() -> None:
    hostile = "x)s; DROP TABLE train_job; --"
    names = parse({f"metric/{hostile}": {"eq": 1}, f"user_defined/{hostile}": {"lt": hostile}}).values
    assert list(names) == ["v1_metric", "v2_user_defined"]


def test_numbers_of_numpy_and_pandas_are_numbers() -> None:
    numpy, plain = (
        {
            "epoch": {"ge": number(2)},
            "loss": {"lt": real(0.5)},
            "user_defined/amp": {"eq": truth(True)},
            "metric/a": {"in": [number(1), "x"]},
            "summary_dir": {"in": names},
        }
        for number, real, truth, names in (
            (np.int64, np.float32, np.bool_, np.array(["./a", "./b"])),
            (int, float, bool, ["./a", "./b"]),
        )
    )
    assert parse(numpy) == parse(plain)


# --- what is refused ---

REFUSED: list[tuple[Any, list[str]]] = [
    ([], ["[]", "dict"]),
    ("model", ["'model'", "dict"]),
    ({"limit": 0}, ["limit", "0", "1 to 100"]),
    ({"limit": 101}, ["limit", "101"]),
    ({"limit": True}, ["limit", "True"]),
    ({"limit": None}, ["limit", "None"]),
    ({"limit": 1.0}, ["limit", "1.0"]),
    ({"offset": -1}, ["offset", "-1", "0 to 100000", "page"]),
    ({"offset": 100_001}, ["offset", "100001"]),
    ({"offset": "1"}, ["offset", "'1'"]),
    ({"sorted_name": None}, ["None", "tag", "metric/<name>"]),
    ({"sorted_name": "parallel_mode"}, ["'parallel_mode'", "epoch"]),
    ({"sorted_name": "metric/"}, ["'metric/'"]),
    ({"sorted_name": "user_defined/"}, ["'user_defined/'"]),
    ({"sorted_name": ["loss"]}, ["'loss'"]),
    ({"sorted_type": "ascending"}, ["sorted_type", "sorted_name"]),
    ({"sorted_name": "loss", "sorted_type": "up"}, ["sorted_type", "'up'", "descending"]),
    ({"sorted_name": "loss", "sorted_by": [["loss", None]]}, ["sorted_by", "sorted_name"]),
    ({"sorted_by": []}, ["sorted_by"]),
    ({"sorted_by": ["loss"]}, ["sorted_by", "'loss'", "pair"]),
    ({"sorted_by": [["loss", None]] * 17}, ["sorted_by", "16"]),
    ({"colour": {"eq": 1}}, ["'colour'", "train_dataset_path"]),
    ({3: {"eq": 1}}, ["3"]),
    ({None: {"eq": 1}}, ["None"]),
    ({"metric/": {"eq": 1}}, ["'metric/'"]),
    ({"user_defined/": {"eq": 1}}, ["'user_defined/'"]),
    ({"tag": {"eq": "1"}}, ["tag eq", "'1'", "int"]),
    (
        {"state": {"eq": "finishd"}},
        ["state eq", "'finishd'", "reading, live, stalled, finished or missing", "finished?"],
    ),
    ({"state": {"in": ["live", "Stalled"]}}, ["state in", "'Stalled'", "Did you mean stalled?"]),
    ({"state": {"gt": "live"}}, ["state", "gt", "eq, ne, in, not_in, like, is_null"]),
    ({"updated_at": {"gt": "yesterday"}}, ["updated_at gt", "'yesterday'", "2026-11-01", "last 7 days"]),
    ({"updated_at": {"gt": "last 7 moons"}}, ["'last 7 moons'"]),
    ({"updated_at": {"gt": "last 99999999999 weeks"}}, ["last 7 days"]),
    ({"updated_at": {"gt": True}}, ["True"]),
    ({"updated_at": {"gt": 1e18}}, ["1e+18"]),
    ({"updated_at": {"in": "last 7 days"}}, ["list"]),
    ({"updated_at": {"in": ["last 7 days"]}}, ["updated_at in", "point in time", "gt"]),
    ({"updated_at": {"eq": "2 hours ago"}}, ["updated_at eq", "'2 hours ago'", "point in time"]),
    ({"updated": {"gt": 1}}, ["'updated'", "Did you mean updated_at?"]),
    ({"metrics/a/b": {"gt": 1}}, ["'metrics/a/b'", "Did you mean metric/a/b?"]),
    ({"userdefined/team": {"eq": "x"}}, ["Did you mean user_defined/team?"]),
    ({"Optimiser": {"eq": "Adam"}}, ["'Optimiser'", "Did you mean optimizer?"]),
    ({"parallel_mode": {"eq": "x"}}, ["'parallel_mode'"]),
    ({"epoch": 3}, ["epoch", "3", "dict"]),
    ({"epoch": {"between": [1, 2]}}, ["epoch", "between", "eq, ne, lt, gt, le, ge, in, not_in, is_null"]),
    ({"epoch": {1: 2}}, ["epoch", "eq"]),
    ({"network": {"lt": "a"}}, ["network", "lt", "eq, ne, in, not_in, like, is_null"]),
    ({"summary_dir": {"ge": "./a"}}, ["summary_dir", "ge"]),
    ({"epoch": {"like": "1%"}}, ["epoch", "like"]),
    ({"network": {"eq": 3}}, ["network", "eq", "3", "str"]),
    ({"network": {"eq": None}}, ["network", "None"]),
    ({"epoch": {"eq": 1.0}}, ["epoch", "1.0", "int"]),
    ({"epoch": {"gt": True}}, ["epoch", "gt", "True"]),
    ({"epoch": {"gt": -1}}, ["epoch", "-1", "0"]),
    ({"epoch": {"gt": 2**63}}, ["epoch", "9223372036854775807"]),
    ({"epoch": {"gt": 10**5000}}, ["epoch", "very large int"]),
    ({"loss": {"lt": "1"}}, ["loss", "lt", "'1'", "float"]),
    ({"loss": {"lt": True}}, ["loss", "True"]),
    ({"loss": {"lt": 10**400}}, ["loss", "64 bits"]),
    ({"metric/acc": {"eq": "ok"}}, ["metric/acc", "'ok'"]),
    ({"metric/flag": {"gt": True}}, ["metric/flag", "True"]),
    ({"user_defined/x": {"eq": None}}, ["user_defined/x", "None"]),
    ({"user_defined/x": {"lt": [1]}}, ["user_defined/x", "[1]"]),
    ({"user_defined/x": {"in": 5}}, ["user_defined/x", "in", "5", "list"]),
    ({"epoch": {"in": {1, 2}}}, ["epoch", "in", "list"]),
    ({"epoch": {"in": "12"}}, ["epoch", "'12'"]),
    ({"epoch": {"not_in": 1}}, ["epoch", "not_in"]),
    ({"epoch": {"in": [object()]}}, ["epoch", "in", "object"]),
    ({"user_defined/x": {"in": SELF_CONTAINING}}, ["user_defined/x", "in"]),
    ({"epoch": {"in": list(range(10_001))}}, ["epoch", "in", "10000"]),
    ({"epoch": {"in": list(range(6_000))}, "batch_size": {"in": list(range(6_000))}}, ["10000 values"]),
    ({"network": {"like": "a\\"}}, ["network", "like", "backslash"]),
    ({"network": {"like": 5}}, ["network", "like", "5"]),
    ({"network": {"like": "a" * 1_001}}, ["network", "like", "1000"]),
    ({"epoch": {"is_null": 1}}, ["epoch", "is_null", "1", "True or False"]),
    ({"summary_dir": {"eq": "/elsewhere/run"}}, ["summary_dir", "/elsewhere/run", "/logs"]),
    ({"summary_dir": {"in": ["/logs/../run"]}}, ["summary_dir", "/logs/../run"]),
    ({"summary_dir": {"in": ["/elsewhere/\0", "\ud800"]}}, ["summary_dir", "elsewhere"]),
    ({"lineage_type": "both"}, ["lineage_type", "'both'", "model"]),
    ({"lineage_type": {"eq": "both"}}, ["lineage_type", "both"]),
    ({"lineage_type": {"in": []}}, ["lineage_type in", "[]"]),
    ({"lineage_type": {"in": [["model"]]}}, ["lineage_type"]),
    ({"lineage_type": {"not_in": ["model"]}}, ["lineage_type not_in"]),
    ({"lineage_type": 7}, ["lineage_type", "7"]),
    ({"or": {}}, ["or", "list"]),
    ({"or": []}, ["or", "at least one"]),
    ({"and": [3]}, ["3", "dict"]),
    ({"not": [{}]}, ["[{}]", "dict"]),
    ({"or": [{"limit": 3}]}, ["limit", "top"]),
    ({"not": {"sorted_name": "loss"}}, ["sorted_name", "top"]),
    ({"or": [{"epoch": {"ge": 1}}] * 301}, ["300"]),
    (CYCLE, ["16"]),
]


@pytest.mark.parametrize(("condition", "mentions"), REFUSED, ids=range(len(REFUSED)))
def test_a_refusal_says_where_and_what_is_allowed(condition: Any, mentions: list[str]) -> None:
    with pytest.raises(LineageSearchConditionParamError) as refusal:
        parse(condition, base_dir="/logs")
    for mention in mentions:
        assert mention in str(refusal.value)
    assert len(str(refusal.value)) < 600


def test_an_absolute_summary_dir_needs_one_base_dir() -> None:
    with pytest.raises(LineageSearchConditionParamError, match="no single base dir"):
        parse({"summary_dir": {"eq": "/logs/run"}})


def test_groups_are_refused_when_nested_too_deep() -> None:
    condition: dict[str, Any] = {"epoch": {"ge": 1}}
    for _ in range(16):
        condition = {"not": condition}
    parse(condition)
    with pytest.raises(LineageSearchConditionParamError, match="16 deep"):
        parse({"not": condition})
