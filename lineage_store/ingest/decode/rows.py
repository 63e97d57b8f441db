"""From bytes of log files to rows: which bytes are frames that are taken, which wait, which are given up. Pure.

In: chunks of log files, each beginning at its file's bookmark. Out: frozen rows, and where the next chunks begin.
Promises: bytes that are no frame are never passed over silently: they wait, are suspect, or are quarantined with the
range and the reason; no file has a say in what another one holds, though they are decoded together. Knows no database
and no disk, and not what a frame's events come to (collected.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lineage_store.config import Settings
from lineage_store.eventlog.formats import DecodeColumns, Reader, format_of
from lineage_store.eventlog.records.framing import Frame, NeedData, Suspect, SuspectReason
from lineage_store.ingest.decode.chunk import Chunk
from lineage_store.ingest.decode.collected import Collected
from lineage_store.ingest.decode.sample_columns import SampleGatherer
from lineage_store.store.records import FileRows, SampleColumns

FEWEST_TOGETHER = 32
"""After a damage frames are taken one by one, until so many were good: each time but one would be for nothing where
every other frame is damaged."""
LOOK_AHEAD = 2
"""A buffer that is so many times as long as the longest frame tells of each frame in half of it whether it is one."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What chunks hold: for each its rows and the outcome that ended it, and the samples of all."""

    files: tuple[FileRows, ...]
    outcomes: tuple[NeedData | Suspect, ...]
    samples: tuple[SampleColumns, ...]


def from_chunks(chunks: Sequence[Chunk], settings: Settings) -> Rows:
    """The rows of every complete frame of some files, one chunk of each, as far as a transaction takes them.

    The setting `vectorised` takes the fast path where it can; the rows are the same without it.
    """
    samples = SampleGatherer([chunk.file for chunk in chunks])
    collected = [
        Collected(number, chunk, format_of(chunk.file.format), samples) for number, chunk in enumerate(chunks)
    ]
    for each in collected:
        if each.chunk.skipped:
            start, end = each.chunk.file.byte_offset, each.chunk.position
            each.quarantine(start, end, "damaged_bytes", str(SuspectReason.ZERO_HEADER))
    if settings.vectorised:
        _take_together(collected, settings)
    outcomes = [_take_rest(each, settings) for each in collected]
    gathered = samples.gathered()
    rows = map(Collected.rows, collected, outcomes, gathered.counts, gathered.latest)
    return Rows(tuple(rows), tuple(outcomes), gathered.columns)


def _take_rest(collected: Collected, settings: Settings) -> NeedData | Suspect:
    """Read on to the end of the chunk, past what is given up, or until there are rows enough."""
    chunk, max_frame_bytes = collected.chunk, settings.max_frame_bytes
    reader = collected.format.reader(chunk.content, base=chunk.position, max_frame_bytes=max_frame_bytes)
    good, good_from = 0, collected.index
    while True:
        if chunk.stop is not None and collected.index >= collected.stop:
            return NeedData(chunk.position + collected.index, collected.format.header_bytes)
        found = reader.next(collected.index)
        if (
            isinstance(found, NeedData)
            and chunk.is_last
            and isinstance(reader.find(collected.index + 1), Frame)
        ):
            found = Suspect(found.position, SuspectReason.CUT_SHORT)  # what is missing will not come
        if isinstance(found, Frame):
            if collected.lineage_rows >= settings.batch_rows:
                return NeedData(found.position, found.length)
            collected.take(found, settings)
            collected.index += found.length
            good += 1
            if settings.vectorised and good >= FEWEST_TOGETHER:
                # as far as frames were good: what a damage there makes of no use is no more than was of use
                _take_together([collected], settings, most=2 * (collected.index - good_from))
        elif isinstance(found, Suspect) and _end(collected, found) <= chunk.give_up_before:
            if wanted := _give_up(collected, reader, found, max_frame_bytes):
                return NeedData(found.position, wanted)
            good, good_from = 0, collected.index
        else:
            return found


