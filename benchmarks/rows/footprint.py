"""Resources: memory while the largest frames are read, bytes on disk, time to import, time for many jobs.

Memory is the peak of a separate process, including all libraries. The bytes of a scalar are those of the whole database
with its indexes, divided by the number of samples; on PostgreSQL, of the table with its index. Imports are timed inside
fresh interpreters, without the interpreter's start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from sqlalchemy import func, select, text

from benchmarks import corpora, floor
from benchmarks.databases import Database, fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate
from benchmarks.rows.ingest import ingest
from lineage_store import LineageStore
from lineage_store.store.schema.tables import scalar_sample

MEBIBYTE = 2**20
_INGEST = """
import sys
from pathlib import Path
from lineage_store import LineageStore
with LineageStore(sys.argv[1]) as store:
    store.ingest(sys.argv[2])
status = Path("/proc/self/status").read_text()
print(status.split("VmHWM:")[1].split()[0])
"""
_IMPORT = "import time; began = time.perf_counter(); {statement}; print(time.perf_counter() - began)"


def _memory(database: Database, sizes: Sizes) -> Samples:
    base_dir = corpora.huge(sizes.huge_mebibytes)
    with fresh(database) as url:
        kibibytes = float(child(_INGEST, url, str(base_dir)))
    return Samples((kibibytes * 1024 / MEBIBYTE,), note=f"a file of {sizes.huge_mebibytes} MiB")


def _bytes_a_sample(database: Database, sizes: Sizes) -> Samples:
    base_dir = corpora.c2(sizes.scalar_events_of_ten)
    with fresh(database) as url:
        with LineageStore(url) as store:
            store.ingest(base_dir)
            with store.engine.connect() as connection:
                count = connection.execute(select(func.count()).select_from(scalar_sample)).scalar_one()
                if database == "postgresql":
                    size = connection.execute(
                        text("SELECT pg_total_relation_size('scalar_sample')")
                    ).scalar_one()
        if database == "sqlite":
            size = Path(url.removeprefix("sqlite:///")).stat().st_size
    return Samples((size / count,), note=f"{count:,} samples of c2")


def _import(statement: str, sizes: Sizes) -> Samples:
    ours, alone = _IMPORT.format(statement=statement), _IMPORT.format(statement="import sqlalchemy")
    return alternate(lambda: float(child(ours)), lambda: float(child(alone)), 3 * sizes.repetitions)


def _jobs_a_second(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    before, runs = os.times(), min(3, sizes.repetitions)
    rates = tuple(sizes.jobs / ingest(base_dir, "sqlite") for _ in range(runs))
    after = os.times()
    statements, row_count = floor.rows_of(base_dir)
    rows_alone = tuple(sizes.jobs / floor.insert(statements) for _ in range(runs))
    user, system, read_user, read_system = (
        1000 * (now - then) / runs / sizes.jobs for now, then in zip(after[:4], before[:4], strict=True)
    )
    writing, reading = (
        f"{user + system:.2f} ms where they are written",
        f"{read_user + read_system:.2f} ms where read",
    )
    counts = f"{sizes.jobs:,} jobs, {2 * sizes.jobs:,} files, {row_count:,} rows"
    return Samples(rates, note=f"{counts}; CPU a job: {writing}, {reading}", floor=rows_alone)


def child(script: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


ROWS = [
    Row(
        "jobs",
        "job dirs (4 lineage events, 50 steps × 4 scalars) → committed SQLite, all indexes",  # noqa: RUF001
        _jobs_a_second,
        Bound(1200, at_least=True),
        was="≥ 3000 jobs/s: where that was set, sqlite3 was 2.5 times as fast",
        shown="figure",
        unit="jobs/s",
    ),
    Row(
        "memory",
        "peak memory of a process that ingests one summary file of 63 MiB frames, SQLite",
        partial(_memory, "sqlite"),
        Bound(256),
        Bound(128),
        shown="figure",
        unit="MiB",
        group="long",
    ),
    Row(
        "bytes-sqlite",
        "bytes a scalar sample takes, SQLite: the whole file",
        partial(_bytes_a_sample, "sqlite"),
        Bound(38),
        Bound(30),
        shown="figure",
        unit="B",
    ),
    Row(
        "bytes-postgresql",
        "bytes a scalar sample takes, PostgreSQL: table and index",
        partial(_bytes_a_sample, "postgresql"),
        Bound(105),
        Bound(90),
        shown="figure",
        unit="B",
    ),
    Row(
        "import",
        "import lineage_store, against import sqlalchemy",
        partial(_import, "import lineage_store"),
        Bound(1.5),
        Bound(1.2),
    ),
    Row(
        "import-used",
        "from lineage_store import LineageStore, against import sqlalchemy",
        partial(_import, "from lineage_store import LineageStore"),
        Bound(1.2),
    ),
]
