"""From bytes of log files to rows: decide which bytes are decoded as frames, which wait, which are given up. Pure.

In: chunks of log files, each beginning at its file's bookmark or behind a hole there that is given up. Out: frozen
rows, and where the next chunks begin. Promises: bytes that are no frame are never skipped silently: they wait, are
suspect, or are quarantined with the range and the reason; although files are decoded together, the result for one does
not depend on the others, but that lineage is folded here only if its job has no second lineage file among them. Does
not know the database or the disk, nor how a frame becomes rows (collected.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
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
"""After damage the fast path is tried again only after this many good frames: where every other frame is damaged, it
would be started for a single frame each time."""
LOOK_AHEAD = 2
"""A buffer this many times as long as the longest frame contains every frame that begins in its first half."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The content of chunks: for each chunk its rows and why decoding ended there; and the samples of all."""

    files: tuple[FileRows, ...]
    outcomes: tuple[NeedData | Suspect, ...]
    samples: tuple[SampleColumns, ...]


def from_chunks(chunks: Sequence[Chunk], settings: Settings) -> Rows:
    """Decode all complete frames of chunks, one chunk per file; stop in a file at `batch_rows` rows of lineage.

    With the setting `vectorised` the fast path is used where possible; the rows are the same without it.
    """
    samples = SampleGatherer([chunk.file for chunk in chunks])
    collected = [
        Collected(number, chunk, format_of(chunk.file.format), samples, settings.most_damages)
        for number, chunk in enumerate(chunks)
    ]
    for each in collected:
        if each.chunk.skipped:
            start, end = each.chunk.file.byte_offset, each.chunk.position
            each.quarantine(start, end, "damaged_bytes", str(SuspectReason.ZERO_HEADER))
    if settings.vectorised:
        _take_together(collected, settings)
    outcomes = [_take_rest(each, settings) for each in collected]
    gathered = samples.gathered()
    times = gathered.earliest, gathered.latest
    found = zip(collected, outcomes, gathered.counts, *times, strict=True)
    lineage_files = Counter(each.file.job_id for each in chunks if each.file.kind == "lineage")
    rows = [
        each.rows(outcome, count, earliest, latest, fold=lineage_files[each.chunk.file.job_id] == 1)
        for each, outcome, count, earliest, latest in found
    ]
    return Rows(tuple(rows), tuple(outcomes), gathered.columns)


def _take_rest(collected: Collected, settings: Settings) -> NeedData | Suspect:
    """Decode the rest of a chunk and give up damage, until more bytes are needed, some are suspect, or rows suffice.

    Returns why decoding ended.
    """
    chunk, max_frame_bytes = collected.chunk, settings.max_frame_bytes
    reader = collected.format.reader(chunk.content, base=chunk.position, max_frame_bytes=max_frame_bytes)
    good, good_from = 0, collected.index
    while True:
        if chunk.stop is not None and collected.index >= collected.stop:
            return NeedData(chunk.position + collected.index, collected.format.header_bytes)
        found = reader.next(collected.index)
        is_cut = isinstance(found, NeedData) and chunk.is_last
        if is_cut and isinstance(reader.find(collected.index + 1), Frame):
            found = Suspect(found.position, SuspectReason.CUT_SHORT)  # the rest will not be written
        if isinstance(found, Frame):
            if collected.lineage_rows >= settings.batch_rows:
                return NeedData(found.position, found.length)
            collected.take(found, settings)
            collected.index += found.length
            good += 1
            if settings.vectorised and good >= FEWEST_TOGETHER:
                # At most twice as far as frames were good: damage then wastes no more work than was useful before.
                _take_together([collected], settings, most=2 * (collected.index - good_from))
        elif isinstance(found, Suspect) and _end(collected, found) <= chunk.give_up_before:
            if wanted := _give_up(collected, reader, found, max_frame_bytes):
                return NeedData(found.position, wanted)
            good, good_from = 0, collected.index
        else:
            return found


def _end(collected: Collected, suspect: Suspect) -> int:
    """Return the file position behind the suspect bytes: those of the frame, or of its header if that is invalid."""
    return suspect.end if suspect.end is not None else suspect.position + collected.format.header_bytes


def _give_up(collected: Collected, reader: Reader, suspect: Suspect, max_frame_bytes: int) -> int:
    """Quarantine the bytes from a suspect position up to the next frame, and return 0.

    If the next frame may begin at a header whose frame is not complete in the buffer, quarantine nothing, and return
    how many bytes of the file to read from the suspect position on. That is twice what this frame needs, and only done
    for a header in the first half of the buffer: any number of headers may claim a long frame, and reading that much
    for each of them would take for ever.
    """
    chunk, position = collected.chunk, suspect.position
    base, end_of_buffer = chunk.position, chunk.position + len(chunk.content)
    searched = end_of_buffer - collected.format.header_bytes + 1  # a header may begin from here on
    end = suspect.end if suspect.end is not None and _is_searched(collected, suspect.end, searched) else None
    # A frame that begins within the suspect frame means that bytes of the suspect frame are missing.
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
    """Return whether the buffer has the header of each frame that begins before `end`, or all bytes to be given up."""
    chunk = collected.chunk
    return end <= searched or chunk.position + len(chunk.content) >= chunk.give_up_before


def _take_together(several: Sequence[Collected], settings: Settings, most: int | None = None) -> None:
    """Decode the frames of summary files together, in each format with a fast path; at most `most` bytes per file."""
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
    """Decode the valid frames of all chunks together, each from the index up to which it has been decoded."""
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
    counts = np.bincount(np.delete(frames.segment, decoded.left), minlength=len(several)).tolist()
    for each, count, index in zip(several, counts, (frames.read_to - begins).tolist(), strict=True):
        each.event_count += count
        each.index = index
    payloads, places = (frames.payload_start, frames.payload_end), (positions, frames.length)
    columns = frames.segment, *payloads, *places, frames.checksum
    left = zip(*(column[decoded.left].tolist() for column in columns), strict=True)
    for number, start, end, position, length, checksum in left:
        several[number].take(Frame(position, length, buffer[start:end], checksum), settings)
