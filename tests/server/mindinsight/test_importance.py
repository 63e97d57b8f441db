"""Which hyper-parameters matter."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lineage_store.fields import LISTED
from lineage_store.server.mindinsight.lineages import FEW_SAMPLES, UNDEFINED, analysed

FIELDS: dict[str, Any] = {field.name: None for field in LISTED}


def job(
    number: int, *, metric: dict[str, Any], user: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    model = {**FIELDS, **fields, "metric": metric, "user_defined": user or {}}
    return {"summary_dir": f"./{number}", "model_lineage": model}


def test_importance_is_the_magnitude_of_the_correlation() -> None:
    rates, accuracies = (0.01, 0.001, 0.02, 0.04, 0.05), (0.8, 0.9, 0.8, 0.7, 0.6)
    pairs = enumerate(zip(rates, accuracies, strict=True))
    found = analysed([job(n, learning_rate=rate, metric={"acc": acc}) for n, (rate, acc) in pairs])
    (target,) = found["targets"]
    assert target["hyper_parameters"] == [
        {"name": "learning_rate", "importance": pytest.approx(0.97141435, abs=1e-7)}
    ]
    assert target["buckets"][3] == pytest.approx([0.78, 0.06, 2])
    assert found["metadata"]["train_ids"] == [f"./{number}" for number in range(5)]


def test_what_cannot_be_told_has_a_reason() -> None:
    jobs = [job(n, epoch=3, batch_size=None if n > 1 else 16, metric={"acc": n}) for n in range(4)]
    (target,) = analysed(jobs)["targets"]
    assert target["hyper_parameters"] == [
        {"name": "batch_size", "importance": 0, "reason_code": FEW_SAMPLES},
        {"name": "epoch", "importance": 0, "reason_code": UNDEFINED},
    ]


def test_of_jobs_whose_training_is_not_asked_for_nothing_is_told() -> None:
    assert analysed([{"summary_dir": "./1", "dataset_graph": {}}]) == {
        "metadata": {"train_ids": ["./1"], "possible_hyper_parameters": [], "unrecognized_params": []},
        "targets": [],
    }


def test_values_that_are_no_numbers_are_not_considered() -> None:
    user = {"team": "vision", "depth": 3, "flag": True}
    found = analysed([job(1, metric={"note": "good", "acc": "NaN"}, user=user), job(2, metric={})])
    assert [each["name"] for each in found["targets"]] == ["[M]acc"]
    assert found["metadata"]["possible_hyper_parameters"] == [{"name": "[U]depth", "data": [3.0, None]}]
    assert [each["name"] for each in found["metadata"]["unrecognized_params"]] == ["[U]team", "[U]flag"]


@pytest.mark.parametrize(
    "values",
    [
        [2**60, None],
        [2**60, 2**60 + 256],
        [10**400, 1],
        [10**400, None],
        [1.7e308, -1.7e308],
        [1e300, -1e300],
        [0.9, math.fsum([0.1] * 9) - 2e-16],
        [5e-324, 0.0],
    ],
)
def test_numbers_however_large_or_near_have_buckets(values: list[Any]) -> None:
    jobs = [job(number, metric={"seen": value}, epoch=number) for number, value in enumerate(values)]
    (target,) = analysed(jobs)["targets"]
    told = [value for value in target["data"] if value is not None]
    assert sum(count for _, _, count in target["buckets"]) == len(told)
    assert all(math.isfinite(left) and 0 < width < math.inf for left, width, _ in target["buckets"])
    assert told == [value for value in values if value is not None and abs(value) <= 1e300]


def test_no_jobs_give_nothing() -> None:
    assert analysed([]) == {
        "metadata": {"train_ids": [], "possible_hyper_parameters": [], "unrecognized_params": []},
        "targets": [],
    }
