"""How far a target is from what the database alone takes: the very rows that we store, already in memory, by hand.

In: a corpus. Out: the time that sqlite3's executemany takes for all its rows, table by table and in key order, into our
schema with all its indexes, in one transaction; nothing is read or decoded, nothing is asked of the database. Where
that alone misses a target, no way of decoding meets it with this schema and this driver.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from benchmarks import corpora, lean
from benchmarks.databases import fresh, settle
from benchmarks.measuring import Row, Samples, Sizes, alternate, stopwatch, timed
from lineage_store import LineageStore
from lineage_store.store.schema import metadata


@dataclass(frozen=True, slots=True)
class _TableRows:
    insert: str
    rows: Sequence[tuple[Any, ...]]


def _stored(base_dir: Path) -> list[_TableRows]:
    """The rows of every table, in key order, as the driver has them."""
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        connection = store.engine.raw_connection()
        tables = []
        for table in metadata.sorted_tables:
            names = [column.name for column in table.columns]
            key = ", ".join(column.name for column in table.primary_key.columns)
            quoted = ", ".join(f'"{name}"' for name in names)
            cursor = connection.cursor()
            cursor.execute(f"SELECT {quoted} FROM {table.name} ORDER BY {key}")
            insert = f"INSERT INTO {table.name} ({quoted}) VALUES ({', '.join('?' * len(names))})"
            tables.append(_TableRows(insert, cursor.fetchall()))
        connection.close()
        return tables


def _insert(tables: Sequence[_TableRows]) -> float:
    with fresh("sqlite") as url:
        LineageStore(url).close()
        connection = sqlite3.connect(str(make_url(url).database))
        connection.execute("PRAGMA synchronous = NORMAL")
        settle("sqlite")
        with stopwatch() as seconds:
            with connection:
                for table in tables:
                    connection.executemany(table.insert, table.rows)
            connection.close()
    return seconds()


def _against_lean_loop(base_dir: Path, sizes: Sizes) -> Samples:
    tables = _stored(base_dir)
    parse = timed(lambda: lean.parse_base_dir(base_dir))
    note = f"{sum(len(table.rows) for table in tables):,} rows"
    return alternate(partial(_insert, tables), parse, sizes.repetitions, note)


def _c6(sizes: Sizes) -> Samples:
    return _against_lean_loop(corpora.c6(sizes.histogram_events), sizes)


def _real(sizes: Sizes) -> Samples:
    return _against_lean_loop(corpora.real(sizes.real_jobs), sizes)


def _jobs(sizes: Sizes) -> Samples:
    tables = _stored(corpora.jobs(sizes.jobs))
    rates = tuple(sizes.jobs / _insert(tables) for _ in range(min(3, sizes.repetitions)))
    return Samples(rates, note=f"{sum(len(table.rows) for table in tables):,} rows")


_ALONE = "the rows of {} alone, by hand from memory into SQLite, all indexes"
ROWS = [
    Row("c6-rows", _ALONE.format("c6") + ", against the lean loop", _c6, None),
    Row("real-rows", _ALONE.format("real trainings") + ", against the lean loop", _real, None),
    Row("jobs-rows", _ALONE.format("the job dirs"), _jobs, None, shown="figure", unit="jobs/s"),
]
