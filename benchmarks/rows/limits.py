"""How far a target is from what the database alone, or decoding alone, takes.

In: a corpus. Out: the time that sqlite3 takes for all its rows, by INSERTs of many VALUES, table by table and in key
order, into our schema with all its indexes, in one transaction: the very rows that we store, already in memory, and
what all rows of a statement share bound once; nothing is read or decoded, nothing is asked of the database, no
reference is checked. Where that alone misses a target, no way of decoding meets it with this schema and this driver.
And the time of our decoder alone, in chunks as ingest has them; of all that comes before the database: files found,
read, decoded and made rows of; and of a loop that only parses.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain, compress, count
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from benchmarks import corpora, lean
from benchmarks.databases import fresh, settle
from benchmarks.measuring import Row, Samples, Sizes, alternate, stopwatch
from benchmarks.rows.ingest import parse_alone
from lineage_store import LineageStore
from lineage_store.config import Settings
from lineage_store.eventlog.mindspore import vectorised
from lineage_store.ingest.read.batch import fill
from lineage_store.ingest.scan import survey
from lineage_store.ingest.scan.discovery import FoundFile
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.tables import metadata

_PARAMETERS = 8_000
"""Of one statement; more are no faster."""


_Statement = tuple[str, tuple[Any, ...]]
"""SQL and its parameters."""


def _stored(base_dir: Path) -> tuple[list[_Statement], int]:
    """What inserts the rows of every table, in key order; and how many they are."""
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
    """Of some rows; what all of them share comes first among the parameters. The first row tells the numbers of its
    own, those of the others follow by themselves."""
    columns = list(zip(*rows, strict=True))
    varies = [len(rows) == 1 or any(value != column[0] for value in column) for column in columns]
    shared, own = count(1), count(1 + varies.count(False))
    first = [f"?{next(own if varied else shared)}" for varied in varies]
    others = ["?" if varied else place for varied, place in zip(varies, first, strict=True)]
    values = ", ".join([f"({', '.join(first)})", *[f"({', '.join(others)})"] * (len(rows) - 1)])
    common = tuple(column[0] for column, varied in zip(columns, varies, strict=True) if not varied)
    return insert + values, common + tuple(chain.from_iterable(compress(row, varies) for row in rows))


def _insert(statements: Sequence[_Statement]) -> float:
    with fresh("sqlite") as url:
        LineageStore(url).close()
        connection = sqlite3.connect(str(make_url(url).database))
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -65536")
        settle("sqlite")
        with stopwatch() as seconds:
            with connection:
                for statement, parameters in statements:
                    connection.execute(statement, parameters)
            connection.close()
    return seconds()


def _against_lean_loop(base_dir: Path, sizes: Sizes) -> Samples:
    statements, rows = _stored(base_dir)
    parse = partial(parse_alone, base_dir)
    return alternate(partial(_insert, statements), parse, sizes.repetitions, f"{rows:,} rows")


def _decode(path: Path) -> float:
    """Frame by frame to columns, a chunk at a time."""
    settings = Settings()
    with stopwatch() as seconds, path.open("rb") as log:
        position = 0
        while chunk := os.pread(log.fileno(), settings.chunk_bytes, position):
            decoded = vectorised.decode(chunk, [(0, len(chunk))], max_frame_bytes=settings.max_frame_bytes)
            position += int(decoded.frames.read_to[0]) or len(chunk)
    return seconds()


def _read(base_dir: Path) -> float:
    """Every log file found, read, and made rows of; nothing is asked of a database, nothing written."""
    settings, now = Settings(), datetime.now(UTC)
    with stopwatch() as seconds:
        found = survey.find(base_dir, settings).files
        files = [_unread(number, file) for number, file in enumerate(found)]
        while files:
            batch = fill(base_dir, files[: settings.batch_files], settings, now)
            files = files[batch.files_taken :] + [each.after for each in batch.advances if each.has_more]
    return seconds()


def _unread(number: int, file: FoundFile) -> KnownFile:
    """A file as the store knows it when it was registered."""
    name, place = file.parsed, {"job_id": number, "file_no": 1, "train_id": file.train_id, "name": file.name}
    said = {"format": file.format.name, "kind": name.kind, "file_time": name.timestamp, "device": name.device}
    sizes = ("size_bytes", "byte_offset", "quarantined_bytes", "fingerprint_bytes", "anchor_bytes", "strikes")
    state = {"generation": 1, "current": True, "state": "open", "closed": False}
    known: dict[str, Any] = dict.fromkeys(KnownFile._fields) | dict.fromkeys(sizes, 0) | place | said | state
    return KnownFile(**known)


def _c6_decoded(sizes: Sizes) -> Samples:
    base_dir = corpora.c6(sizes.histogram_events)
    (path,) = base_dir.glob("*/*_MS")
    return alternate(partial(_decode, path), partial(parse_alone, base_dir), sizes.repetitions)


def _c6(sizes: Sizes) -> Samples:
    return _against_lean_loop(corpora.c6(sizes.histogram_events), sizes)


def _real(sizes: Sizes) -> Samples:
    return _against_lean_loop(corpora.real(sizes.real_jobs), sizes)


def _real_read(sizes: Sizes) -> Samples:
    base_dir = corpora.real(sizes.real_jobs)
    return alternate(partial(_read, base_dir), partial(parse_alone, base_dir), sizes.repetitions)


def _jobs_read(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    return Samples(tuple(sizes.jobs / _read(base_dir) for _ in range(min(3, sizes.repetitions))))


def _jobs(sizes: Sizes) -> Samples:
    statements, rows = _stored(corpora.jobs(sizes.jobs))
    rates = tuple(sizes.jobs / _insert(statements) for _ in range(min(3, sizes.repetitions)))
    return Samples(rates, note=f"{rows:,} rows")


def _jobs_parsed(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    events = lean.parse_base_dir(base_dir)
    rates = tuple(sizes.jobs / parse_alone(base_dir) for _ in range(min(3, sizes.repetitions)))
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
