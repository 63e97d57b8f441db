"""The shapes of answers, and which jobs they contain."""

from __future__ import annotations

import math
from typing import Any

import pytest

from helpers.answers import filter_lineage, get_lineage
from helpers.stored_jobs import StoredJob, add_bare_job, add_base_dir, add_job
from lineage_store.query.condition_dict import parse
from lineage_store.store.database.sql import Session

GRAPH = {"op_type": "Batch", "batch_size": 32, "children": []}


def _ids(session: Session, condition: dict[str, Any], base_dir_ids: list[int] | None = None) -> list[str]:
    """The jobs of the answer, which are the same whether all that match are counted or not."""
    counted, uncounted = (
        filter_lineage(session, parse(condition), base_dir_ids, count=count)["object"]
        for count in (True, False)
    )
    assert counted == uncounted
    return [item["summary_dir"] for item in counted]


def test_an_object_shows_what_lineage_type_asks_for(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    add_job(session, StoredJob("./a", metrics={"acc": 0.5}, graph=GRAPH, label=3), base_dir_id)
    for wanted, keys in (
        ("model", ["summary_dir", "model_lineage", "added_info"]),
        ("dataset", ["summary_dir", "dataset_graph", "added_info"]),
        (None, ["summary_dir", "model_lineage", "dataset_graph", "added_info"]),
    ):
        answer = filter_lineage(session, parse({"lineage_type": wanted}), [base_dir_id])
        (item,) = answer["object"]
        assert list(answer) == ["customized", "object", "count"]
        assert list(item) == keys
        assert item.get("dataset_graph", GRAPH) == GRAPH
        assert item["added_info"] == {"tag": 3}
        assert list(answer["customized"]) == ["metric/acc"]


def test_added_info_has_only_what_was_set(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    add_job(session, StoredJob("./a", label=0), base_dir_id)
    add_job(session, StoredJob("./b", remark="best"), base_dir_id)
    add_job(session, StoredJob("./c"), base_dir_id)
    answer = filter_lineage(session, parse({"sorted_name": "summary_dir"}), None)
    assert [item["added_info"] for item in answer["object"]] == [{"tag": 0}, {"remark": "best"}, {}]
    assert [item["dataset_graph"] for item in answer["object"]] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1, 2], "int"),
        ([1, 2.5], "float"),
        ([0.5, math.nan], "float"),
        ([1, True], "mixed"),
        ([1, "x"], "mixed"),
        ([0.5, None], "mixed"),
        ([None, None], "NoneType"),
        (["a"], "str"),
        ([True], "bool"),
        ([[1]], "list"),
    ],
)
def test_customized_names_the_type_that_fits_the_page(
    session: Session, values: list[Any], shown: str
) -> None:
    base_dir_id = add_base_dir(session)
    for number, value in enumerate(values):
        add_job(session, StoredJob(f"./{number}", user={"x": value}), base_dir_id)
    customized = filter_lineage(session, parse({}), None)["customized"]
    assert customized == {"user_defined/x": {"label": "user_defined/x", "required": False, "type": shown}}


