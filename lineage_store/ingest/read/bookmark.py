"""A log file's record after it was read: its state, its bookmark, the digests of the bytes before that. Pure.

In: the chunk that was read, the rows that were made of it, the time. Out: an Advance, or None when nothing is new to
the store. Does not know the disk or the database.
"""

from __future__ import annotations

from datetime import datetime

from lineage_store.ingest.decode.chunk import Chunk
from lineage_store.ingest.read.log_reader import DIGESTED_BYTES, HEAD_BYTES, digest, likeness_of
from lineage_store.states import FileEvent, FileState, after
from lineage_store.store.records import Advance, FileRows, FileSight, KnownFile
from lineage_store.times import from_unix


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
    state = after(file.state, _event(file, sight, found, caught_up))
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
