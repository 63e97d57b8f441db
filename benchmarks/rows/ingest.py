"""From log files to committed rows, against the minimum that the database, or any reader of the files, needs.

The baselines: the driver's bulk insert of exactly the rows that we store, already in memory and in key order, into
the same table (sqlite3's executemany; psycopg's binary COPY); a loop that only checks and parses (`lean`); and a
program by hand that makes the same rows in plain loops (`by_hand`) and inserts them in the fastest known way
(`floor`). On both sides opening a new store is not timed, but closing it (SQLite's checkpoint) is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import select

from benchmarks import by_hand, corpora, floor, lean
from benchmarks.databases import Database, fresh, plain, seconds_of_sqlite3, settle
from benchmarks.measuring import Bound, Row, Samples, Sizes, Timed, alternate, stopwatch
from lineage_store import LineageStore
from lineage_store.store.database.db import open_engine
from lineage_store.store.schema.tables import scalar_sample

Corpus = Callable[[Sizes], Path]
_INSERT = "INSERT INTO scalar_sample (job_id, series_no, step, wall_time, value) VALUES (?, ?, ?, ?, ?)"
_COPY = "COPY scalar_sample (job_id, series_no, step, wall_time, value) FROM STDIN (FORMAT BINARY)"
_TYPES = ("int4", "int4", "int8", "float8", "float8")


def ingest(base_dir: Path, database: Database, *, after: Path | None = None) -> float:
    """Return the seconds of an ingest into an empty store, or into one that has ingested the base dir `after`."""
    with fresh(database) as url:
        store = LineageStore(url)
        if after is not None:
            store.ingest(after)
        settle(database)
        with stopwatch() as seconds:
            store.ingest(base_dir)
            store.close()
    return seconds()


def stored_rows(base_dir: Path, database: Database) -> list[tuple[Any, ...]]:
    """Return the scalar rows that we store for a base dir, in key order."""
    with fresh(database) as url, LineageStore(url) as store:
        store.ingest(base_dir)
        with store.engine.connect() as connection:
            order = scalar_sample.primary_key.columns
            return [tuple(row) for row in connection.execute(select(scalar_sample).order_by(*order))]


def insert_with_sqlite3(rows: Sequence[tuple[Any, ...]]) -> float:
    def write(connection: sqlite3.Connection) -> None:
        connection.executemany(_INSERT, rows)

    with _empty_table("sqlite") as url:
        return seconds_of_sqlite3(url, write)


def copy_with_psycopg(rows: Sequence[tuple[Any, ...]]) -> float:
    with _empty_table("postgresql") as url, psycopg.connect(plain(url)) as connection:
        settle("postgresql")
        with stopwatch() as seconds:
            with connection.cursor().copy(_COPY) as copy:
                copy.set_types(_TYPES)
                for row in rows:
                    copy.write_row(row)
            connection.commit()
    return seconds()


@contextmanager
def _empty_table(database: Database) -> Iterator[str]:
    """Create a database with only our table of scalars, and our settings (SQLite: WAL mode)."""
    with fresh(database) as url:
        engine = open_engine(url)
        scalar_sample.create(engine)
        engine.dispose()
        yield url


def parse_alone(base_dir: Path) -> float:
    """Return the seconds of the loop that only parses."""
    settle("sqlite")
    with stopwatch() as seconds:
        lean.parse_base_dir(base_dir)
    return seconds()


def _against_rows(corpus: Corpus, database: Database, sizes: Sizes) -> Samples:
    base_dir = corpus(sizes)
    rows = stored_rows(base_dir, database)
    insert = insert_with_sqlite3 if database == "sqlite" else copy_with_psycopg
    ours: Timed = partial(ingest, base_dir, database)
    note = f"{len(rows):,} samples"
    return alternate(ours, partial(insert, rows), sizes.repetitions, note)


def _against_lean_loop(corpus: Corpus, sizes: Sizes) -> Samples:
    base_dir = corpus(sizes)
    events, (statements, row_count) = lean.parse_base_dir(base_dir), floor.rows_of(base_dir)
    return alternate(
        partial(ingest, base_dir, "sqlite"),
        partial(parse_alone, base_dir),
        sizes.repetitions,
        f"{events:,} events, {row_count:,} rows",
        partial(floor.insert, statements),
    )


def _against_program_by_hand(corpus: Corpus, sizes: Sizes) -> Samples:
    base_dir = corpus(sizes)
    statements, row_count = floor.rows_of(base_dir)

    def read_and_insert() -> float:
        with stopwatch() as seconds:
            by_hand.count_rows(base_dir)
        return seconds() + floor.insert(statements)

    ours: Timed = partial(ingest, base_dir, "sqlite")
    loop = partial(parse_alone, base_dir)
    return alternate(
        ours, read_and_insert, sizes.repetitions, f"{row_count:,} rows; floor: the lean loop", loop
    )


def _c1(sizes: Sizes) -> Path:
    return corpora.c1(sizes.events)


def _c2(sizes: Sizes) -> Path:
    return corpora.c2(sizes.scalar_events_of_ten)


def _c5(sizes: Sizes) -> Path:
    return corpora.c5(sizes.events)


def _c6(sizes: Sizes) -> Path:
    return corpora.c6(sizes.histogram_events)


def _real(sizes: Sizes) -> Path:
    return corpora.real(sizes.real_jobs)


def _rows_row(name: str, corpus: Corpus, database: Database, must: float, aim: float) -> Row:
    baseline = "sqlite3.executemany" if database == "sqlite" else "psycopg COPY write_row"
    what = f"{name} → committed, against {baseline} of the same rows in memory"
    return Row(name, what, partial(_against_rows, corpus, database), Bound(must), Bound(aim))


def _loop_row(name: str, what: str, corpus: Corpus, must: Bound | None, was: str) -> Row:
    what = f"{what} → committed SQLite, against a loop that only parses each event, lean"
    return Row(name, what, partial(_against_lean_loop, corpus), must, was=was)


_REAL = "200 jobs of real trainings"


ROWS = [
    _rows_row("c1", _c1, "sqlite", 0.75, 0.5),
    _rows_row("c2", _c2, "sqlite", 0.85, 0.6),
    _rows_row("c5", _c5, "sqlite", 1.0, 0.6),
    _loop_row("c6", "c6 (loss and 3 histograms an event)", _c6, Bound(3.5), "≤ 1 x: less than the floor"),
    _loop_row("real", _REAL, _real, None, "≤ 5 x: less than a program by hand takes, see real-by-hand"),
    Row(
        "real-by-hand",
        f"{_REAL} → committed SQLite, against a program by hand that makes and inserts the same rows",
        partial(_against_program_by_hand, _real),
        Bound(1.2),
        Bound(1.0),
    ),
    _rows_row("c1-postgresql", _c1, "postgresql", 1.25, 1.0),
]