def _end(collected: Collected, suspect: Suspect) -> int:
    """Behind the bytes that are suspect: the frame's, or its header's where that tells no length."""
    return suspect.end if suspect.end is not None else suspect.position + collected.format.header_bytes


def _give_up(collected: Collected, reader: Reader, suspect: Suspect, max_frame_bytes: int) -> int:
    """Quarantine a place that makes no frame, up to where reading goes on; or nothing, and how many bytes tell where.

    A header whose frame the buffer does not hold may begin the next frame. Where most of the buffer follows it, a
    longer one is asked for, twice as long as that frame needs: any number of headers may claim a long frame, and
    reading so much for each of them would never end.
    """
    chunk, position = collected.chunk, suspect.position
    base, end_of_buffer = chunk.position, chunk.position + len(chunk.content)
    searched = end_of_buffer - collected.format.header_bytes + 1  # the bytes from here on may begin a header
    end = suspect.end if suspect.end is not None and _is_searched(collected, suspect.end, searched) else None
    # a frame inside the claimed range means that bytes were cut out of this one
    following = reader.find(position - base + 1, None if end is None else end - base)
    if isinstance(following, NeedData):
        needed, in_file = following.position + following.length - position, chunk.sight.size_bytes - position
        if needed <= in_file and following.position - position < (end_of_buffer - position) / 2:
            return min(2 * needed, LOOK_AHEAD * max_frame_bytes, in_file)
    if following or end is None:
        end = following.position if following else max(position + 1, searched)
    collected.quarantine(position, end, "damaged_bytes", str(suspect.reason))
    collected.index = end - base
    return 0


def _is_searched(collected: Collected, end: int, searched: int) -> bool:
    """Whether every frame that begins before `end` can be seen in the buffer, or is not there to be seen."""
    chunk = collected.chunk
    return end <= searched or chunk.position + len(chunk.content) >= chunk.give_up_before


def _take_together(several: Sequence[Collected], settings: Settings, most: int | None = None) -> None:
    """Take the frames of all summary files of a format at once, where it can decode them so: `most` bytes of each."""
    by_format: dict[str, list[Collected]] = defaultdict(list)
    for each in several:
        if each.chunk.file.kind == "summary":
            by_format[each.format.name].append(each)
    for alike in by_format.values():
        if decode_columns := alike[0].format.decode_columns:
            _take_many(alike, decode_columns, settings, most)


def _take_many(
    several: Sequence[Collected], decode_columns: DecodeColumns, settings: Settings, most: int | None
) -> None:
    """Take all valid frames from where each chunk has been read to, of all at once."""
    contents = [each.chunk.content for each in several]
    sizes, stops = np.array([len(content) for content in contents]), np.array([each.stop for each in several])
    begins = np.cumsum(sizes) - sizes
    buffer = contents[0] if len(contents) == 1 else b"".join(contents)
    unread = begins + np.array([each.index for each in several])
    ends = begins + stops if most is None else np.minimum(begins + stops, unread + most)
    segments = list(zip(unread.tolist(), ends.tolist(), strict=True))
    decoded = decode_columns(buffer, segments, max_frame_bytes=settings.max_frame_bytes)
    frames = decoded.frames
    offsets = np.array([each.chunk.position for each in several]) - begins
    positions = frames.start + offsets[frames.segment]
    several[0].samples.add_decoded(
        decoded, np.array([each.number for each in several])[frames.segment], positions
    )
    read = np.ones(len(frames.start), np.bool_)
    read[decoded.left] = False
    counts = np.bincount(frames.segment[read], minlength=len(several)).tolist()
    for each, count, index in zip(several, counts, (frames.read_to - begins).tolist(), strict=True):
        each.event_count += count
        each.index = index
    left = decoded.left
    places = zip(frames.payload_start[left].tolist(), frames.payload_end[left].tolist(), strict=True)
    about = zip(
        positions[left].tolist(), frames.length[left].tolist(), frames.checksum[left].tolist(), strict=True
    )
    for number, (start, end), (position, length, checksum) in zip(
        frames.segment[left].tolist(), places, about, strict=True
    ):
        several[number].take(Frame(position, length, buffer[start:end], checksum), settings)