def test_a_page_behind_the_end_is_empty_but_counts(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    for number in range(5):
        add_job(session, StoredJob(f"./{number}", metrics={"m": number}, update_time=number), base_dir_id)
    assert filter_lineage(session, parse({"limit": 2, "offset": 7}), None) == {
        "customized": {},
        "object": [],
        "count": 5,
    }
    assert _ids(session, {"limit": 2, "offset": 1}) == ["./2", "./1"]
    uncounted = [
        filter_lineage(session, parse({"limit": 2, "offset": page}), None, count=False)["count"]
        for page in range(4)
    ]
    assert uncounted == [None, None, 5, None]  # the last page tells


def test_ties_keep_newest_first_then_id_in_both_directions(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    for train_id, time in (("./b", 1), ("./a", 1), ("./c", 2)):
        add_job(session, StoredJob(train_id, {"epoch": 1}, update_time=time), base_dir_id)
    for direction in ("ascending", "descending"):
        assert _ids(session, {"sorted_name": "epoch", "sorted_type": direction}) == ["./c", "./a", "./b"]


def test_only_jobs_with_lineage_of_the_asked_base_dirs_are_listed(session: Session) -> None:
    first, second = add_base_dir(session), add_base_dir(session, "/other")
    add_job(session, StoredJob("./x", label=1), first)
    add_job(session, StoredJob("./x"), second)
    add_bare_job(session, "./no_lineage", first)
    assert _ids(session, {}, []) == []
    assert _ids(session, {}, [first]) == ["./x"]
    answer = filter_lineage(session, parse({}), None)
    assert [(item["summary_dir"], item["base_dir"], item["added_info"]) for item in answer["object"]] == [
        ("./x", "/logs", {"tag": 1}),
        ("./x", "/other", {}),
    ]
    assert "base_dir" not in filter_lineage(session, parse({}), [first])["object"][0]


def test_names_come_back_as_they_were(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    odd = "./run \\x41 \udcff"
    job_id = add_job(session, StoredJob(odd, metrics={"n\0": 1}), base_dir_id)
    assert _ids(session, {"summary_dir": {"eq": odd}, "metric/n\0": {"eq": 1}}) == [odd]
    assert get_lineage(session, job_id, f"/logs/{odd}")["metric"] == {"n\0": 1}


def test_an_integer_beyond_any_float_equals_only_itself(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    add_job(session, StoredJob("./big", metrics={"n": 10**400}), base_dir_id)
    add_job(session, StoredJob("./infinite", metrics={"n": math.inf}), base_dir_id)
    assert _ids(session, {"metric/n": {"in": [10**400]}}) == ["./big"]
    assert _ids(session, {"metric/n": {"in": [10**400 + 1]}}) == []


@pytest.mark.parametrize(
    ("comparisons", "matches"),
    [
        ({"in": [2.0]}, True),
        ({"in": [2.5]}, False),
        ({"in": ["2", None, 2**70, -math.inf, math.nan, [2]]}, False),
        ({"not_in": [2.5, True]}, True),
        ({"gt": 1, "le": 2}, True),
        ({"ne": 2}, False),
    ],
)
def test_an_integer_field_equals_only_the_same_whole_number(
    session: Session, comparisons: dict[str, Any], matches: bool
) -> None:
    base_dir_id = add_base_dir(session)
    add_job(session, StoredJob("./two", {"epoch": 2}), base_dir_id)
    assert _ids(session, {"epoch": comparisons}) == (["./two"] if matches else [])


def test_true_is_one_and_text_is_no_number(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    for name, value in (("bool", True), ("int", 1), ("text", "1"), ("null", None), ("list", [1.0])):
        add_job(session, StoredJob(f"./{name}", user={"x": value}), base_dir_id)
    add_job(session, StoredJob("./absent"), base_dir_id)
    assert _ids(session, {"user_defined/x": {"eq": True}}) == ["./bool", "./int"]
    assert _ids(session, {"user_defined/x": {"in": [1.0]}}) == ["./bool", "./int"]
    assert _ids(session, {"user_defined/x": {"ge": "0"}}) == ["./text"]
    assert _ids(session, {"user_defined/x": {"in": [[True], None]}}) == ["./absent", "./list", "./null"]
    assert _ids(session, {"user_defined/x": {"is_null": True}}) == ["./absent", "./null"]
    order = _ids(session, {"sorted_name": "user_defined/x", "sorted_type": "descending"})
    assert order == ["./list", "./text", "./bool", "./int", "./absent", "./null"]


def test_diverged_is_not_unknown(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    for name, value in (("nan", math.nan), ("finite", 1.5), ("inf", math.inf), ("absent", None)):
        add_job(session, StoredJob(f"./{name}", {"loss": value}), base_dir_id)
    assert _ids(session, {"loss": {"in": ["NaN"]}}) == ["./nan"]
    assert _ids(session, {"loss": {"in": ["Infinity", math.nan]}}) == ["./inf", "./nan"]
    assert _ids(session, {"loss": {"gt": 1.0}}) == ["./finite", "./inf"]
    assert _ids(session, {"loss": {"is_null": False}}) == ["./finite", "./inf", "./nan"]
    assert _ids(session, {"not": {"loss": {"gt": 1.0}}}) == ["./absent", "./nan"]
    assert _ids(session, {"sorted_name": "loss"}) == ["./absent", "./nan", "./finite", "./inf"]


def test_the_largest_conditions_run(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    add_job(session, StoredJob("./a", {"epoch": 9_999, "network": "LeNet5"}, {"acc": 0.5}), base_dir_id)
    assert _ids(session, {"epoch": {"in": list(range(10_000))}}) == ["./a"]
    assert _ids(session, {"metric/acc": {"in": [*range(9_998), "x", 0.5]}}) == ["./a"]
    assert _ids(
        session, {"user_defined/x": {"not_in": ["\U0001f600" * 50 + str(n) for n in range(10_000)]}}
    ) == ["./a"]
    assert _ids(session, {"or": [{"epoch": {"lt": n}} for n in range(149)]}) == []
    assert _ids(session, {f"metric/{n}": {"is_null": True} for n in range(299)}) == ["./a"]
    nested: dict[str, Any] = {f"user_defined/{n}": {"ne": n} for n in range(250)}
    for _ in range(16):
        nested = {"not": nested}
    assert _ids(session, nested) == ["./a"]
    assert _ids(session, {"sorted_by": [[f"metric/{n}", "descending"] for n in range(16)]}) == ["./a"]
    assert _ids(session, {"network": {"like": "%e" * 500}}) == []


def test_a_base_dir_without_jobs_does_not_change_the_shape_of_answers(session: Session) -> None:
    add_job(session, StoredJob("./a"), add_base_dir(session, "/one"))
    before = filter_lineage(session, parse({}), None)
    add_base_dir(session, "/two")
    assert filter_lineage(session, parse({}), None) == before
    assert "base_dir" not in before["object"][0]


def test_a_label_is_compared_with_numbers_of_any_size(session: Session) -> None:
    base_dir_id = add_base_dir(session)
    add_job(session, StoredJob("./a", label=3), base_dir_id)
    add_job(session, StoredJob("./b"), base_dir_id)
    assert _ids(session, {"tag": {"lt": 2**31}}) == ["./a"]
    for operator in ("eq", "gt"):
        assert _ids(session, {"tag": {operator: 2**31}}) == []
