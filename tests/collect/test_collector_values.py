"""User-defined values, and what happens to work that fails."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from lineage_store.collect.lost_values import Failures
from lineage_store.collect.user_values import (
    HYPER_CONFIG,
    checked_user_info,
    checked_values,
    from_environment,
    recordable,
)
from lineage_store.errors import LineageLogError, LineageParamTypeError, LineageParamValueError


@pytest.mark.parametrize("values", [[], "a", {1: "a"}, {"a": None}, {"a": [b"x"]}, {"a": b"x"}])
def test_values_of_other_types_are_type_errors(values: Any) -> None:
    with pytest.raises(TypeError, match="custom_lineage_data"):
        checked_values("custom_lineage_data", values)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_an_int_beyond_32_bits_is_refused_before_the_training(value: int) -> None:
    with pytest.raises(ValueError, match="32 bits"):
        checked_values("custom_lineage_data", {"seed": value})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float16(0.5), 0.5),
        (np.float32(0.25), 0.25),
        (np.float64(0.1), 0.1),
        (np.longdouble(0.5), 0.5),
        (np.int8(-3), -3),
        (np.int64(7), 7),
        (np.uint64(2**31 - 1), 2**31 - 1),
        (np.str_("vision"), "vision"),
        (True, 1),
        (np.bool_(False), 0),
        ([0.9, np.float32(0.5), np.arange(2)], "[0.9, 0.5, [0, 1]]"),
        (("a", None, True), '["a", null, true]'),
        (np.array([1.5, 2.5]), "[1.5, 2.5]"),
    ],
)
def test_bools_lists_and_scalars_of_numpy_are_taken_as_what_the_format_has(
    value: Any, expected: str | float
) -> None:
    (taken,) = checked_values("custom_lineage_data", {"it": value}).values()
    assert (taken, type(taken)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (np.complex64(1), "numpy.complex64"),
        (np.datetime64("2026-11-22"), "numpy.datetime64"),
        (np.timedelta64(3, "s"), "numpy.timedelta64"),
        (np.array([1j]), "numpy.ndarray"),
        (Decimal("0.5"), "decimal.Decimal"),
        (b"x", "bytes"),
        (None, "NoneType"),
    ],
)
def test_a_value_that_is_refused_is_said_with_its_key_and_its_type(value: Any, type_: str) -> None:
    with pytest.raises(LineageParamTypeError) as refused:
        checked_values("custom_lineage_data", {"good": 1, "dropout": value})
    told = (
        f"custom_lineage_data: the value {value!r} of 'dropout' must be a str, bool, int, float or a list of these, "
        f"not {type_}."
    )
    assert str(refused.value) == told


def test_an_integer_of_numpy_beyond_32_bits_is_refused() -> None:
    with pytest.raises(ValueError, match=r"4294967296 of 'seed' does not fit into 32 bits"):
        checked_values("custom_lineage_data", {"seed": np.int64(2**32)})


@pytest.mark.parametrize("values", [{"owner": "\ud800"}, {"\udcfe": 1}])
def test_text_that_the_format_cannot_hold_costs_itself_alone(
    values: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert checked_values("custom_lineage_data", {**values, "trial": 7}) == {"trial": 7}
    (message,) = [each.getMessage() for each in caplog.records]
    assert message.endswith("has characters that UTF-8 has not. It is not recorded.")


def test_a_dict_is_flattened() -> None:
    given = {"lr": {"initial": 0.1, "drops": {10: 0.01}}, "empty": {}, "a/b": 1}
    assert checked_values("custom_lineage_data", given) == {"lr/initial": 0.1, "lr/drops/10": 0.01, "a/b": 1}


def test_a_dict_or_list_that_holds_itself_costs_itself_alone(caplog: pytest.LogCaptureFixture) -> None:
    endless: dict[str, Any] = {"good": 1}
    endless["itself"] = endless
    circle: list[Any] = []
    circle.append(circle)
    taken = recordable("params", {"endless": endless, "circle": circle, "key": 2})
    assert (taken["endless/good"], taken["key"], "circle" in taken) == (1, 2, False)
    assert len(caplog.records) == 2


class Unspeakable:
    def __str__(self) -> str:
        raise OSError("gone")

    __repr__ = __str__


@pytest.mark.parametrize("key", [10**5000, Unspeakable()], ids=["vast", "unspeakable"])
def test_a_key_that_cannot_be_written_costs_itself_alone(key: object) -> None:
    assert recordable("params", {"a": {key: 1, "b": 2}, key: {"c": 3}, "d": 4}) == {"a/b": 2, "d": 4}
    with pytest.raises(LineageParamTypeError, match="must be a str"):
        checked_values("params", {"a": {key: 1}})


def test_values_are_copied() -> None:
    given = {"a": 2**31 - 1, "b": -(2**31), "c": "x", "d": 0.5}
    values = checked_values("custom_lineage_data", given)
    assert values == given
    given["a"] = 0
    assert values["a"] == 2**31 - 1
    assert checked_values("custom_lineage_data", None) == {}


@pytest.mark.parametrize("key", ["network", "learning_rate", "dataset_mark"])
def test_user_info_must_not_take_the_name_of_a_lineage_field(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        checked_user_info(key, "mine")


def test_user_info_may_have_the_name_of_what_the_store_knows_beside_lineage() -> None:
    assert [checked_user_info(name, "mine")[0] for name in ("host", "state", "tag")] == [
        "host",
        "state",
        "tag",
    ]


def test_the_environment_gives_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HYPER_CONFIG, raising=False)
    assert from_environment() == {}
    monkeypatch.setenv(HYPER_CONFIG, json.dumps({"custom_lineage_data": {"lr": 0.5}, "other": 1}))
    assert from_environment() == {"lr": 0.5}


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "7", '{"a": 1}', '{"custom_lineage_data": null}', " " * 100_001),
        *("[" * 50_000, '{"a":' * 10_000),
    ],
)
def test_an_environment_that_cannot_be_read_is_ignored(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HYPER_CONFIG, text)
    assert from_environment() == {}


def test_a_failure_is_said_once_and_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise KeyError("net_outputs")

    failures = Failures("SummaryCollector")
    assert failures.guard("the loss", fail) is None
    assert failures.guard("the loss", fail) is None
    assert failures.guard("the graph", lambda: 7) == 7
    assert len(calls) == 1
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["SummaryCollector does not record the loss: KeyError: 'net_outputs'"]


def test_a_failure_is_raised_as_one_of_ours_when_asked_for() -> None:
    failures = Failures("TrainLineage", raising=True)

    def refuse() -> None:
        raise LineageParamValueError("no.")

    with pytest.raises(LineageParamValueError):
        failures.guard("the loss", refuse)
    with pytest.raises(LineageLogError, match="TrainLineage cannot record the loss: ZeroDivisionError"):
        failures.guard("the loss", lambda: 1 / 0)


def test_what_asks_the_process_to_stop_is_not_caught() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Failures("SummaryCollector").guard("the loss", interrupt)
