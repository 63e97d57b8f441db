"""Points in time in conditions: every spelling, and the jobs that it finds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from lineage_store.query.condition_dict import parse

NOVEMBER = 1_793_491_200
"""2026-11-01T00:00:00Z, unix s."""


def _read(operator: str, value: object) -> Any:
    (read,) = parse({"updated_at": {operator: value}}).values.values()
    return read


@pytest.mark.parametrize(
    "value",
    [
        NOVEMBER,
        float(NOVEMBER),
        "2026-11-01",
        "20261101",
        " 2026-11-01 00:00 ",
        "2026-11-01T00:00:00Z",
        "2026-11-01T02:00:00+02:00",
        datetime(2026, 11, 1),  # noqa: DTZ001 - without a zone it is UTC
        datetime(2026, 11, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_moment_is_the_same_in_every_spelling(value: object) -> None:
    assert {_read(operator, value) for operator in ("eq", "lt", "gt", "le", "ge")} == {NOVEMBER}
    assert _read("in", [value]) == NOVEMBER


def test_whole_seconds_compare_as_with_the_moment_between_them() -> None:
    half = NOVEMBER + 0.5
    assert (_read("gt", half), _read("le", half)) == (NOVEMBER, NOVEMBER)
    assert (_read("ge", half), _read("lt", half)) == (NOVEMBER + 1, NOVEMBER + 1)
    assert parse({"updated_at": {"eq": half}}).values == {}  # no whole second equals it


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [
        ("last 7 days", 7 * 86_400),
        ("the last 2 weeks", 14 * 86_400),
        ("Last hour", 3600),
        ("36 hours ago", 36 * 3600),
        ("1 minute ago", 60),
        ("last 90 seconds", 90),
    ],
)
def test_a_length_of_time_is_counted_back_from_now(text: str, ago_s: float) -> None:
    before = datetime.now(UTC).timestamp()
    read = _read("gt", text)
    assert before - ago_s - 1 <= read <= datetime.now(UTC).timestamp() - ago_s
