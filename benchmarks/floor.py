"""The floor of a row: what the database alone takes for all rows of a corpus, measured in turn with the row itself.

In: a corpus. Out: the seconds that sqlite3 takes to insert its rows into our schema with all its indexes, in key order
and in one transaction: the very rows that we store, in memory already. Samples are staged as images (`staged_insert`),
all other rows stand in INSERTs of many VALUES, in which what the rows of a statement share is bound once. Nothing is
read or decoded, nothing is asked of the database, no reference is checked. No way of reading meets a target below it,
with this schema and these ways of inserting.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Table
from sqlalchemy.types import Float, String

from benchmarks.databases import fresh, seconds_of_sqlite3
from lineage_store import LineageStore
from lineage_store.store.schema.partitions import SAMPLE_TABLES
from lineage_store.store.schema.tables import metadata
from lineage_store.store.writes import sqlite_bulk
from lineage_store.store.writes.sqlite_bulk import Stage

_PARAMETERS = 8_000
"""Of one statement; more are no faster."""

_Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class _Statement:
    text: str
    parameters: tuple[Any, ...]


def rows_of(base_dir: Path) -> tuple[list[_Statement | Stage], int]:
    """What inserts the rows of every table, in key order; and how many they are."""
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        connection = store.engine.raw_connection()
        cursor = connection.cursor()
        steps, row_count = list[_Statement | Stage](), 0
        for table in metadata.sorted_tables:
            names = [f'"{column.name}"' for column in table.columns]
            key = ", ".join(column.name for column in table.primary_key.columns)
            select = f"SELECT {', '.join(names)} FROM {table.name} ORDER BY {key}"
            rows = cursor.execute(select).fetchall()
            steps += (
                _staged(table, rows) if table.name in SAMPLE_TABLES else _statements(table.name, names, rows)
            )
            row_count += len(rows)
        connection.close()
    return steps, row_count


def _staged(table: Table, rows: _Rows) -> Iterator[Stage]:
    if not rows:
        return iter(())
    columns = zip(table.columns, zip(*rows, strict=True), strict=True)
    return sqlite_bulk.stages(table, [_column(column.type, values) for column, values in columns])


def _column(of: Any, values: Sequence[Any]) -> Any:
    if not any(value is not None for value in values):
        return None
    if isinstance(of, String):
        return np.array(values, np.object_)
    has_null = isinstance(of, Float) or None in values
    return np.array(values, np.float64 if has_null else np.int64)  # NULL as NaN


def _statements(table: str, names: Sequence[str], rows: _Rows) -> Iterator[_Statement]:
    insert, size = f"INSERT INTO {table} ({', '.join(names)}) VALUES ", max(1, _PARAMETERS // len(names))
    return (_statement(insert, rows[n : n + size]) for n in range(0, len(rows), size))


def _statement(insert: str, rows: Sequence[tuple[Any, ...]]) -> _Statement:
    """Of some rows; what all of them share comes first among the parameters. The first row tells the numbers of its
    own, those of the others follow by themselves."""
    columns = list(zip(*rows, strict=True))
    varies = [len(rows) == 1 or any(value != column[0] for value in column) for column in columns]
    shared, own = count(1), count(1 + varies.count(False))
    first = [f"?{next(own if varied else shared)}" for varied in varies]
    others = ["?" if varied else place for varied, place in zip(varies, first, strict=True)]
    values = ", ".join([f"({', '.join(first)})", *[f"({', '.join(others)})"] * (len(rows) - 1)])
    common = tuple(column[0] for column, varied in zip(columns, varies, strict=True) if not varied)
    return _Statement(
        insert + values, common + tuple(chain.from_iterable(compress(row, varies) for row in rows))
    )


def insert(steps: Sequence[_Statement | Stage]) -> float:
    def write(connection: sqlite3.Connection) -> None:
        connection.execute(sqlite_bulk.ATTACH)
        for step in steps:
            if isinstance(step, Stage):
                connection.deserialize(step.image, name=sqlite_bulk.STAGED)
                connection.executemany(sqlite_bulk.INSERT_TEXTS, step.texts)
                connection.execute(step.insert)
            else:
                connection.execute(step.text, step.parameters)

    with fresh("sqlite") as url:
        LineageStore(url).close()
        return seconds_of_sqlite3(url, write)
