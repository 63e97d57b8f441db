"""The floor of a benchmark row: the time that the database alone needs for all rows of a corpus.

In: a corpus. Out: the seconds that sqlite3 takes to insert exactly the rows that we store, which are in memory already,
into our schema with all its indexes, in one transaction: with INSERTs of many VALUES, table by table and in key order;
parameters that all rows of a statement share are bound once. Nothing is read or decoded, there are no queries, and
foreign keys are not checked. With this schema and this driver, no implementation can be faster.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain, compress, count
from pathlib import Path
from typing import Any

from benchmarks.databases import fresh, seconds_of_sqlite3
from lineage_store import LineageStore
from lineage_store.store.schema.tables import metadata

_PARAMETERS = 8_000
"""Parameters per statement; larger statements are no faster."""


_Statement = tuple[str, tuple[Any, ...]]
"""SQL and its parameters."""


def rows_of(base_dir: Path) -> tuple[list[_Statement], int]:
    """Return the statements that insert the rows of every table in key order, and the number of rows."""
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        connection = store.engine.raw_connection()
        cursor = connection.cursor()
        statements, row_count = list[_Statement](), 0
        for table in metadata.sorted_tables:
            names = [column.name for column in table.columns]
            key = ", ".join(column.name for column in table.primary_key.columns)
            quoted = ", ".join(f'"{name}"' for name in names)
            rows = cursor.execute(f"SELECT {quoted} FROM {table.name} ORDER BY {key}").fetchall()
            insert, size = f"INSERT INTO {table.name} ({quoted}) VALUES ", max(1, _PARAMETERS // len(names))
            statements += [_statement(insert, rows[n : n + size]) for n in range(0, len(rows), size)]
            row_count += len(rows)
        connection.close()
    return statements, row_count


def _statement(insert: str, rows: Sequence[tuple[Any, ...]]) -> _Statement:
    """Return the statement for some rows. Shared parameters come first. Only the first row's placeholders are numbered;
    SQLite numbers those of the other rows in sequence."""
    columns = list(zip(*rows, strict=True))
    varies = [len(rows) == 1 or any(value != column[0] for value in column) for column in columns]
    shared, own = count(1), count(1 + varies.count(False))
    first = [f"?{next(own if varied else shared)}" for varied in varies]
    others = ["?" if varied else place for varied, place in zip(varies, first, strict=True)]
    values = ", ".join([f"({', '.join(first)})", *[f"({', '.join(others)})"] * (len(rows) - 1)])
    common = tuple(column[0] for column, varied in zip(columns, varies, strict=True) if not varied)
    return insert + values, common + tuple(chain.from_iterable(compress(row, varies) for row in rows))


def insert(statements: Sequence[_Statement]) -> float:
    def write(connection: sqlite3.Connection) -> None:
        for statement, parameters in statements:
            connection.execute(statement, parameters)

    with fresh("sqlite") as url:
        LineageStore(url).close()
        return seconds_of_sqlite3(url, write)
