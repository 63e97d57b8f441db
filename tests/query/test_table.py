"""Tables: what data-frame libraries make of them, and what a notebook shows."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from lineage_store.errors import LineageStoreError
from lineage_store.query.table import SHOWN_COLUMNS, SHOWN_ROWS, Column, Table, column_of, instants

AT = datetime(2026, 3, 1, 12, 30, 0, 250_000, UTC)
VALUES: dict[str, list[Any]] = {
    "text": ["a", None, "\udcff ü"],
    "whole": [2**63 - 1, None, -1],
    "number": [math.nan, None, -math.inf],
    "mixed_numbers": [1, 0.5, None],
    "vast": [2**70, 1, None],
    "truth": [True, None, False],
    "at": [AT, None, datetime.max.replace(tzinfo=UTC)],
    "mixed": [1, "a", [1, {"b": math.nan}]],
    "nothing": [None, None, None],
}
ONE = Column("integer", [1])
JSON = ["1", '"a"', '[1, {"b": "NaN"}]']


@pytest.fixture
def table() -> Table:
    return Table({name: column_of(values) for name, values in VALUES.items()})


def test_rows_hold_the_values_as_they_were(table: Table) -> None:
    assert table.columns == tuple(VALUES)
    assert len(table) == len(table.rows) == 3
    for name, values in VALUES.items():
        assert repr(table[name]) == repr([float(v) if v and name == "vast" else v for v in values]) or (
            table[name] == values
        )
    assert table.rows[0][6] == AT


def test_an_integer_beyond_every_float_keeps_its_digits() -> None:
    vast = [10**400, 0.5, None]
    table = Table({"vast": column_of(vast)})
    assert [row[0] for row in table.rows] == vast
    assert table.by_name["vast"].portable() == [str(10**400), "0.5", None]


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_a_library_that_is_missing_is_told_with_what_to_install(
    table: Table, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    convert = {"pandas": table.to_pandas, "polars": table.to_polars, "pyarrow": table.to_arrow}[package]
    with pytest.raises(LineageStoreError, match=rf"{package} cannot be imported: .*\. Run: pip install '"):
        convert()


def test_arrow_keeps_missing_nan_and_infinities_apart(table: Table) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    found = table.to_arrow()
    assert list(map(str, found.schema.types)) == [
        *("string", "int64", "double", "double", "double", "bool"),
        *("timestamp[us, tz=UTC]", "string", "string"),
    ]
    assert found["text"].to_pylist() == ["a", None, r"\xff ü"]
    assert found["whole"].to_pylist() == VALUES["whole"]
    assert str(found["number"].to_pylist()) == "[nan, None, -inf]"
    assert found["at"].to_pylist() == VALUES["at"]
    assert found["mixed"].to_pylist() == JSON
    assert pyarrow.types.is_string(found.schema.field("nothing").type)


def test_pandas_has_types_that_know_what_is_missing(table: Table) -> None:
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas()
    assert frame["whole"].tolist() == [2**63 - 1, pandas.NA, -1]
    assert frame["whole"].dtype == "Int64"
    assert str(frame["number"].tolist()) == "[nan, nan, -inf]"
    assert frame["truth"].dtype == "boolean"
    assert str(frame["at"].dtype) == "datetime64[us, UTC]"
    assert frame["at"][0] == AT
    assert frame["mixed"].tolist() == VALUES["mixed"]
    assert frame["text"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_name_that_is_not_unicode_is_escaped_as_a_value_is(library: str) -> None:
    pytest.importorskip(library)
    assert names_in(library, Table({r"C:\x41": ONE, "a\udcff": ONE})) == [r"C:\x41", r"a\xff"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_names_that_would_be_alike_once_escaped_stay_apart(library: str) -> None:
    pytest.importorskip(library)
    names = [r"a\xff", "a\udcff", r"C:\x41", "b"]
    assert names_in(library, Table(dict.fromkeys(names, ONE))) == [r"a\x5cxff", r"a\xff", r"C:\x5cx41", "b"]


def names_in(library: str, table: Table) -> list[str]:
    convert = {"pandas": table.to_pandas, "polars": table.to_polars, "pyarrow": table.to_arrow}[library]
    found: Any = convert()
    assert len(found) == 1
    return list(found.column_names if library == "pyarrow" else found.columns)


def test_without_rows_types_stay() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    empty = Table({"at": column_of([], "time"), "n": column_of([], "integer"), "x": column_of([], "text")})
    assert list(map(str, empty.to_pandas().dtypes)) == ["datetime64[us, UTC]", "Int64", "object"]
    assert list(map(str, empty.to_arrow().schema.types)) == ["timestamp[us, tz=UTC]", "int64", "string"]
    assert empty.rows == Table({}).rows == []
    assert len(Table({})) == 0


def test_seconds_that_no_calendar_has_are_missing() -> None:
    seconds = np.array([AT.timestamp(), math.nan, math.inf, -1e300, 253_402_300_800.0, -1.0])
    before = datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert instants(seconds).plain() == [AT, None, None, None, None, before]


def test_a_notebook_shows_the_beginning_escaped() -> None:
    text = '<script>alert("x")</script>\x1b[31m\u202e'
    many = Table({f"<b>{number}": Column("text", [text] * 500) for number in range(500)})
    shown = many._repr_html_()
    assert "<script" not in shown
    assert "<b>" not in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert shown.count("<tr>") == 1 + SHOWN_ROWS
    assert shown.count("<th>") == SHOWN_COLUMNS
    assert "500 rows, 500 columns" in shown
    assert len(repr(many)) < 1000
    assert repr(Table({"step": Column("integer", [1])})) == "<Table of 1 rows: step>"


def test_cells_of_a_notebook_are_short_and_say_what_is_not_a_number() -> None:
    row = Table({"a": column_of(["x" * 10_000]), "b": column_of([math.nan]), "c": column_of([AT])})
    shown = row._repr_html_()
    assert len(shown) < 500
    assert "<td>NaN</td><td>2026-03-01T12:30:00Z</td>" in shown
