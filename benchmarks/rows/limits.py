"""The time of the parts of ingest before the database.

In: a corpus. Out: the time of our decoder alone, with ingest's chunks; of everything before the database: finding,
reading and decoding files and making rows; and of a loop that only parses. `benchmarks.floor` times the database alone.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import corpora, lean
from benchmarks.measuring import Row, Samples, Sizes, alternate, stopwatch
from benchmarks.rows.ingest import parse_alone
from lineage_store.config import Settings
from lineage_store.eventlog.mindspore import event_columns
from lineage_store.ingest.read.batch import fill
from lineage_store.ingest.scan import survey
from lineage_store.ingest.scan.discovery import FoundFile
from lineage_store.store.records import KnownFile


def _decode(path: Path) -> float:
    """Decode a file to columns, chunk by chunk; return the seconds."""
    settings = Settings()
    with stopwatch() as seconds, path.open("rb") as log:
        position = 0
        while chunk := os.pread(log.fileno(), settings.chunk_bytes, position):
            decoded = event_columns.decode_columns(
                chunk, [(0, len(chunk))], max_frame_bytes=settings.max_frame_bytes
            )
            position += int(decoded.frames.read_to[0]) or len(chunk)
    return seconds()


def _read(base_dir: Path) -> float:
    """Find and read every log file and make its rows, without any database; return the seconds."""
    settings, now = Settings(), datetime.now(UTC)
    with stopwatch() as seconds:
        found = survey.find_files(base_dir, settings).files
        files = [_unread(number, file) for number, file in enumerate(found)]
        while files:
            batch = fill(base_dir, files[: settings.batch_files], settings, now)
            files = files[batch.files_taken :] + [each.after for each in batch.advances if each.has_more]
    return seconds()


def _unread(number: int, file: FoundFile) -> KnownFile:
    """Return a file as the store knows it right after its registration."""
    name, place = file.parsed, {"job_id": number, "file_no": 1, "train_id": file.train_id, "name": file.name}
    said = {"format": file.format.name, "kind": name.kind, "file_time": name.timestamp, "device": name.device}
    sizes = (
        "size_bytes",
        "byte_offset",
        "quarantined_bytes",
        "fingerprint_bytes",
        "anchor_bytes",
        "failed_reads",
    )
    state = {"generation": 1, "current": True, "state": "open", "closed": False}
    known: dict[str, Any] = dict.fromkeys(KnownFile._fields) | dict.fromkeys(sizes, 0) | place | said | state
    return KnownFile(**known)


def _c6_decoded(sizes: Sizes) -> Samples:
    base_dir = corpora.c6(sizes.histogram_events)
    (path,) = base_dir.glob("*/*_MS")
    return alternate(partial(_decode, path), partial(parse_alone, base_dir), sizes.repetitions)


def _real_read(sizes: Sizes) -> Samples:
    base_dir = corpora.real(sizes.real_jobs)
    return alternate(partial(_read, base_dir), partial(parse_alone, base_dir), sizes.repetitions)


def _jobs_read(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    return Samples(tuple(sizes.jobs / _read(base_dir) for _ in range(min(3, sizes.repetitions))))


def _jobs_parsed(sizes: Sizes) -> Samples:
    base_dir = corpora.jobs(sizes.jobs)
    events = lean.parse_base_dir(base_dir)
    rates = tuple(sizes.jobs / parse_alone(base_dir) for _ in range(min(3, sizes.repetitions)))
    return Samples(rates, note=f"{events:,} events")


_READ = "the log files of {} found, read and made rows of, nothing written"
ROWS = [
    Row("c6-decoded", "c6 decoded to columns, nothing more, against the lean loop", _c6_decoded, None),
    Row("real-read", _READ.format("real trainings") + ", against the lean loop", _real_read, None),
    Row("jobs-parsed", "the lean loop over the job dirs", _jobs_parsed, None, shown="figure", unit="jobs/s"),
    Row("jobs-read", _READ.format("the job dirs"), _jobs_read, None, shown="figure", unit="jobs/s"),
]
