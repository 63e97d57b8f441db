"""How far a target is from what the database alone, or decoding alone, takes.

In: a corpus. Out: the time that sqlite3 takes for all its rows, by INSERTs of many VALUES, table by table and in key
order, into our schema with all its indexes, in one transaction: the very rows that we store, already in memory; nothing
is read or decoded, nothing is asked of the database, no reference is checked. Where that alone misses a target, no way
of decoding meets it with this schema and this driver. And the time of our decoder alone, in chunks as ingest has them;
of all that comes before the database: files found, read, decoded and made rows of; and of a loop that only parses.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from benchmarks import corpora, lean
from benchmarks.databases import fresh, settle
from benchmarks.measuring import Row, Samples, Sizes, alternate, stopwatch, timed
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.eventlog import fast
from lineage_store.ingest import batching, surveying
from lineage_store.ingest.discovery import FoundFile
from lineage_store.store.batch import KnownFile
from lineage_store.store.schema import metadata

_PARAMETERS = 8_000
"""Of one statement; more are no faster."""


@dataclass(frozen=True, slots=True)
class _Statements:
    """Of one table: as many rows a statement as is fast, and the rest of them one by one."""

    many: str
    parameters: Sequence[tuple[Any, ...]]
    one: str
    rest: Sequence[tuple[Any, ...]]


def _stored(base_dir: Path) -> tuple[list[_Statements], int]:
    """The rows of every table, in key order, as the driver takes them; and how many they are."""
    with fresh("sqlite") as url, LineageStore(url) as store:
        store.ingest(base_dir)
        connection = store.engine.raw_connection()
        cursor = connection.cursor()
        tables, count = [], 0
        for table in metadata.sorted_tables:
            names = [column.name for column in table.columns]
            key = ", ".join(column.name for column in table.primary_key.columns)
            quoted = ", ".join(f'"{name}"' for name in names)
            rows = cursor.execute(f"SELECT {quoted} FROM {table.name} ORDER BY {key}").fetchall()
            tables.append(_statements(f"INSERT INTO {table.name} ({quoted}) VALUES ", len(names), rows))
            count += len(rows)
        connection.close()
    return tables, count


def _statements(insert: str, width: int, rows: Sequence[tuple[Any, ...]]) -> _Statements:
    size = max(1, _PARAMETERS // width)
    whole = len(rows) - len(rows) % size
    one = f"({', '.join('?' * width)})"
    parameters = [tuple(chain.from_iterable(rows[n : n + size])) for n in range(0, whole, size)]
    return _Statements(insert + ", ".join([one] * size), parameters, insert + one, rows[whole:])


def _insert(tables: Sequence[_Statements]) -> float:
    with fresh("sqlite") as url:
        LineageStore(url).close()
        connection = sqlite3.connect(str(make_url(url).database))
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -65536")
        settle("sqlite")
        with stopwatch() as seconds:
            with connection:
                for table in tables:
                    connection.executemany(table.many, table.parameters)
                    connection.executemany(table.one, table.rest)
            connection.close()
    return seconds()


def _against_lean_loop(base_dir: Path, sizes: Sizes) -> Samples:
    tables, count = _stored(base_dir)
    parse = timed(lambda: lean.parse_base_dir(base_dir))
    return alternate(partial(_insert, tables), parse, sizes.repetitions, f"{count:,} rows")


def _decode(path: Path) -> float:
    """Frame by frame to columns, a chunk at a time."""
    settings = Settings()
    with stopwatch() as seconds, path.open("rb") as log:
        position = 0
        while chunk := os.pread(log.fileno(), settings.chunk_bytes, position):
            decoded = fast.decode(chunk, [(0, len(chunk))], max_frame_bytes=settings.max_frame_bytes)
            position += int(decoded.frames.read_to[0]) or len(chunk)
    return seconds()


def _read(base_dir: Path) -> float:
    """Every log file found, read, and made rows of; nothing is asked of a database, nothing written."""
    settings, now = Settings(), datetime.now(UTC)
    with stopwatch() as seconds:
        found = surveying.find(base_dir, settings).files
        files = [_unread(number, file) for number, file in enumerate(found)]
        while files:
            batch = batching.fill(base_dir, files[: settings.batch_files], settings, now)
            files = files[batch.files_taken :] + [each.after for each in batch.advances if each.has_more]
    return seconds()


def _unread(number: int, file: FoundFile) -> KnownFile:
    """A file as the store knows it when it was registered."""
    name, place = file.parsed, {"id": number, "job_id": number, "train_id": file.train_id, "name": file.name}
    said = {"kind": name.kind, "file_time": name.timestamp, "device": name.device}
    sizes = ("size_bytes", "byte_offset", "quarantined_bytes", "fingerprint_bytes", "anchor_bytes", "strikes")
    state = {"generation": 1, "current": True, "state": "open", "closed": False}
    known: dict[str, Any] = dict.fromkeys(KnownFile._fields) | dict.fromkeys(sizes, 0) | place | said | state
    return KnownFile(**known)


def _c6_decoded(sizes: Sizes) -> Samples:
    (path,) = corpora.c6(sizes.histogram_events).glob("*/*_MS")
    return alternate(partial(_decode, path), timed(lambda: lean.parse_file(path)), sizes.repetitions)


def _c6(sizes: Sizes) -> Samples:
    return _against_lean_loop(corpora.c6(sizes.histogram_events), sizes)


def _real(sizes: Sizes) -> Samples:
    return _against_lean_loop(corpora.real(sizes.real_jobs), sizes)


def _real_read(sizes: Sizes) -> Samples:
    base_dir = corpora.real(sizes.real_jobs)
    return alternate(
        partial(_read, base_dir), timed(lambda: lean.parse_base_dir(base_dir)), sizes.repetitions
    )


def _jobs_read(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    return Samples(tuple(sizes.jobs / _read(base_dir) for _ in range(min(3, sizes.repetitions))))


def _jobs(sizes: Sizes) -> Samples:
    tables, count = _stored(corpora.jobs(sizes.jobs))
    rates = tuple(sizes.jobs / _insert(tables) for _ in range(min(3, sizes.repetitions)))
    return Samples(rates, note=f"{count:,} rows")


def _jobs_parsed(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    events = lean.parse_base_dir(base_dir)
    parse = timed(lambda: lean.parse_base_dir(base_dir))
    rates = tuple(sizes.jobs / parse() for _ in range(min(3, sizes.repetitions)))
    return Samples(rates, note=f"{events:,} events")


_ALONE = "the rows of {} alone, by hand from memory into SQLite, all indexes"
_READ = "the log files of {} found, read and made rows of, nothing written"
ROWS = [
    Row("c6-decoded", "c6 decoded to columns, nothing more, against the lean loop", _c6_decoded, None),
    Row("c6-rows", _ALONE.format("c6") + ", against the lean loop", _c6, None),
    Row("real-rows", _ALONE.format("real trainings") + ", against the lean loop", _real, None),
    Row("real-read", _READ.format("real trainings") + ", against the lean loop", _real_read, None),
    Row("jobs-parsed", "the lean loop over the job dirs", _jobs_parsed, None, shown="figure", unit="jobs/s"),
    Row("jobs-read", _READ.format("the job dirs"), _jobs_read, None, shown="figure", unit="jobs/s"),
    Row("jobs-rows", _ALONE.format("the job dirs"), _jobs, None, shown="figure", unit="jobs/s"),
]
