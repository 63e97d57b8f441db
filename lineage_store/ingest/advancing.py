"""A look at log files: open each afresh, see whether it is still the same, read one stretch, make rows of all.

In: files as the store knows them. Out: their advances and samples, which were rewritten, which could not be read;
nothing of files that have nothing new to say. Many small files are decoded as one. Promises: what is held is bounded by
one chunk and what the last file adds to it, or by one frame where that is longer. Does not know the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.eventlog.framing import NeedData, Suspect
from lineage_store.ingest import rows
from lineage_store.ingest.changes import is_rewritten
from lineage_store.ingest.discovery import path_of
from lineage_store.ingest.reader import DIGESTED_BYTES, digest, open_log_file
from lineage_store.ingest.rows import Stretch
from lineage_store.store.batch import Advance, FileRows, FileSight, KnownFile, SampleColumns


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to look at."""

    file: KnownFile
    grace_is_over: bool = False
    """Whether its suspect bytes have been waited for long enough."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The bytes before the bookmark are no longer those that were read."""

    file: KnownFile
    sight: FileSight


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at some files showed."""

    advances: list[Advance] = field(default_factory=list)
    samples: list[SampleColumns] = field(default_factory=list)
    rewritten: list[Rewritten] = field(default_factory=list)
    failures: list[tuple[KnownFile, OSError]] = field(default_factory=list)


def look(base_dir: Path, files: Iterable[Wanted], settings: Settings) -> Look:
    """Look at files until a chunk has been read; no more than that is taken from an iterator."""
    seen = Look()
    readings = list(_readings(base_dir, files, settings, seen, settings.chunk_bytes))
    for wanted, length in _take(readings, settings, seen):
        readings = list(_readings(base_dir, [wanted], settings, seen, length))
        _take(readings, settings, seen)
    return seen


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read of a file: the bytes before its bookmark, as far as digests need them, and a stretch behind it."""

    wanted: Wanted
    sight: FileSight
    before: bytes
    stretch: Stretch

    def bytes_before(self, end: int, length: int) -> bytes:
        """The `length` bytes before the file position `end`, which lies in the stretch or at its beginning."""
        index = end - self.stretch.position
        if index >= length:
            return self.stretch.content[index - length : index]
        return (self.before + self.stretch.content[:index])[-length:]


def _readings(
    base_dir: Path, files: Iterable[Wanted], settings: Settings, seen: Look, length: int
) -> Iterator[_Reading]:
    """Read up to `length` bytes of each file, until so many were read of all."""
    total = 0
    for wanted in files:
        try:
            reading = _read(base_dir, wanted, settings, length)
        except FileNotFoundError:
            continue  # it went since it was found; the next pass will miss it
        except OSError as error:
            seen.failures.append((wanted.file, error))
            continue
        if isinstance(reading, Rewritten):
            seen.rewritten.append(reading)
            continue
        yield reading
        total += len(reading.stretch.content)
        if total >= length:
            return


def _read(base_dir: Path, wanted: Wanted, settings: Settings, length: int) -> _Reading | Rewritten:
    """Raises OSError when the file cannot be opened or read."""
    file = wanted.file
    path = path_of(base_dir, file.train_id, file.name)
    with open_log_file(path, base_dir, follow_symlinks=settings.follow_symlinks) as log:
        kept = min(file.byte_offset, DIGESTED_BYTES)
        before = log.read(file.byte_offset - kept, kept)
        beginning = before if kept == file.byte_offset else log.read(0, file.fingerprint_bytes)
        found = (digest(beginning[: file.fingerprint_bytes]), digest(before[kept - file.anchor_bytes :]))
        if is_rewritten(file, log.sight.size_bytes, *found):
            return Rewritten(file, log.sight)
        content = log.read(file.byte_offset, length)
    return _Reading(wanted, log.sight, before, Stretch(file, content, _give_up_before(wanted, log.sight)))


def _give_up_before(wanted: Wanted, sight: FileSight) -> int:
    """Suspect bytes are given up once the grace time is over, or when a closed file was opened a second time."""
    file = wanted.file
    if file.suspect_since is None or file.suspect_size is None:
        return 0
    return sight.size_bytes if sight.closed else file.suspect_size if wanted.grace_is_over else 0


def _take(readings: Sequence[_Reading], settings: Settings, seen: Look) -> list[tuple[Wanted, int]]:
    """Make rows of what was read; which files must be read again, and how far, since their next frame is longer."""
    found = rows.from_stretches(
        [reading.stretch for reading in readings],
        max_frame_bytes=settings.max_frame_bytes,
        vectorised=settings.vectorised,
    )
    seen.samples.extend(found.samples)
    longer = []
    for reading, of_file, outcome in zip(readings, found.files, found.outcomes, strict=True):
        if length := _longer(reading, of_file, outcome, settings):
            longer.append((reading.wanted, length))
            continue
        caught_up = isinstance(outcome, Suspect) or _is_incomplete(outcome, reading.sight)
        advance = _advance(reading, of_file, caught_up)
        if _says_something(advance):
            seen.advances.append(advance)
    return longer


def _longer(reading: _Reading, found: FileRows, outcome: NeedData | Suspect, settings: Settings) -> int:
    """How many bytes the first frame takes where the stretch does not hold it, but the file does; else 0."""
    if isinstance(outcome, Suspect) or found.end > reading.stretch.position:
        return 0
    length = min(outcome.length, settings.max_frame_bytes)
    in_file = found.end + length <= reading.sight.size_bytes
    return length if in_file and length > len(reading.stretch.content) else 0


def _is_incomplete(outcome: NeedData, sight: FileSight) -> bool:
    """Whether the file, as it is now, does not hold the whole of the next frame."""
    return outcome.position + outcome.length > sight.size_bytes


def _advance(reading: _Reading, found: FileRows, caught_up: bool) -> Advance:
    file, sight = reading.wanted.file, reading.sight
    fingerprint, fingerprint_bytes = file.fingerprint, file.fingerprint_bytes
    anchor, anchor_bytes = file.anchor, file.anchor_bytes
    if found.end > file.byte_offset:
        anchor_bytes = min(found.end, DIGESTED_BYTES)
        # The fingerprint grows with a short file, so that it does not tell in which steps the file grew.
        if fingerprint_bytes < anchor_bytes:
            fingerprint_bytes = anchor_bytes
            fingerprint = digest(reading.bytes_before(fingerprint_bytes, fingerprint_bytes))
        anchor = digest(reading.bytes_before(found.end, anchor_bytes))
    state = _state(file, sight, found, caught_up)
    return Advance(file, sight, found, fingerprint, fingerprint_bytes, anchor, anchor_bytes, state, caught_up)


def _state(file: KnownFile, sight: FileSight, found: FileRows, caught_up: bool) -> str:
    if not file.current and not (caught_up and found.end > 0):
        return "replacing"
    if found.suspect is not None:
        return "suspect"
    if not sight.closed:
        return "open"
    return "torn" if caught_up and found.end < sight.size_bytes else "closed"


def _says_something(advance: Advance) -> bool:
    """Whether the store would learn anything; most looks at idle files end here."""
    file = advance.file
    same = (
        advance.rows.end == file.byte_offset
        and advance.state == file.state
        and advance.sight.stat_stamp == file.stat_stamp
        and (advance.rows.suspect is None) == (file.suspect_since is None)
    )
    return not same
