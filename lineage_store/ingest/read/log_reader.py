"""Bounded reads of one log file, which is opened anew for each.

In: a path, and what the store knows of the file. Out: the file's size and times now, and its next bytes, or that it was
rewritten. Promises: only regular files beneath the base dir are read; a hole in a file that is given up is skipped,
however long; sizes come from the open file (on network filesystems no others are reliable); no more memory is taken
than was asked for, whatever size the file claims.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lineage_store.beneath import opened
from lineage_store.config import Settings
from lineage_store.eventlog.formats import LogFormat, format_of
from lineage_store.ingest.decode.chunk import Chunk
from lineage_store.ingest.scan.diff import is_rewritten
from lineage_store.ingest.scan.discovery import sight_of
from lineage_store.store.records import FileSight, KnownFile, relative_path
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
    """Whether a file whose samples were thinned has grown since it was last looked at."""
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


def waits(file: KnownFile, settings: Settings, now: datetime) -> bool:
    """Whether the bytes behind the bookmark made no frame when last read, and are not given up yet."""
    return file.suspect_since is not None and not file.closed and _in_grace(file.suspect_since, settings, now)


def _in_grace(since: datetime, settings: Settings, now: datetime) -> bool:
    return (now - since).total_seconds() < settings.suspect_grace_s
