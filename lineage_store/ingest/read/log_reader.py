"""Bounded reads of one log file, which is opened anew for each; what its record is then; how it compares with a copy.

In: a path, what the store knows of the file and, once decoded, the rows of what was read. Out: the file's size and
times now, and its next bytes, or that it was rewritten; an Advance, or None when nothing is new to the store. Promises:
only regular files beneath the base dir are read; a hole in a file that is given up is skipped, however long; sizes come
from the open file (on network filesystems no others are reliable); no more memory is taken than was asked for, whatever
size the file claims; a file counts as a copy only as long as every byte of it that was compared is in the other one
too, and only where that cannot be opened any more are digests of what was read of it compared. Does not know the
database.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.eventlog.formats import LogFormat, format_of
from lineage_store.ingest.decode.rows import Chunk
from lineage_store.ingest.scan.discovery import is_rewritten, sight_of
from lineage_store.paths import opened
from lineage_store.plain_values import from_unix
from lineage_store.states import FILE_STATE_AFTER, FileEvent, FileState
from lineage_store.store.records import Advance, FileRows, FileSight, KnownFile, relative_path
from lineage_store.texts import from_stored

HEAD_BYTES = 24
"""Log files that share so many first bytes may be copies: a frame with the time of its event is longer, and two events
are not written in the same microsecond."""
DIGESTED_BYTES = 256
"""A file is recognised by digests of this many of its first bytes, and of the bytes before the bookmark."""


@dataclass(frozen=True, slots=True)
class OpenLogFile:
    """An open log file and what `stat` says of it."""

    descriptor: int
    sight: FileSight

    def read(self, position: int, length: int) -> bytes:
        """Read `length` bytes from `position` on; fewer only at the end of the file."""
        parts: list[bytes] = []
        while length > 0 and (part := os.pread(self.descriptor, length, position)):
            parts.append(part)
            position += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def next_data(self, position: int) -> int:
        """Return where the hole at `position` ends, at the latest at the file's end; `position` if there is no hole."""
        try:
            return os.lseek(self.descriptor, position, os.SEEK_DATA)
        except OSError as error:
            return self.sight.size_bytes if error.errno == errno.ENXIO else position


def digest(content: bytes) -> str:
    """Return a digest by which bytes are recognised."""
    return hashlib.sha256(content).hexdigest()[:32]


def likeness_of(file: KnownFile, head: bytes) -> int:
    """Return 64 bits of a digest of what a file has in common with its copies: first bytes, kind, time and device.

    The time is that in the name: nobody changes it who copies a file, and a training that begins anew has another one.
    """
    found = hashlib.sha256(f"{file.kind} {file.file_time} {file.device} ".encode() + head).digest()
    return int.from_bytes(found[:8], signed=True)


