"""Check the store against the log files: all bytes are accounted for, and all rows agree with the file.

In: an engine, a base dir, optionally one job or the size of a random sample. Out: a verdict per log file. Promises:
nothing is changed; samples take bounded memory; a file that grows meanwhile is verified up to the store's bookmark. A
file that cannot be read gets a verdict of its own, without differences.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Row

from lineage_store.config import Settings
from lineage_store.errors import UnknownFormatError
from lineage_store.eventlog.formats import format_of
from lineage_store.findings import Finding, finding
from lineage_store.ingest.decode.lineage_fold import fold
from lineage_store.ingest.problems import unreadable_file
from lineage_store.ingest.read.log_reader import OpenLogFile, digest, open_log_file
from lineage_store.ingest.scan.discovery import path_of
from lineage_store.operations.verify.claims import Claims
from lineage_store.operations.verify.comparing import Found, compare
from lineage_store.operations.verify.walking import Walk
from lineage_store.store.catalog import audit
from lineage_store.store.database.engine import reading
from lineage_store.store.writes.lineage import current_events

ATTEMPTS = 5
"""How often to read on if the bookmark moves while the file is read."""


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The result for one log file. Ingested, quarantined and pending bytes add up to its size."""

    path: str
    size_bytes: int = 0
    ingested_bytes: int = 0
    quarantined_bytes: int = 0
    pending_bytes: int = 0
    differences: tuple[Finding, ...] = ()
    """Where the file and the store disagree; `range_start` is the position in the file."""
    unreadable: Finding | None = None
    """Why it could not be verified; None if it could."""
    thinned_series: int = 0
    """Number of its thinned series, for which the remaining samples, the statistics and the buckets are compared."""


def verify(
    engine: Engine,
    base_dir: Path,
    base_dir_id: int,
    settings: Settings,
    *,
    train_id: str | None = None,
    sample: int | None = None,
) -> Iterator[FileVerdict]:
    """Verify the current log files of a base dir, or of one job (stored id), or `sample` of them at random."""
    with reading(engine) as connection:
        keys = audit.file_keys(connection, base_dir_id, train_id, sample)
    folded = set[int]()
    for key in keys:
        with reading(engine) as connection:
            row = audit.file_row(connection, key)
        if row is not None:
            yield _verify_file(engine, base_dir, row, settings, folded)


def _verify_file(
    engine: Engine, base_dir: Path, row: Row[Any], settings: Settings, folded: set[int]
) -> FileVerdict:
    path, links = path_of(base_dir, row.train_id, row.name), settings.follow_symlinks
    place = base_dir, row.train_id, row.name
    try:
        log_format = format_of(row.format)
        with open_log_file(*place, log_format, follow_symlinks=links) as log, Claims() as claims:
            if _is_rewritten(log, row):
                return _verdict(path, row, log, [finding("unread_rewrite", path, byte_range=(0, None))])
            walk = Walk(log, log_format, row.kind, row.name, claims, settings)
            return _follow(engine, path, row, walk, folded)
    except OSError as error:
        return FileVerdict(path, unreadable=unreadable_file(*place, error))
    except UnknownFormatError as error:
        return _unverified(path, error.message)


def _follow(engine: Engine, path: str, row: Row[Any], walk: Walk, folded: set[int]) -> FileVerdict:
    """Read up to the bookmark and compare; if the bookmark has moved meanwhile, read on to the new one first."""
    for _ in range(ATTEMPTS):
        with reading(engine) as connection:
            given_up = audit.given_up(connection, (row.job_id, row.file_no), row.byte_offset)
        if not walk.to(row.byte_offset, given_up):
            return _verdict(path, row, walk.log, _differences(path, walk.faults))
        # Begin the transaction only now: PostgreSQL ends transactions that are idle while a large file is read.
        with reading(engine) as connection:
            now = audit.file_row(connection, (row.job_id, row.file_no))
            if now is None:
                return _unverified(path, "It was read again meanwhile.")
            if now.byte_offset == row.byte_offset:
                found = [*walk.faults, *compare(connection, walk, now), *_lineage(connection, now, folded)]
                thinned = audit.thinned_series(connection, (row.job_id, row.file_no))
                return _verdict(path, now, walk.log, _differences(path, found), thinned)
        row = now
    return _unverified(path, "It grows too fast to be verified.")


def _lineage(connection: Connection, row: Row[Any], folded: set[int]) -> Iterator[Found]:
    """Yield a difference if a job's lineage is not the fold of its events; check each job only once."""
    if row.kind == "lineage" and row.job_id not in folded:
        folded.add(row.job_id)
        found = fold(current_events(connection, [row.job_id])[row.job_id])
        if found.listed and found.model_lineage != audit.model_lineage(connection, row.job_id):
            yield None, "The job's lineage is not what its lineage events come to."


def _is_rewritten(log: OpenLogFile, row: Row[Any]) -> bool:
    end: int = row.byte_offset
    if end == 0 or log.sight.size_bytes < end:
        return end > 0
    fingerprint = digest(log.read(0, row.fingerprint_bytes))
    anchor = digest(log.read(end - row.anchor_bytes, row.anchor_bytes))
    return bool(fingerprint != row.fingerprint or anchor != row.anchor)


def _unverified(path: str, reason: str) -> FileVerdict:
    return FileVerdict(path, unreadable=finding("unverified_file", path, reason=reason))


def _differences(path: str, found: Iterable[Found]) -> Iterator[Finding]:
    for offset, text in found:
        where = None if offset is None else (offset, None)
        yield finding("difference", path, byte_range=where, difference=text, directory=os.path.dirname(path))


def _verdict(
    path: str, row: Row[Any], log: OpenLogFile, found: Iterable[Finding], thinned_series: int = 0
) -> FileVerdict:
    size = max(log.sight.size_bytes, row.byte_offset)
    return FileVerdict(
        path,
        size_bytes=size,
        ingested_bytes=row.byte_offset - row.quarantined_bytes,
        quarantined_bytes=row.quarantined_bytes,
        pending_bytes=size - row.byte_offset,
        differences=tuple(found),
        thinned_series=thinned_series,
    )
