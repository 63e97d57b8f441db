"""Tables in polars and curves in matplotlib, which only the environment of the clients has."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from lineage_store.query.samples import Scalars
from lineage_store.query.table import Column, Table, column_of, instants

pytestmark = pytest.mark.clients
AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def test_polars_keeps_missing_nan_and_infinities_apart() -> None:
    values: dict[str, list[Any]] = {
        "text": ["a", None, "\udcff ü"],
        "whole": [2**63 - 1, None, -1],
        "number": [math.nan, None, -math.inf],
        "truth": [True, None, False],
        "at": [AT, None, datetime.max.replace(tzinfo=UTC)],
        "mixed": [1, "a", None],
        "nothing": [None, None, None],
    }
    frame = Table({name: column_of(column) for name, column in values.items()}).to_polars()
    assert list(map(str, frame.dtypes)) == [
        *("String", "Int64", "Float64", "Boolean"),
        *("Datetime(time_unit='us', time_zone='UTC')", "String", "String"),
    ]
    assert str(frame["number"].to_list()) == "[nan, None, -inf]"
    assert frame["text"].to_list() == ["a", None, r"\xff ü"]
    assert frame["mixed"].to_list() == ["1", '"a"', None]
    assert [frame[name].to_list() for name in ("whole", "truth", "at")] == [
        values[name] for name in ("whole", "truth", "at")
    ]


def test_arrays_go_into_polars_as_they_are() -> None:
    table = Table(
        {
            "step": Column("integer", np.array([1, 2])),
            "at": instants(np.array([AT.timestamp(), math.nan])),
            "value": Column("float", np.array([math.nan, math.inf])),
        }
    )
    frame = table.to_polars()
    assert frame["step"].to_list() == [1, 2]
    assert frame["at"].to_list() == [AT, None]
    assert str(frame["value"].to_list()) == "[nan, inf]"
    assert Table({"at": column_of([], "time"), "x": column_of([], "text")}).to_polars().shape == (0, 2)


def test_a_scalar_is_drawn_by_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    steps, values = np.array([1, 2, 3]), np.array([0.5, math.nan, 0.25])
    first = Scalars(steps, np.zeros(3), values)
    axes = first.plot(label="first")
    assert Scalars(steps, np.zeros(3), values * 2).plot(axes, label="second") is axes
    assert [line.get_label() for line in axes.get_lines()] == ["first", "second"]
    assert [tuple(line.get_ydata()) for line in axes.get_lines()] == [
        pytest.approx(tuple(values), nan_ok=True),
        pytest.approx(tuple(values * 2), nan_ok=True),
    ]
    axes.figure.canvas.draw()