@contextmanager
def open_log_file(
    base_dir: Path, train_id: str, name: str, log_format: LogFormat, *, follow_symlinks: bool = False
) -> Iterator[OpenLogFile]:
    """Open a file of a job (stored names) for reading. Raises OSError; LinkError for a link that is not followed."""
    path = from_stored(relative_path(train_id, name))
    with opened(base_dir, follow_symlinks=follow_symlinks) as root, root.file(path) as descriptor:
        yield OpenLogFile(descriptor, sight_of(os.fstat(descriptor), log_format))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file to be read again from its first byte: the bytes before the bookmark changed, or it grew after thinning."""

    file: KnownFile
    sight: FileSight


def read_chunk(
    base_dir: Path, file: KnownFile, settings: Settings, length: int, now: datetime
) -> Chunk | Rewritten:
    """Read up to `length` bytes from the bookmark on. Raises OSError when the file cannot be opened or read."""
    place, links = (base_dir, file.train_id, file.name), settings.follow_symlinks
    with open_log_file(*place, format_of(file.format), follow_symlinks=links) as log:
        before, rewritten = bytes_before(log, file)
        if rewritten or _has_grown_thinned(file, log.sight):
            return Rewritten(file, log.sight)
        give_up_before = _give_up_before(file, log.sight, settings, now)
        skipped = _hole_bytes(log, file.byte_offset, give_up_before, length)
        start = file.byte_offset + skipped
        content = log.read(start, min(length, log.sight.size_bytes - start))
        before = bytes(DIGESTED_BYTES) if skipped else before
        return Chunk(file, log.sight, before, content, give_up_before, skipped)


def bytes_before(log: OpenLogFile, file: KnownFile) -> tuple[bytes, bool]:
    """Return the last bytes before the bookmark, and whether they or the first ones are not those that were read."""
    kept = min(file.byte_offset, DIGESTED_BYTES)
    before = log.read(file.byte_offset - kept, kept)
    beginning = before if kept == file.byte_offset else log.read(0, file.fingerprint_bytes)
    found = (digest(beginning[: file.fingerprint_bytes]), digest(before[kept - file.anchor_bytes :]))
    return before, is_rewritten(file, log.sight.size_bytes, *found)


def _has_grown_thinned(file: KnownFile, sight: FileSight) -> bool:
    """Whether a file whose samples were thinned has grown since it was last checked."""
    return file.thinned and sight.size_bytes > file.byte_offset and sight.stat_stamp != file.stat_stamp


def _hole_bytes(log: OpenLogFile, start: int, end: int, length: int) -> int:
    """How many bytes to skip from the bookmark on: those of a hole that is given up and longer than a chunk.

    A sparse file may claim a size that takes for ever to read. The hole's last bytes are read, for a frame may begin
    with zeros.
    """
    if not DIGESTED_BYTES <= start < end:
        return 0
    hole = min(log.next_data(start), end) - start
    return hole - DIGESTED_BYTES if hole > length else 0


def _give_up_before(file: KnownFile, sight: FileSight, settings: Settings, now: datetime) -> int:
    """The position before which suspect bytes are given up (0: none): once the grace time is over, or when the file is
    closed and the bytes are read a second time."""
    if file.suspect_since is None or file.suspect_size is None:
        return 0
    if sight.closed:
        return sight.size_bytes
    return 0 if _in_grace(file.suspect_since, settings, now) else file.suspect_size


def is_in_grace(file: KnownFile, settings: Settings, now: datetime) -> bool:
    """Whether the bytes behind the bookmark made no frame when last read, and are not given up yet."""
    return file.suspect_since is not None and not file.closed and _in_grace(file.suspect_since, settings, now)


def _in_grace(since: datetime, settings: Settings, now: datetime) -> bool:
    return (now - since).total_seconds() < settings.suspect_grace_s


# ---- A log file's record after it was read: its state, its bookmark, the digests of the bytes before that. Pure


def advance(chunk: Chunk, found: FileRows, now: datetime, *, caught_up: bool) -> Advance | None:
    """Return the move of the bookmark and the file's new record; None, the most frequent case, when nothing changes."""
    file, sight = chunk.file, chunk.sight
    known = _after(chunk, found, now, caught_up=caught_up)
    same = (
        known.byte_offset == file.byte_offset
        and known.state == file.state
        and sight.stat_stamp == file.stat_stamp
        and (found.suspect is None) == (file.suspect_since is None)
        and file.failed_reads == 0
    )
    return None if same else Advance(file, sight, found, known, caught_up)


def _after(chunk: Chunk, found: FileRows, now: datetime, *, caught_up: bool) -> KnownFile:
    file, sight = chunk.file, chunk.sight
    state = FILE_STATE_AFTER[file.state, _event(file, sight, found, caught_up)]
    fingerprint, fingerprint_bytes = file.fingerprint, file.fingerprint_bytes
    anchor, anchor_bytes, likeness = file.anchor, file.anchor_bytes, file.likeness
    if found.end > file.byte_offset:
        anchor_bytes = min(found.end, DIGESTED_BYTES)
        # The fingerprint grows with a short file, so that it does not depend on the steps in which the file grew.
        if fingerprint_bytes < anchor_bytes:
            fingerprint_bytes = anchor_bytes
            fingerprint = digest(chunk.bytes_before(fingerprint_bytes, fingerprint_bytes))
        anchor = digest(chunk.bytes_before(found.end, anchor_bytes))
        if likeness is None and found.end >= HEAD_BYTES:
            likeness = likeness_of(file, chunk.bytes_before(HEAD_BYTES, HEAD_BYTES))
    suspect_since, suspect_size = _suspicion(file, sight, found, now, caught_up)
    firsts = [time for time in (file.first_wall_time, found.first_wall_time) if time is not None]
    times = [time for time in (file.last_wall_time, found.last_wall_time) if time is not None]
    grows_on = file.grown_at is not None and sight.size_bytes > file.size_bytes
    return file._replace(
        current=file.current or state != FileState.REPLACING,
        state=state,
        size_bytes=sight.size_bytes,
        byte_offset=found.end,
        quarantined_bytes=file.quarantined_bytes + found.quarantined_bytes,
        closed=sight.closed,
        stat_stamp=sight.stat_stamp if caught_up else None,
        fingerprint=fingerprint,
        fingerprint_bytes=fingerprint_bytes,
        anchor=anchor,
        anchor_bytes=anchor_bytes,
        likeness=likeness,
        suspect_since=suspect_since,
        suspect_size=suspect_size,
        grown_at=grown_at(file, sight, now),
        growth_seen_at=now if grows_on else file.growth_seen_at,
        first_wall_time=min(firsts, default=None),
        last_wall_time=max(times, default=None),
        failed_reads=0,
        unread=file.unread and not caught_up,
    )


