"""Exporting v_scalar to Parquet, against DuckDB's own COPY of the same view.

Both read a store with very many samples, on SQLite the same file; DuckDB uses its SQLite extension, which is installed
from PyPI. DuckDB runs in a process of its own, because two SQLite libraries must not open one file in one process, and
on one core, as we do. Timed are the seconds until the files are closed. Memory is the peak of a separate process,
including all libraries.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.analysed import store_of
from benchmarks.corpora import CACHE
from benchmarks.databases import Database
from benchmarks.measuring import Bound, Row, Samples, Sizes, alternate, stopwatch
from benchmarks.rows.footprint import child
from lineage_store import LineageStore

_COPY = """
import sys, time, duckdb, duckdb_extension_sqlite_scanner as package
from pathlib import Path
(extension,) = Path(package.__path__[0]).rglob("*.duckdb_extension")
connection = duckdb.connect()
connection.execute(f"LOAD '{extension}'")
connection.execute("SET threads = 1")
connection.execute("SET enable_progress_bar = false")
connection.execute(f"ATTACH '{sys.argv[1]}' AS store (TYPE sqlite, READ_ONLY)")
connection.execute("USE store")
began = time.perf_counter()
connection.execute(f"COPY (SELECT * FROM v_scalar) TO '{sys.argv[2]}' (FORMAT parquet)")
print(time.perf_counter() - began)
"""
_EXPORT = """
import sys
from pathlib import Path
from lineage_store import LineageStore
with LineageStore(sys.argv[1]) as store:
    store.export("v_scalar", to=sys.argv[2])
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""
_WITH_DUCKDB = Path(__file__).parents[2] / ".venv-clients" / "bin" / "python"
"""Created by `make environments`; if it is missing, there is no baseline."""


def _exported(store: LineageStore) -> float:
    target = CACHE / "exported"
    shutil.rmtree(target, ignore_errors=True)
    with stopwatch() as seconds:
        store.export("v_scalar", to=target)
    shutil.rmtree(target)
    return seconds()


def _copied(python: str, path: str) -> float:
    target = CACHE / "copied.parquet"
    done = subprocess.run([python, "-c", _COPY, path, target], check=True, capture_output=True, text=True)
    target.unlink()
    return float(done.stdout)


def _mebibytes(store: LineageStore) -> float:
    target = CACHE / "exported"
    shutil.rmtree(target, ignore_errors=True)
    url = store.engine.url.render_as_string(hide_password=False)
    kibibytes = float(child(_EXPORT, url, str(target)))
    shutil.rmtree(target)
    return kibibytes / 1024


def _memory(sizes: Sizes) -> Samples:
    jobs, steps = sizes.analysed_jobs, sizes.analysed_steps
    few, many = (_mebibytes(store_of("sqlite", jobs, times * steps)) for times in (1, 10))
    note = f"{many:.0f} MiB for {30 * jobs * steps:,} samples, {few:.0f} for a tenth"
    return Samples((many / few,), note=note)


def _measure(database: Database, sizes: Sizes) -> Samples:
    store = store_of(database, sizes.analysed_jobs, sizes.analysed_steps)
    with store.engine.connect() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM scalar_sample").scalar_one()
    python = sys.executable if find_spec("duckdb") else str(_WITH_DUCKDB)
    if database == "postgresql" or not Path(python).exists():
        rates = tuple(count / _exported(store) for _ in range(min(3, sizes.repetitions)))
        return Samples(rates, note=f"{count:,} samples")
    path = str(store.engine.url.database)
    ours, theirs = partial(_exported, store), partial(_copied, python, path)
    found = alternate(ours, theirs, min(3, sizes.repetitions))
    return Samples(found.ours, found.baseline, f"{count:,} samples, {count / min(found.ours):,.0f} a second")


ROWS = [
    Row(
        "export-parquet-sqlite",
        "v_scalar to Parquet, against DuckDB's COPY from the same SQLite file on one core",
        partial(_measure, "sqlite"),
        Bound(0.5, at_least=True),
        shown="speedup",
    ),
    Row(
        "export-parquet-postgresql",
        "v_scalar to Parquet from PostgreSQL",
        partial(_measure, "postgresql"),
        None,
        shown="figure",
        unit="samples/s",
    ),
    Row(
        "export-memory-sqlite",
        "peak memory of a process that exports v_scalar to Parquet, against a tenth of the samples",
        _memory,
        Bound(1.1),
        shown="figure",
        group="long",
    ),
]
