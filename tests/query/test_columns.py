"""Jobs as columns agree with jobs as objects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.log_writer import Log
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.errors import (
    LineageParamTypeError,
    LineageParamValueError,
    LineageSearchConditionParamError,
)
from lineage_store.fields import BY_NAME, LISTED

ODD = "a \\x41 \\ 'quoted' <b> ü"
NAMES = [
    *(field.name for field in LISTED),
    *("metric/accuracy", "metric/odd", "user_defined/owner", "user_defined/tried", "user_defined/of"),
]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two base dirs, of jobs with every kind of value, some missing."""
    parent = tmp_path_factory.mktemp("columns")
    odd = (None, math.nan, -math.inf, True, "word", 7)
    for number in range(6):
        log = Log().train(
            network=ODD if number == 1 else "LeNet5",
            learning_rate=(0.1, math.nan, math.inf, -math.inf, 0.0, 1e-300)[number],
            epoch=number,
            train_dataset_path="/data" * number,
        )
        if number:
            log.evaluation({"accuracy": number / 10, "odd": odd[number]})
        log.user_info(owner=f"o{number % 2}", tried=ODD).write_lineage(
            parent / f"base_{number % 2}" / f"run_{number}"
        )
    Log().train().write_lineage(parent / "base_0" / "bare")
    Log().version().scalar(1, "loss", 1.0).write_summary(parent / "base_0" / "only_curves")
    return parent


@pytest.fixture(scope="module")
def store(module_database_url: str, parent: Path) -> Iterator[LineageStore]:
    """A store of both."""
    with LineageStore(module_database_url, settings=Settings()) as store:
        for base in ("base_0", "base_1"):
            store.ingest(parent / base)
        store.job((parent / "base_0", "./run_2")).annotate(label=3, remark="good")
        yield store


def same(value: Any, other: Any) -> bool:
    return bool(value == other or (value != value and other != other))


def expected(each: dict[str, Any], name: str) -> Any:
    kind, _, rest = name.partition("/")
    lineage = each["model_lineage"]
    if rest:
        return lineage[kind].get(rest)
    value = lineage[name]
    return float(value) if BY_NAME[name].type == "float" and value is not None else value  # objects spell NaN


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {"epoch": {"ge": 2}, "user_defined/owner": {"eq": "o1"}},
        {"sorted_by": [["metric/accuracy", "descending"], ["epoch", "ascending"]]},
        {"network": {"eq": "nobody's"}},
    ],
)
def test_columns_tell_what_objects_tell(store: LineageStore, condition: dict[str, Any]) -> None:
    objects = list(store.lineage.iterate(condition))
    found = store.lineage.columns(condition, NAMES)
    assert found.train_id == [each["summary_dir"] for each in objects]
    assert found.base_dir == [each["base_dir"] for each in objects]
    assert found.label == [each["added_info"].get("tag") for each in objects]
    assert found.remark == [each["added_info"].get("remark") for each in objects]
    assert list(found.values) == NAMES
    for name, values in found.values.items():
        wanted = [expected(each, name) for each in objects]
        assert all(map(same, values, wanted)), (name, values, wanted)
    jobs = {(job.base_dir, job.train_id): job for job in store.lineage.jobs()}
    known = [jobs[each] for each in zip(found.base_dir, found.train_id, strict=True)]
    assert found.state == [job.state for job in known]
    assert found.updated_at == [job.updated_at for job in known]


def test_one_base_dir_and_no_more_than_asked_for(store: LineageStore, parent: Path) -> None:
    found = store.lineage.columns({}, ["epoch"], base_dir=parent / "base_1")
    assert sorted(found.values["epoch"]) == [1, 3, 5]
    few = store.lineage.columns({"sorted_by": [["epoch", "descending"]]}, ["epoch"], most=2)
    assert few.values["epoch"] == [5, 4]


def test_jobs_without_lineage_are_among_all_and_everything_of_them_is_missing(
    store: LineageStore,
) -> None:
    assert "./only_curves" not in store.lineage.columns({}, ["epoch"]).train_id
    every = store.lineage.columns({}, NAMES, every=True)
    assert every.train_id == [job.train_id for job in store.lineage.jobs()]
    row = every.train_id.index("./only_curves")
    assert {name: values[row] for name, values in every.values.items()} == dict.fromkeys(NAMES)
    named = {"summary_dir": {"in": ["./only_curves", "./run_3"]}}
    assert sorted(store.lineage.columns(named, every=True).train_id) == ["./only_curves", "./run_3"]
    assert "./only_curves" in store.lineage.columns({"epoch": {"is_null": True}}, every=True).train_id
    assert "./only_curves" not in store.lineage.columns({"epoch": {"ge": 0}}, every=True).train_id


def test_a_store_without_jobs_has_empty_columns(sqlite_url: str) -> None:
    with LineageStore(sqlite_url, settings=Settings()) as store:
        found = store.lineage.columns({}, ["network", "loss", "metric/accuracy"])
    assert (found.train_id, found.values) == ([], {"network": [], "loss": [], "metric/accuracy": []})


@pytest.mark.parametrize("most", [-1, 0, 2**70])
def test_a_count_out_of_bounds_is_refused(store: LineageStore, most: int) -> None:
    with pytest.raises(LineageParamValueError, match=r"most = .* must be from 1 to"):
        store.lineage.columns(most=most)


@pytest.mark.parametrize("most", ["5", True, 1.5])
def test_a_count_that_is_no_number_is_refused(store: LineageStore, most: Any) -> None:
    with pytest.raises(LineageParamTypeError, match=r"most = .* must be a whole number from 1"):
        store.lineage.columns(most=most)


@pytest.mark.parametrize("most", [None, 2**40])
def test_all_jobs_may_be_asked_for(store: LineageStore, most: int | None) -> None:
    assert store.lineage.columns(most=most).train_id == store.lineage.columns().train_id


def test_what_is_no_field_is_refused(store: LineageStore) -> None:
    with pytest.raises(LineageSearchConditionParamError, match="networ"):
        store.lineage.columns({}, ["networ"])
