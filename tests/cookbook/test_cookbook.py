"""Every query of docs/cookbook.md, on both databases, with its whole answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine

from helpers.cookbook import QUERIES
from lineage_store.store.database.engine import reading

BASE_DIR = "/logs/summary_base"

ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "1": [("LeNet5", 0.875, 6, "./lenet-b"), ("ResNet50", 0.25, 4, "./resnet-a")],
    "2": [("Momentum", 0.01, 2, 0.8125, 0.875), ("Momentum", 0.1, 1, 0.5, 0.5)],
    "3": [("./lenet-c", 3)],
    "4": [("./lenet-c", "fc1.weight/auto", 2, 3), ("./lenet-c", "fc2.weight/auto", 2, 1)],
    "5": [("./resnet-a", 1, 0.25, 1.5), ("./resnet-a", 0, 1.25, 0.0)],
    "6": [("./lenet-b", 1, 2, 0.5)],
    "7": [(1, "2025-09-03T00:01:40.000000Z", 0.5), (2, "2025-09-03T00:03:20.000000Z", 0.75)],
    "8": [("111111111111", "./lenet-a"), ("111111111111", "./lenet-b")],
    "8b": [
        ("111111111111", "222222222222", "Resize", "Resize"),
        ("333333333333", "444444444444", "Rescale", None),
    ],
    "9": [
        ("./lenet-c", "test", "2025-08-20T00:00:00.000000Z"),
        ("./lenet-c", "train", "2025-08-20T00:00:00.000000Z"),
        ("./lenet-a", "train", "2025-09-03T00:00:00.000000Z"),
        ("./lenet-b", "train", "2025-09-10T00:00:00.000000Z"),
    ],
    "10": [("LeNet5", 1 / 450, 1 / 900), ("ResNet50", None, 0.375)],
    "11": [("./resnet-b", "cleo", "host", "2025-09-10T00:00:04.000000Z")],
    "12": [("nlp", "2025-03", 12 / 3600), ("nlp", "2025-09", 4 / 3600), ("vision", "2025-09", 2.5)],
    "13": [("LeNet5", "Momentum", 0.01, 10, 32, 2, 0.75, 0.875, 0.125)],
    "14": [
        ("./lenet-a", 3, 1350.0),
        ("./lenet-b", 5, 6300.0),
        ("./lenet-c", None, None),
        ("./resnet-a", None, None),
        ("./resnet-b", None, None),
        ("./resnet-c", None, None),
        ("./resnet-d", None, None),
    ],
    "15": [(BASE_DIR, "./resnet-a", 3000, 300)],
}


def test_every_query_has_an_answer() -> None:
    assert list(QUERIES) == list(ANSWERS)


@pytest.mark.parametrize("question", ANSWERS)
def test_query_gives_the_known_answer(question: str, filled: Engine) -> None:
    with reading(filled) as connection:
        rows = [tuple(map(_plain, row)) for row in connection.exec_driver_sql(QUERIES[question])]
    assert rows == [
        tuple(pytest.approx(value) if isinstance(value, float) else value for value in row)
        for row in ANSWERS[question]
    ]


def _plain(value: Any) -> Any:
    """A point in time as SQLite gives it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value
