"""Values as they are printed for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_store.cli.tables import cell_text
from lineage_store.plain_values import for_csv, for_json, instant, rows_for_csv
from lineage_store.texts import escaped

ANY = [
    *(
        None,
        True,
        7,
        -(2**70),
        10**400,
        0.1,
        -0.0,
        1e300,
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("0.10"),
    ),
    *("", "plain", "=1+1", "-", "a\nb", "\n=", "a\n=b", "\0", "\\x41", 'quo"te,', "损失", "\udcff"),
    *(datetime(2026, 1, 2, 3, 4, 5, 600, UTC), b"\xff", [1, None]),
]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("line\nbreak\ttab\r", "line\\x0abreak\\x09tab\\x0d"),
        ("c1 \x9b31m", "c1 \\x9b31m"),
        ("right\u202eto left\u2066", "right\\u202eto left\\u2066"),
        ("not utf-8 \udcff", "not utf-8 \\xff"),
        ("损失 é plain", "损失 é plain"),
    ],
)
def test_what_could_steer_a_terminal_is_spelled_out(text: str, safe: str) -> None:
    assert escaped(text) == safe
    assert cell_text(text) == safe


def test_messages_keep_their_lines() -> None:
    assert escaped("one\ntwo\x1b", keep_lines=True) == "one\ntwo\\x1b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (True, "yes"),
        (1_234_567, "1234567"),
        (0.123456789, "0.123457"),
        (float("-inf"), "-Infinity"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02 03:04:05"),
        (b"\x00\xff", "00ff"),
    ],
)
def test_values_for_people(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_json_is_valid_whatever_the_values() -> None:
    values = {
        "floats": [float("nan"), float("inf"), float("-inf"), 0.1],
        "decimals": [Decimal("0.5"), Decimal(12), Decimal("NaN")],
        "at": datetime(2026, 1, 2, 3, 4, 5, 600, UTC),
        "bytes": b"\x01",
        "nested": ({"a": None},),
    }
    assert json.loads(json.dumps(for_json(values), allow_nan=False)) == {
        "floats": ["NaN", "Infinity", "-Infinity", 0.1],
        "decimals": [0.5, 12, "NaN"],
        "at": "2026-01-02T03:04:05.000600Z",
        "bytes": "01",
        "nested": [{"a": None}],
    }


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_text_in_csv_starts_no_formula(start: str) -> None:
    assert for_csv(f"{start}cmd|' /C calc'!A0") == f"'{start}cmd|' /C calc'!A0"


def test_numbers_in_csv_stay_numbers() -> None:
    assert [for_csv(value) for value in (-0.5, -3, True, None, float("-inf"), "text")] == [
        *(-0.5, -3, 1, "", "-Infinity", "text")
    ]


@given(st.lists(st.tuples(*[st.sampled_from(ANY)] * 3), max_size=20))
def test_rows_in_csv_are_as_their_values_are(rows: list[tuple[object, ...]]) -> None:
    assert written(rows_for_csv(rows)) == written([[for_csv(value) for value in row] for row in rows])


@pytest.mark.parametrize("value", ANY)
def test_a_column_of_one_kind_in_csv_is_as_its_values_are(value: object) -> None:
    for column in ([value], [None, value], [value, 1], [0.5, value], ["plain", value, "=last"]):
        assert written(rows_for_csv([[each] for each in column])) == written([[for_csv(v)] for v in column])


def written(rows: Iterable[Iterable[object]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()


def test_names_that_are_no_unicode_survive_csv() -> None:
    assert for_csv("run\udcff\0") == "run\\xff\\x00" == for_csv("run\\xff\\x00")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), 1e300, -1e300, None])
def test_a_time_that_no_calendar_has_is_none(seconds: float | None) -> None:
    assert instant(seconds) is None
