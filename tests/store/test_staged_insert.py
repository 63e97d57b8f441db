"""Many rows into SQLite, staged and one by one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, select

from lineage_store.store.database.db import reading, writing
from lineage_store.store.database.sql import Session
from lineage_store.store.schema.tables import payload_sample, scalar_sample
from lineage_store.store.writes import sqlite_bulk


@pytest.fixture(params=["staged", "value by value"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sqlite_bulk, "CAN_STAGE", request.param == "staged")
    return str(request.param)


def scalars(values: list[float], first_step: int = 0) -> list[np.ndarray[Any, Any]]:
    ones, steps = np.ones(len(values), np.int64), np.arange(first_step, first_step + len(values))
    return [ones, ones, steps, steps / 2, np.array(values)]


def payloads(dtypes: list[str | None], shapes: list[str]) -> list[np.ndarray[Any, Any] | None]:
    numbers = np.arange(len(shapes))
    columns: dict[str, np.ndarray[Any, Any]] = {
        **dict.fromkeys(("job_id", "series_no"), np.ones(len(shapes), np.int64)),
        **dict.fromkeys(
            ("step", "frame_offset", "frame_length", "value_index", "checksum", "size_bytes"), numbers
        ),
        "wall_time": numbers / 2,
        "dtype": np.array(dtypes, np.object_),
        "shape": np.array(shapes, np.object_),
    }
    return [columns.get(column.name) for column in payload_sample.columns]


def stored(engine: Engine, *columns: Any) -> list[tuple[Any, ...]]:
    with reading(engine) as session:
        return [tuple(row) for row in session.rows(select(*columns).order_by(columns[0]))]


def test_rows_of_numbers_are_stored_nan_as_null(way: str, sqlite_engine: Engine) -> None:
    values = [0.5, float("nan"), float("inf"), float("-inf"), 1e300]
    with writing(sqlite_engine) as session:
        sqlite_bulk.insert(session, scalar_sample, scalars(values))
    expected = [(0, 0.5), (1, None), (2, float("inf")), (3, float("-inf")), (4, 1e300)]
    assert stored(sqlite_engine, scalar_sample.c.step, scalar_sample.c.value) == expected


def test_rows_take_the_places_of_those_with_their_keys(way: str, sqlite_engine: Engine) -> None:
    for values, first_step in (([1.0, 2.0, 3.0], 0), ([20.0, 30.0, 40.0], 1)):
        with writing(sqlite_engine) as session:
            sqlite_bulk.insert(session, scalar_sample, scalars(values, first_step))
    expected = [(0, 1.0), (1, 20.0), (2, 30.0), (3, 40.0)]
    assert stored(sqlite_engine, scalar_sample.c.step, scalar_sample.c.value) == expected


def test_texts_and_columns_of_nothing_but_null_are_stored(way: str, sqlite_engine: Engine) -> None:
    dtypes, shapes = ["float32", None, "it's", "float32"], ["[2, 3]", "[]", "[9]", "[2, 3]"]
    with writing(sqlite_engine) as session:
        sqlite_bulk.insert(session, payload_sample, payloads(dtypes, shapes))
    columns = (payload_sample.c[name] for name in ("step", "dtype", "shape", "count", "wall_time"))
    expected = [(n, dtypes[n], shapes[n], None, n / 2) for n in range(4)]
    assert stored(sqlite_engine, *columns) == expected


def test_more_rows_than_an_image_holds_are_stored(way: str, sqlite_engine: Engine) -> None:
    values = [float(n) for n in range(2 * sqlite_bulk.MOST_ROWS + 1)]
    with writing(sqlite_engine) as session:
        sqlite_bulk.insert(session, scalar_sample, scalars(values))
    assert stored(sqlite_engine, scalar_sample.c.step, scalar_sample.c.value) == list(enumerate(values))


def test_what_is_rolled_back_is_not_stored_and_the_connection_goes_on(sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:
        for value, ends in ((1.0, "rollback"), (2.0, "commit"), (3.0, "commit")):
            transaction = connection.begin()
            sqlite_bulk.insert(Session(connection), scalar_sample, scalars([value], first_step=int(value)))
            getattr(transaction, ends)()
    assert stored(sqlite_engine, scalar_sample.c.value) == [(2.0,), (3.0,)]


def test_nothing_of_what_was_staged_is_in_the_store(sqlite_engine: Engine) -> None:
    with writing(sqlite_engine) as session:
        sqlite_bulk.insert(session, scalar_sample, scalars([1.0]))
    with closing(sqlite3.connect(str(sqlite_engine.url.database))) as store:
        tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "scalar_sample" in tables
    assert not tables & {"rows", "texts"}
