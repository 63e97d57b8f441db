"""A look at log files: open each afresh, see whether it is still the same, read one stretch, make rows of all.

In: files as the store knows them. Out: their advances and samples, which were rewritten, which could not be read;
nothing of files that have nothing new to say. Many small files are decoded as one. Promises: what is held is bounded by
one chunk and what the last file adds to it, or by one frame where that is longer. Does not know the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.eventlog.records.framing import NeedData, Suspect
from lineage_store.ingest.decode import rows
from lineage_store.ingest.decode.rows import Stretch
from lineage_store.ingest.read import bookmark
from lineage_store.ingest.read.log_reader import Reading, Rewritten, Wanted, read_on
from lineage_store.store.records import Advance, FileRows, KnownFile, SampleColumns


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at some files showed."""

    advances: list[Advance] = field(default_factory=list)
    samples: list[SampleColumns] = field(default_factory=list)
    rewritten: list[Rewritten] = field(default_factory=list)
    failures: list[tuple[KnownFile, OSError]] = field(default_factory=list)


def look(base_dir: Path, files: Iterable[Wanted], settings: Settings, now: datetime) -> Look:
    """Look at files until a chunk has been read; no more than that is taken from an iterator."""
    seen = Look()
    first = _readings(base_dir, files, settings, seen, settings.chunk_bytes)
    for wanted, length in _take(list(first), settings, now, seen):
        longer = _readings(base_dir, [wanted], settings, seen, length)
        _take(list(longer), settings, now, seen)
    return seen


def _readings(
    base_dir: Path, files: Iterable[Wanted], settings: Settings, seen: Look, length: int
) -> Iterator[Reading]:
    """Read up to `length` bytes of each file, until so many were read of all."""
    total = 0
    for wanted in files:
        try:
            reading = read_on(base_dir, wanted, settings, length)
        except FileNotFoundError:
            continue  # it went since it was found; the next pass will miss it
        except OSError as error:
            seen.failures.append((wanted.file, error))
            continue
        if isinstance(reading, Rewritten):
            seen.rewritten.append(reading)
            continue
        yield reading
        total += len(reading.content)
        if total >= length:
            return


def _take(
    readings: Sequence[Reading], settings: Settings, now: datetime, seen: Look
) -> list[tuple[Wanted, int]]:
    """Make rows of what was read; which files must be read again, and how far, since their next frame is longer."""
    found = rows.from_stretches(
        [Stretch(each.wanted.file, each.content, _give_up_before(each), _is_last(each)) for each in readings],
        max_frame_bytes=settings.max_frame_bytes,
        vectorised=settings.vectorised,
    )
    seen.samples.extend(found.samples)
    longer = []
    for reading, of_file, ended in zip(readings, found.files, found.outcomes, strict=True):
        if length := _longer(reading, of_file, ended, settings):
            longer.append((reading.wanted, length))
            continue
        advance = bookmark.advance(reading, of_file, now, caught_up=_caught_up(reading, ended))
        if advance is not None:
            seen.advances.append(advance)
    return longer


def _give_up_before(reading: Reading) -> int:
    """Suspect bytes are given up once the grace time is over, or when a closed file was opened a second time."""
    file, sight = reading.wanted.file, reading.sight
    if file.suspect_since is None or file.suspect_size is None:
        return 0
    return sight.size_bytes if sight.closed else file.suspect_size if reading.wanted.grace_is_over else 0


def _is_last(reading: Reading) -> bool:
    file, sight = reading.wanted.file, reading.sight
    return sight.closed and file.byte_offset + len(reading.content) >= sight.size_bytes


def _caught_up(reading: Reading, ended: NeedData | Suspect) -> bool:
    """Whether nothing more can be read now. The rest of a finished file is looked at, whatever a frame claims."""
    if isinstance(ended, Suspect):
        return True
    in_file = ended.position + ended.length <= reading.sight.size_bytes
    return not in_file and (not reading.sight.closed or _is_last(reading))


def _longer(reading: Reading, found: FileRows, ended: NeedData | Suspect, settings: Settings) -> int:
    """How many bytes the first frame takes where not the stretch but the file holds it; else 0.

    Of a finished file's last frame it is what there is, for other frames may follow in it.
    """
    if isinstance(ended, Suspect) or found.end > reading.wanted.file.byte_offset:
        return 0
    length, in_file = min(ended.length, settings.max_frame_bytes), reading.sight.size_bytes - found.end
    if reading.sight.closed:
        length = min(length, in_file)
    return length if len(reading.content) < length <= in_file else 0
