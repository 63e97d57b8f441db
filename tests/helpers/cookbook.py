"""The queries of docs/cookbook.md as they are there, and their answers in the store of tests/cookbook."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

_COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"


def _queries() -> dict[str, str]:
    """Return the SQL of the cookbook by question number; the second query of a question has a `b`."""
    queries: dict[str, str] = {}
    for number, section in re.findall(
        r"^## (\d+)\. (.*?)(?=^## |\Z)", _COOKBOOK.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        blocks = re.findall(r"^```sql\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        queries |= {
            number + suffix: block.strip().rstrip(";")
            for block, suffix in zip(blocks, ("", "b"), strict=False)
        }
    return queries


QUERIES = _queries()

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
    "16": [
        ("histogram", "conv1.weight/auto", 1, 2, None, None),
        ("histogram", "fc1.weight/auto", 1, 2, None, None),
        ("histogram", "fc2.weight/auto", 1, 2, None, None),
        ("image", "input", 1, 1, None, None),
        ("scalar", "accuracy", 4, 6, 0.25, 0.99),
        ("scalar", "loss/auto", 9, 29, 0.04, 2.0),
    ],
    "17": [
        ("./resnet-b", 1, "2025-09-10T00:00:02.000000Z", 1.0),
        ("./resnet-b", 2, "2025-09-10T00:00:04.000000Z", 0.9),
        ("./resnet-c", 1, "2025-09-10T00:00:04.000000Z", 1.0),
        ("./resnet-c", 2, "2025-09-10T00:00:08.000000Z", 0.9),
        ("./lenet-b", 1, "2025-09-10T00:15:00.000000Z", 1.0),
        ("./lenet-b", 2, "2025-09-10T00:30:00.000000Z", 0.8),
        ("./lenet-b", 3, "2025-09-10T00:45:00.000000Z", 0.05),
        ("./lenet-b", 4, "2025-09-10T01:00:00.000000Z", None),
        ("./lenet-b", 3, "2025-09-10T01:15:00.000000Z", 0.5),
        ("./lenet-b", 4, "2025-09-10T01:30:00.000000Z", 0.3),
        ("./lenet-b", 5, "2025-09-10T01:45:00.000000Z", 0.08),
        ("./lenet-b", 6, "2025-09-10T02:00:00.000000Z", 0.04),
    ],
    "18": [
        ("./lenet-b", "loss/auto", 6, "2025-09-10T02:00:00.000000Z", 0.04),
        ("./lenet-b", "loss/auto", 5, "2025-09-10T01:45:00.000000Z", 0.08),
        ("./lenet-b", "accuracy", 6, "2025-09-10T01:30:00.000000Z", 0.875),
        ("./lenet-b", "loss/auto", 4, "2025-09-10T01:30:00.000000Z", 0.3),
        ("./lenet-b", "accuracy", 4, "2025-09-10T01:15:00.000000Z", 0.7),
    ],
}


def plain(value: Any) -> Any:
    """Return a value in SQLite's form: a point in time as text, a sum as a number."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return float(value) if isinstance(value, Decimal) else value


def approximately(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return rows to compare with others, in which floats may differ as sums and means do."""
    return [
        tuple(pytest.approx(value) if isinstance(value, float) else value for value in row) for row in rows
    ]
