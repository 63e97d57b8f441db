"""How much slower a store with very many jobs is than one with a hundredth of them; the cost of very many files.

Ingest: a file of scalars, and new jobs, are ingested into the large and the small store in turn, and forgotten between
runs. Removal: a base dir is removed from the large store. Listing: an ingest, or a daemon's first look, when the store
knows all files and nothing is new; measured is the peak memory of a separate process, including all libraries. The
stores exist until the benchmark ends.

Partitions are compared with the same store without partitions: `gc` of all jobs of a partition, on a store that is made
for each run, and reading the remaining series.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from benchmarks import corpora
from benchmarks.databases import LIFETIME, Database, fresh, gather_statistics, settle
from benchmarks.many_rows import add_jobs
from benchmarks.measuring import Bound, Row, Samples, Sizes, Timed, alternate, stopwatch, timed
from benchmarks.rows.footprint import child
from benchmarks.stored import insert
from lineage_store import LineageStore, texts
from lineage_store.api.reports import CleanUp
from lineage_store.config import Settings
from lineage_store.ingest.scan.discovery import FoundFiles, search_files
from lineage_store.query.samples.scalars import read_columns
from lineage_store.store.admin.partitioning import lay_out
from lineage_store.store.database.db import reading
from lineage_store.store.database.sql import Session
from lineage_store.store.schema import tables
from lineage_store.store.schema.tables import scalar_sample
from lineage_store.store.schema.upgrade import upgrade

_OTHERS, _GOING = "/others", "/going"
_VACATED_TIMES, _READ_JOBS = 3, 50
_MADE_AT = "2026-01-01T00:00:00.000000Z"
UNTIMED = Settings(statement_timeout_s=0)
_SERIES, _FILES_OF_A_JOB = 4, 2
_LISTED = """
import sys, time
from pathlib import Path
from lineage_store.config import Settings
from lineage_store.ingest import refresh
from lineage_store.ingest.daemon.follower import Follower
from lineage_store.store.database.db import open_engine
engine, base_dir, began = open_engine(sys.argv[1]), Path(sys.argv[2]), time.perf_counter()
if sys.argv[3] == "takeover":
    follower = Follower(engine, base_dir, Settings())
    follower.tick()
    assert follower.status.finding is None, follower.status
    follower.close()
else:
    assert refresh.ingest(engine, base_dir, Settings()).counts.files_found == int(sys.argv[4])
