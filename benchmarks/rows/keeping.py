"""Maintenance of a store: copying it into a database of the other kind, and removing jobs whose log files are gone.

A whole `db copy`, including its bookkeeping and the comparison of all rows, is compared with a plain COPY of the same
samples by the same drivers: SQLite's rows into PostgreSQL's COPY, or the lines of PostgreSQL's COPY into SQLite, in
one transaction, into an empty table with the same keys. A `gc` of many jobs is compared with removing a part of them
one at a time, by the time per job.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import islice

import psycopg

from benchmarks.corpora import CACHE
from benchmarks.databases import Database, fresh, plain, settle
from benchmarks.many_rows import add_jobs
from benchmarks.measuring import Bound, Row, Samples, Sizes, Timed, alternate, stopwatch
from benchmarks.rows.growth import UNTIMED, add_base_dir, store_of
from lineage_store import LineageStore
from lineage_store.api.reports import CleanUp
from lineage_store.operations.store_copy import copy_contents
from lineage_store.store.database.db import sqlite_path
from lineage_store.store.database.sql import Session
from lineage_store.store.schema.upgrade import upgrade

_SAMPLES_OF_A_JOB = 2_000
_SERIES, _STEPS = 4, 25
_ONE_BY_ONE = 50
"""One job in this many is removed by itself."""
_AT_A_TIME = 20_000
_READ = "SELECT job_id, series_no, step, wall_time, value FROM scalar_sample"
_OTHER: dict[Database, Database] = {"sqlite": "postgresql", "postgresql": "sqlite"}


def _copied(database: Database, copy: Callable[[str], object], prepare: Callable[[str], object]) -> Timed:
    def run() -> float:
        with fresh(database) as target:
            prepare(target)
            settle("postgresql")
            with stopwatch() as seconds:
                copy(target)
        return seconds()

    return run


def _into_postgresql(source: str, target: str) -> None:
    with (
        closing(sqlite3.connect(str(sqlite_path(source)))) as reader,
        psycopg.connect(plain(target)) as writer,
    ):
        writer.execute("CREATE TABLE plain_sample (LIKE scalar_sample INCLUDING ALL)")
        with writer.cursor().copy(
            "COPY plain_sample (job_id, series_no, step, wall_time, value) FROM STDIN"
        ) as copy:
            for row in reader.execute(_READ):
                copy.write_row(row)


def _into_sqlite(source: str, target: str) -> None:
    with (
        psycopg.connect(plain(source)) as reader,
        closing(sqlite3.connect(str(sqlite_path(target)))) as writer,
        reader.cursor().copy(f"COPY ({_READ}) TO STDOUT (FORMAT csv)") as copy,
    ):
        rows = csv.reader(str(line, "ascii") for line in copy)  # SQLite converts them to numbers
        while some := list(islice(rows, _AT_A_TIME)):
            writer.executemany(
                "INSERT INTO scalar_sample (job_id, series_no, step, wall_time, value) VALUES (?, ?, ?, ?, ?)",
                some,
            )
        writer.commit()


def _copy(database: Database, sizes: Sizes) -> Samples:
    store = store_of(database, sizes.copied_samples // _SAMPLES_OF_A_JOB, _SAMPLES_OF_A_JOB)
    source, to = store.engine.url.render_as_string(hide_password=False), _OTHER[database]
    plainly = _into_postgresql if to == "postgresql" else _into_sqlite
    ours = _copied(to, partial(copy_contents, source), lambda _: None)
    found = alternate(ours, _copied(to, partial(plainly, source), upgrade), min(3, sizes.repetitions))
    rate = sizes.copied_samples / min(found.ours)
    return Samples(found.ours, found.baseline, f"{sizes.copied_samples:,} samples, {rate:,.0f} a second")


def _gc(database: Database, sizes: Sizes) -> Samples:
    base_dir = CACHE / "vanished"
    base_dir.mkdir(parents=True, exist_ok=True)
    with fresh(database) as url, LineageStore(url, settings=UNTIMED) as store:
        with store.engine.begin() as connection:
            base_dir_id = add_base_dir(Session(connection), str(base_dir.resolve()))
            add_jobs(
                Session(connection), base_dir_id, 1
            )  # if all were missing, it would look like an unmounted share
        many, few = sizes.vanished_jobs, sizes.vanished_jobs // _ONE_BY_ONE
        at_once = _removed(
            database, store, base_dir_id, many, lambda _: store.removal.remove(CleanUp(missing=True))
        )
        one_by_one = _removed(database, store, base_dir_id, few, partial(_remove_each, store))
        note = f"{many:,} jobs of {_SERIES * _STEPS} samples against {few:,}"
        return alternate(at_once, one_by_one, min(3, sizes.repetitions), note)


def _remove_each(store: LineageStore, names: list[str]) -> None:
    for name in names:
        store.removal.remove(CleanUp(missing=True, condition={"summary_dir": {"eq": name}}))


def _removed(
    database: Database,
    store: LineageStore,
    base_dir_id: int,
    jobs: int,
    remove: Callable[[list[str]], object],
) -> Timed:
    """Return a run that removes this many vanished jobs; it returns the seconds per job."""

    def run() -> float:
        with store.engine.begin() as connection:
            names = _add_vanished(Session(connection), base_dir_id, jobs)
        settle(database)
        with stopwatch() as seconds:
            remove(names)
        assert [job.train_id for job in store.lineage.jobs()] == ["./job_1"]
        return seconds() / jobs

    return run


def _add_vanished(session: Session, base_dir_id: int, jobs: int) -> list[str]:
    (last,) = session.one("SELECT max(id) FROM train_job")
    add_jobs(session, base_dir_id, jobs, series=_SERIES, steps=_STEPS)
    session.change(f"UPDATE train_job SET source_present = false WHERE id > {last}")
    session.change(f"UPDATE log_file SET state = 'missing' WHERE job_id > {last}")
    found = session.column(f"SELECT train_id FROM train_job WHERE id > {last} ORDER BY id")
    return list(found)


_DATABASES: tuple[Database, ...] = ("sqlite", "postgresql")
ROWS = [
    *(
        Row(
            f"copy-{database}-{_OTHER[database]}",
            f"db copy from {database} to {_OTHER[database]}, all rows compared, against a plain COPY of the samples",
            partial(_copy, database),
            Bound(0.5, at_least=True),
            shown="speedup",
        )
        for database in _DATABASES
    ),
    *(
        Row(
            f"gc-jobs-{database}",
            "gc of many vanished jobs, against removing one at a time: the time of a job",
            partial(_gc, database),
            Bound(5, at_least=True),
            shown="speedup",
        )
        for database in _DATABASES
    ),
]
