"""Columns as a database image, as SQLite itself reads it."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lineage_store.store.writes import sqlite_bulk

INT64S = st.integers(-(2**63), 2**63 - 1)


def read(columns: Sequence[NDArray[Any]]) -> list[tuple[Any, ...]]:
    """The rows as SQLite has them, in their order, once it has checked the whole image."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(sqlite_bulk.image(columns))
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM texts").fetchone() == (0,)
        return connection.execute("SELECT * FROM rows").fetchall()


@given(st.lists(st.tuples(INT64S, st.floats()), min_size=1, max_size=50))
def test_every_number_is_read_as_it_was_given_and_nan_as_null(rows: list[tuple[int, float]]) -> None:
    integers, floats = zip(*rows, strict=True)
    expected = [(number, None if math.isnan(value) else value) for number, value in rows]
    assert read([np.array(integers, np.int64), np.array(floats, np.float64)]) == expected


@pytest.mark.parametrize("width", [1, 2, 5, 13, 14, 15, 18])
def test_any_number_of_rows_and_columns_is_whole(width: int) -> None:
    for rows in (1, 2, 300, 5_000, sqlite_bulk.MOST_ROWS):
        columns = [np.arange(rows) * (n + 1) for n in range(width)]
        assert read(columns) == list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_page_that_is_just_full_and_one_row_more_are_whole() -> None:
    rows_of_a_page = (2**16 - 8) // (1 + 4 + 2 + 8 + 2)
    for rows in (rows_of_a_page - 1, rows_of_a_page, rows_of_a_page + 1, 2 * rows_of_a_page):
        assert read([np.arange(rows)]) == [(n,) for n in range(rows)]


def test_columns_may_be_views_and_of_smaller_types() -> None:
    numbers = np.arange(20)
    columns: list[NDArray[Any]] = [
        numbers[::2],
        numbers[::-2].astype(np.uint32),
        numbers[:10].astype(np.float32) / 4,
    ]
    assert read(columns) == [(2 * n, 19 - 2 * n, n / 4) for n in range(10)]
