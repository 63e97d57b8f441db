"""The comparison of a log file with another one of its job that begins as it does: is it a copy?

In: a file whose `original` is set. Out: how it compares, as far as it was read. Promises: both files are opened anew
and compared byte by byte, a bounded part at a time; a file counts as a copy only as long as every byte of it that was
compared is in the other one too. Only where the other one cannot be opened any more are digests compared with those of
what was read of it. Does not know the database.
"""

from __future__ import annotations

import errno
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.eventlog.formats import format_of
from lineage_store.ingest.read import bookmark
from lineage_store.ingest.read.log_reader import (
    DIGESTED_BYTES,
    OpenLogFile,
    Rewritten,
    bytes_before,
    digest,
    open_log_file,
)
from lineage_store.states import FileEvent, after
from lineage_store.store.records import FileSight, KnownFile

_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


class Outcome(Enum):
    """How a file compares with its original."""

    ALIKE = auto()
    """All bytes so far are the same; there are more to compare."""
    WITHIN = auto()
    """All its bytes are in the original, which has more."""
    SAME = auto()
    """Both have the same bytes."""
    HOLDS = auto()
    """It has all bytes of the original, or all that were read of it, and perhaps more."""
    OTHER = auto()
    """It is no copy."""
    UNKNOWN = auto()
    """The original changes just now, or cannot be read now: compare again later."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome of comparing a file; `after` is its row then, its bookmark behind the bytes that are the same."""

    file: KnownFile
    sight: FileSight
    outcome: Outcome
    after: KnownFile

    @property
    def is_news(self) -> bool:
        """Whether the store does not know it yet."""
        if self.outcome is Outcome.UNKNOWN:
            return False
        return self.outcome not in (Outcome.WITHIN, Outcome.SAME) or self.after != self.file

    @property
    def original(self) -> KnownFile:
        """The file with which it was compared."""
        assert self.file.original is not None
        return self.file.original


def compare(
    base_dir: Path, file: KnownFile, settings: Settings, length: int, now: datetime
) -> Compared | Rewritten:
    """Compare up to `length` bytes from the bookmark on. Raises OSError when the file cannot be opened or read."""
    assert file.original is not None
    with _opened(base_dir, file, settings) as log:
        if bytes_before(log, file)[1]:
            return Rewritten(file, log.sight)
        try:
            with _opened(base_dir, file.original, settings) as original:
                rewritten = bytes_before(original, file.original)[1]
                found = None if rewritten else _compared(log, original, file.byte_offset, length)
        except OSError as error:
            found = _with_what_was_read(log, file, file.original, is_gone=error.errno in _GONE)
        if found is None:
            return Compared(file, log.sight, Outcome.UNKNOWN, file)
        outcome, upto = found
        return Compared(file, log.sight, outcome, _after(log, file, outcome, upto, now))


def _opened(base_dir: Path, file: KnownFile, settings: Settings) -> AbstractContextManager[OpenLogFile]:
    links = settings.follow_symlinks
    return open_log_file(base_dir, file.train_id, file.name, format_of(file.format), follow_symlinks=links)


def _compared(log: OpenLogFile, original: OpenLogFile, start: int, length: int) -> tuple[Outcome, int]:
    """Return how the files compare from a position on up to which they are the same, and up to where they are."""
    sizes = log.sight.size_bytes, original.sight.size_bytes
    hole = min(log.next_data(start), original.next_data(start)) - start
    start += hole if length < hole <= min(sizes) - start else 0
    mine, its = log.read(start, length), original.read(start, length)
    if its.startswith(mine):
        upto = start + len(mine)
        if upto < sizes[0]:
            return Outcome.ALIKE, upto
        return (Outcome.SAME if sizes[0] == sizes[1] else Outcome.WITHIN), upto
    if mine.startswith(its):
        return Outcome.HOLDS, start + len(its)
    return Outcome.OTHER, start


def _with_what_was_read(
    log: OpenLogFile, file: KnownFile, original: KnownFile, *, is_gone: bool
) -> tuple[Outcome, int] | None:
    """Compare with the digests of what was read of an original that cannot be opened."""
    read = original.byte_offset
    if read and log.sight.size_bytes >= read and not bytes_before(log, original)[1]:
        return Outcome.HOLDS, read
    if not is_gone:
        return None
    is_known = 0 < file.byte_offset == log.sight.size_bytes
    return (Outcome.WITHIN if is_known else Outcome.OTHER), file.byte_offset


def _after(log: OpenLogFile, file: KnownFile, outcome: Outcome, upto: int, now: datetime) -> KnownFile:
    kept = min(upto, DIGESTED_BYTES)
    complete = outcome in (Outcome.WITHIN, Outcome.SAME)
    return file._replace(
        current=False,
        state=after(file.state, FileEvent.COPIED),
        size_bytes=log.sight.size_bytes,
        byte_offset=upto,
        closed=log.sight.closed,
        stat_stamp=log.sight.stat_stamp if complete else None,
        fingerprint=digest(log.read(0, kept)),
        fingerprint_bytes=kept,
        anchor=digest(log.read(upto - kept, kept)),
        anchor_bytes=kept,
        grown_at=bookmark.grown_at(file, log.sight, now),
        failed_reads=0,
    )
