"""One look at one log file: open it afresh, see whether it is still the same, read one stretch, make rows.

In: a file as the store knows it. Out: an Advance, the news that it was rewritten, or None when there is nothing to say.
Promises: memory is bounded by one chunk, or by one frame where that is longer. Does not know the database.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.eventlog.framing import NeedData, Suspect
from lineage_store.ingest import rows
from lineage_store.ingest.discovery import path_of
from lineage_store.ingest.reader import DIGESTED_BYTES, OpenLogFile, digest, open_log_file
from lineage_store.ingest.rows import Stretch
from lineage_store.store.batch import Advance, FileRows, FileSight, KnownFile


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The bytes before the bookmark are no longer those that were read."""

    file: KnownFile
    sight: FileSight


def look(
    base_dir: Path, file: KnownFile, settings: Settings, *, grace_is_over: bool
) -> Advance | Rewritten | None:
    """Look at a file and read on from its bookmark. Raises OSError when it cannot be opened or read."""
    path = path_of(base_dir, file.train_id, file.name)
    with open_log_file(path, base_dir, follow_symlinks=settings.follow_symlinks) as log:
        if log.is_rewritten(file):
            return Rewritten(file, log.sight)
        content = log.read(file.byte_offset, settings.chunk_bytes)
        found, outcome = _read(file, content, settings, grace_is_over, log.sight)
        if isinstance(outcome, NeedData) and outcome.length > len(content) and found.end == file.byte_offset:
            wanted = min(outcome.length, settings.max_frame_bytes)
            if file.byte_offset + wanted <= log.sight.size_bytes:
                content = log.read(file.byte_offset, wanted)
                found, outcome = _read(file, content, settings, grace_is_over, log.sight)
        caught_up = isinstance(outcome, Suspect) or _is_incomplete(outcome, log.sight)
        advance = _advance(file, log, content, found, caught_up)
    return advance if _says_something(advance, file) else None


def _read(
    file: KnownFile, content: bytes, settings: Settings, grace_is_over: bool, sight: FileSight
) -> tuple[FileRows, NeedData | Suspect]:
    """Suspect bytes are given up once the grace time is over, or when a closed file was opened a second time."""
    give_up_before = 0
    if file.suspect_since is not None and file.suspect_size is not None:
        give_up_before = sight.size_bytes if sight.closed else file.suspect_size if grace_is_over else 0
    stretch = Stretch(content, file.byte_offset, give_up_before)
    return rows.from_stretch(
        file, stretch, max_frame_bytes=settings.max_frame_bytes, vectorised=settings.vectorised
    )


def _is_incomplete(outcome: NeedData, sight: FileSight) -> bool:
    """Whether the file, as it is now, does not hold the whole of the next frame."""
    return outcome.position + outcome.length > sight.size_bytes


def _advance(file: KnownFile, log: OpenLogFile, content: bytes, found: FileRows, caught_up: bool) -> Advance:
    fingerprint, fingerprint_bytes = file.fingerprint, file.fingerprint_bytes
    anchor, anchor_bytes = file.anchor, file.anchor_bytes
    if found.end > file.byte_offset:
        anchor_bytes = min(found.end, DIGESTED_BYTES)
        # The fingerprint grows with a short file, so that it does not tell in which steps the file grew.
        if fingerprint_bytes < anchor_bytes:
            fingerprint_bytes = anchor_bytes
            fingerprint = digest(
                _before(log, content, file.byte_offset, fingerprint_bytes, fingerprint_bytes)
            )
        anchor = digest(_before(log, content, file.byte_offset, found.end, anchor_bytes))
    state = _state(file, log.sight, found, caught_up)
    return Advance(
        file, log.sight, found, fingerprint, fingerprint_bytes, anchor, anchor_bytes, state, caught_up
    )


def _before(log: OpenLogFile, content: bytes, base: int, end: int, length: int) -> bytes:
    """The `length` bytes before `end`, from the chunk at `base` where it holds them."""
    if end - length >= base:
        return content[end - length - base : end - base]
    return log.read(end - length, length)


def _state(file: KnownFile, sight: FileSight, found: FileRows, caught_up: bool) -> str:
    if not file.current and not (caught_up and found.end > 0):
        return "replacing"
    if found.suspect is not None:
        return "suspect"
    if not sight.closed:
        return "open"
    return "torn" if caught_up and found.end < sight.size_bytes else "closed"


def _says_something(advance: Advance, file: KnownFile) -> bool:
    """Whether the store would learn anything; most looks at idle files end here."""
    same = (
        advance.rows.end == file.byte_offset
        and advance.state == file.state
        and advance.sight.stat_stamp == file.stat_stamp
        and (advance.rows.suspect is None) == (file.suspect_since is None)
    )
    return not same