seconds = time.perf_counter() - began
status = Path("/proc/self/status").read_text()
print(status.split("VmHWM:")[1].split()[0], seconds)
"""


@cache
def store_of(database: Database, jobs: int, samples: int) -> LineageStore:
    """Return a store of `jobs` jobs with `samples` samples each."""
    print(f"storing {jobs:,} jobs with {jobs * samples:,} samples in {database} …", flush=True)
    url = LIFETIME.enter_context(fresh(database))
    store = LIFETIME.enter_context(LineageStore(url, settings=UNTIMED))
    _add(store, _OTHERS, jobs, samples)
    gather_statistics(store.engine)
    settle(database)
    return store


def _add(store: LineageStore, base_dir: str, jobs: int, samples: int) -> None:
    with store.engine.begin() as connection:
        base_dir_id = add_base_dir(Session(connection), base_dir)
        add_jobs(Session(connection), base_dir_id, jobs, series=_SERIES, steps=max(1, samples // _SERIES))


def add_base_dir(session: Session, path: str) -> int:
    row = {"path": path, "path_key": texts.key(path), "created_at": _MADE_AT}
    insert(session, tables.base_dir, [row])
    found: int = session.value("SELECT max(id) FROM base_dir")
    return found


def _stores(database: Database, sizes: Sizes) -> tuple[LineageStore, LineageStore]:
    jobs, samples = sizes.many_stored_jobs, sizes.samples_of_a_job
    return store_of(database, jobs, samples), store_of(database, jobs // 100, samples)


def _ingested(database: Database, store: LineageStore, base_dir: Path) -> Timed:
    def run() -> float:
        settle(database)
        with stopwatch() as seconds:
            store.ingest(base_dir)
        store.base_dirs.forget(base_dir)
        return seconds()

    return run


def _grown(database: Database, corpus: Callable[[Sizes], Path], sizes: Sizes) -> Samples:
    base_dir = corpus(sizes)
    large, small = (_ingested(database, store, base_dir) for store in _stores(database, sizes))
    jobs = sizes.many_stored_jobs
    return alternate(large, small, sizes.repetitions, f"{jobs:,} jobs against {jobs // 100:,}")


def _removed(database: Database, sizes: Sizes) -> Samples:
    store, _ = _stores(database, sizes)
    jobs = sizes.removed_samples // sizes.samples_of_a_job
    _add(store, _GOING, jobs, sizes.samples_of_a_job)
    settle(database)
    with stopwatch() as seconds:
        store.base_dirs.forget(_GOING)
    return Samples((seconds(),), note=f"{sizes.removed_samples:,} samples of {jobs:,} jobs")


def _listed(database: Database, way: str, sizes: Sizes) -> Samples:
    jobs = sizes.listed_files // _FILES_OF_A_JOB
    base_dir = corpora.empty_files(jobs, _FILES_OF_A_JOB)
    with fresh(database) as url:
        _know(url, base_dir)
        kibibytes, seconds = map(
            float, child(_LISTED, url, str(base_dir), way, str(sizes.listed_files)).split()
        )
    return Samples(
        (kibibytes / 1024,), note=f"{sizes.listed_files:,} files of {jobs:,} jobs, {seconds:.1f} s"
    )


def _know(url: str, base_dir: Path) -> None:
    """Register all files of a base dir in the store as read to their ends."""
    upgrade(url)
    with LineageStore(url, settings=UNTIMED) as store, store.engine.begin() as connection:
        base_dir_id, jobs = add_base_dir(Session(connection), os.path.realpath(base_dir)), 0
        for part in search_files(base_dir):
            jobs = _know_part(Session(connection), base_dir_id, part, jobs)
        connection.exec_driver_sql("ANALYZE")


def _know_part(session: Session, base_dir_id: int, part: FoundFiles, jobs_before: int) -> int:
    """Register a part of the files; return the number of jobs so far."""
    names = list(dict.fromkeys(file.train_id for file in part.files))
    ids = {train_id: number for number, train_id in enumerate(names, jobs_before + 1)}
    job = {"base_dir_id": base_dir_id, "state": "finished", "source_present": True, "update_time": 1}
    job |= {"log_bytes": 0, "created_at": _MADE_AT}
    insert(
        session,
        tables.train_job,
        [{"id": ids[name], "train_id": name, "train_key": texts.key(name), **job} for name in names],
    )
    zero = ("size_bytes", "byte_offset", "quarantined_bytes", "event_count", "modified_s")
    none: dict[str, object] = dict.fromkeys((*zero, "fingerprint_bytes", "anchor_bytes", "failed_reads"), 0)
    none |= {"generation": 1, "current": True, "closed": True, "state": "closed", "created_at": _MADE_AT}
    rows = [
        {
            "job_id": ids[file.train_id],
            "file_no": file.parsed.timestamp - corpora.FILE_TIME + 1,
            "name": file.name,
            "format": file.format.name,
            "kind": file.parsed.kind,
            "file_time": file.parsed.timestamp,
            "stat_stamp": file.sight.stat_stamp,
            **none,
        }
        for file in part.files
    ]
    insert(session, tables.log_file, rows)
    return jobs_before + len(names)


@contextmanager
def _laid_out(sizes: Sizes, *, partitioned: bool) -> Iterator[LineageStore]:
    """Make a store of three partitions, or of as many jobs without partitions; the first third has its own base dir."""
    jobs, samples = sizes.partition_jobs, sizes.partition_samples // sizes.partition_jobs
    with fresh("postgresql") as url, LineageStore(url, settings=UNTIMED) as store:
        _add(store, _GOING, jobs - 1, samples)
        _add(store, _OTHERS, 2 * jobs, samples)
        if partitioned:
            lay_out(store.engine, jobs)
        gather_statistics(store.engine)
        settle("postgresql")
        yield store


def _vacated(sizes: Sizes) -> Samples:
    def run(*, partitioned: bool) -> float:
        with _laid_out(sizes, partitioned=partitioned) as store:
            with stopwatch() as seconds:
                removed = store.removal.remove(CleanUp(older_than_s=0.0), _GOING)
            assert removed.jobs == sizes.partition_jobs - 1
            return seconds()

    runs = [(run(partitioned=True), run(partitioned=False)) for _ in range(_VACATED_TIMES)]
    ours, baseline = zip(*runs, strict=True)
    return Samples(ours, baseline, f"{sizes.partition_samples:,} samples of {sizes.partition_jobs:,} jobs")


def _read_of_partition(sizes: Sizes) -> Samples:
    jobs = range(sizes.partition_jobs, 2 * sizes.partition_jobs, max(1, sizes.partition_jobs // _READ_JOBS))

    def reading_of(store: LineageStore) -> Timed:
        def read() -> None:
            with reading(store.engine) as session:
                for job in jobs:
                    wanted = (scalar_sample.c.job_id == job) & (scalar_sample.c.series_no == 1)
                    assert len(read_columns(session, wanted)[0])

        return timed(read)

    with _laid_out(sizes, partitioned=True) as ours, _laid_out(sizes, partitioned=False) as plain:
        note = f"{len(jobs)} series of {sizes.partition_samples // sizes.partition_jobs // _SERIES:,} samples"
        return alternate(reading_of(ours), reading_of(plain), 2 * sizes.repetitions, note)


def _rows(database: Database) -> list[Row]:
    def row(name: str, what: str, measure: Callable[[Sizes], Samples], must: Bound, unit: str = "x") -> Row:
        shown = "ratio" if unit == "x" else "figure"
        return Row(f"{name}-{database}", what, measure, must, shown=shown, unit=unit, group="long")  # type: ignore[arg-type]

    listed = partial(_listed, database)
    return [
        row(
            "growth-scalars",
            "ingest of a file of scalars, against a hundredth of the store",
            partial(_grown, database, lambda sizes: corpora.c1(sizes.events)),
            Bound(1.3),
        ),
        row(
            "growth-jobs",
            "ingest of new jobs, against a hundredth of the store",
            partial(_grown, database, lambda sizes: corpora.jobs(sizes.new_jobs)),
            Bound(1.3),
        ),
        row("removal", "forget a base dir of the large store", partial(_removed, database), Bound(60), "s"),
        row(
            "listing",
            "peak memory of an ingest that finds nothing new",
            lambda sizes: listed("ingest", sizes),
            Bound(256),
            "MiB",
        ),
        row(
            "takeover",
            "peak memory of a daemon that takes over and finds nothing new",
            lambda sizes: listed("takeover", sizes),
            Bound(256),
            "MiB",
        ),
    ]


_DATABASES: tuple[Database, ...] = ("sqlite", "postgresql")
_PARTITIONS = [
    Row(
        "partition-removal",
        "gc of all jobs of one of three partitions, against the same without partitions",
        _vacated,
        Bound(0.3),
        group="long",
    ),
    Row(
        "partition-reading",
        "series read from a partition, against the same without partitions",
        _read_of_partition,
        Bound(1.15),
        group="long",
    ),
]
ROWS = [*(row for database in _DATABASES for row in _rows(database)), *_PARTITIONS]