def _event(file: KnownFile, sight: FileSight, found: FileRows, caught_up: bool) -> FileEvent:
    # A new generation replaces the old one only when it is read to its end: bytes that make no frame yet may hold what
    # readers see of the old one.
    if not file.current and not (caught_up and found.suspect is None and found.end > 0):
        return FileEvent.NOT_SETTLED
    if found.suspect is not None:
        return FileEvent.NO_FRAME
    if not sight.closed:
        return FileEvent.READ
    cut_short = caught_up and found.end < sight.size_bytes
    return FileEvent.CUT_SHORT if cut_short else FileEvent.READ_CLOSED


def _suspicion(
    file: KnownFile, sight: FileSight, found: FileRows, now: datetime, caught_up: bool
) -> tuple[datetime | None, int | None]:
    """Since when the bytes at the bookmark make no frame, and the size of the file at that time."""
    suspected = found.suspect is not None
    since, size = file.suspect_since, file.suspect_size
    same_place = suspected and found.end == file.byte_offset
    # Damage longer than a chunk is given up in parts, which do not each wait for the grace time.
    in_the_midst = not caught_up and found.quarantined_bytes > 0 and found.end < (size or 0)
    if since is not None and (same_place or in_the_midst):
        return since, size
    return (now, sight.size_bytes) if suspected else (None, None)


def grown_at(file: KnownFile, sight: FileSight, now: datetime) -> datetime | None:
    """Return when a file was last seen to grow, after it was looked at again."""
    if file.grown_at is None:  # the first look
        return min(now, from_unix(sight.modified_s))
    return now if sight.size_bytes > file.size_bytes else file.grown_at


# ---- The comparison of a log file with another one of its job that begins as it does: is it a copy?

_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


class CopyOutcome(Enum):
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
    outcome: CopyOutcome
    after: KnownFile

    @property
    def is_news(self) -> bool:
        """Whether the store does not know it yet."""
        if self.outcome is CopyOutcome.UNKNOWN:
            return False
        return self.outcome not in (CopyOutcome.WITHIN, CopyOutcome.SAME) or self.after != self.file

    @property
    def original(self) -> KnownFile:
        """The file with which it was compared."""
        assert self.file.original is not None
        return self.file.original


def compare_copy(
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
            return Compared(file, log.sight, CopyOutcome.UNKNOWN, file)
        outcome, upto = found
        return Compared(file, log.sight, outcome, _after_comparing(log, file, outcome, upto, now))


def _opened(base_dir: Path, file: KnownFile, settings: Settings) -> AbstractContextManager[OpenLogFile]:
    links = settings.follow_symlinks
    return open_log_file(base_dir, file.train_id, file.name, format_of(file.format), follow_symlinks=links)


def _compared(log: OpenLogFile, original: OpenLogFile, start: int, length: int) -> tuple[CopyOutcome, int]:
    """Return how the files compare from a position on up to which they are the same, and up to where they are."""
    sizes = log.sight.size_bytes, original.sight.size_bytes
    hole = min(log.next_data(start), original.next_data(start)) - start
    start += hole if length < hole <= min(sizes) - start else 0
    mine, its = log.read(start, length), original.read(start, length)
    if its.startswith(mine):
        upto = start + len(mine)
        if upto < sizes[0]:
            return CopyOutcome.ALIKE, upto
        return (CopyOutcome.SAME if sizes[0] == sizes[1] else CopyOutcome.WITHIN), upto
    if mine.startswith(its):
        return CopyOutcome.HOLDS, start + len(its)
    return CopyOutcome.OTHER, start


def _with_what_was_read(
    log: OpenLogFile, file: KnownFile, original: KnownFile, *, is_gone: bool
) -> tuple[CopyOutcome, int] | None:
    """Compare with the digests of what was read of an original that cannot be opened."""
    read = original.byte_offset
    if read and log.sight.size_bytes >= read and not bytes_before(log, original)[1]:
        return CopyOutcome.HOLDS, read
    if not is_gone:
        return None
    is_known = 0 < file.byte_offset == log.sight.size_bytes
    return (CopyOutcome.WITHIN if is_known else CopyOutcome.OTHER), file.byte_offset


def _after_comparing(
    log: OpenLogFile, file: KnownFile, outcome: CopyOutcome, upto: int, now: datetime
) -> KnownFile:
    kept = min(upto, DIGESTED_BYTES)
    complete = outcome in (CopyOutcome.WITHIN, CopyOutcome.SAME)
    return file._replace(
        current=False,
        state=FILE_STATE_AFTER[file.state, FileEvent.COPIED],
        size_bytes=log.sight.size_bytes,
        byte_offset=upto,
        closed=log.sight.closed,
        stat_stamp=log.sight.stat_stamp if complete else None,
        fingerprint=digest(log.read(0, kept)),
        fingerprint_bytes=kept,
        anchor=digest(log.read(upto - kept, kept)),
        anchor_bytes=kept,
        grown_at=grown_at(file, log.sight, now),
        failed_reads=0,
    )
