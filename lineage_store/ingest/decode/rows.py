"""From bytes of log files to rows. Pure: which table, which column, what NaN and text become is decided here only.

In: chunks of log files, each beginning at its file's bookmark. Out: frozen rows, and where the next chunks begin.
Promises: bytes that are no frame are never passed over silently: they wait, are suspect, or are quarantined with the
range and the reason; a frame that holds no readable event costs that frame alone; no file has a say in what another
one holds, though they are decoded together. Knows no database and no disk.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lineage_store.config import Settings
from lineage_store.eventlog.formats import DecodeColumns, LogFormat, Reader, format_of
from lineage_store.eventlog.records.framing import Frame, NeedData, Suspect, SuspectReason
from lineage_store.eventlog.values import EventDecodeError, LineageEvent, Version
from lineage_store.findings import Finding, finding, joined
from lineage_store.ingest.decode import bounds
from lineage_store.ingest.decode.chunk import Chunk
from lineage_store.ingest.decode.lineage_fold import fold
from lineage_store.ingest.decode.named_values import named_values, parse_metric
from lineage_store.ingest.decode.sample_columns import SampleGatherer
from lineage_store.store.records import (
    FileRows,
    FoldedLineage,
    LineageRow,
    SampleColumns,
    StoredEvent,
    Valued,
    relative_path,
)

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


@dataclass(slots=True)
class _Collected:
    """Rows of one chunk in the making."""

    number: int
    chunk: Chunk
    format: LogFormat
    samples: SampleGatherer
    index: int = 0
    """How far the chunk has been read."""
    lineage_events: list[LineageRow] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)
    version_times: list[float] = field(default_factory=list)
    event_count: int = 0
    quarantined_bytes: int = 0
    lineage_rows: int = 0
    """How many rows its lineage events make; each metric has one."""

    def quarantine(self, start: int, end: int, kind: str, reason: str) -> None:
        self.quarantined_bytes += end - start
        self.note(kind, start, end, reason)

    def note(self, kind: str, start: int, end: int, reason: str) -> None:
        found = finding(kind, self.path, byte_range=(start, end), reason=reason)
        self.problems[-1:] = joined([*self.problems[-1:], found])

    @property
    def stop(self) -> int:
        """The index at which to read no further."""
        chunk = self.chunk
        return len(chunk.content) if chunk.stop is None else chunk.stop - chunk.position

    @property
    def path(self) -> str:
        return relative_path(self.chunk.file.train_id, self.chunk.file.name)


def from_chunks(chunks: Sequence[Chunk], settings: Settings) -> Rows:
    """The rows of every complete frame of some files, one chunk of each, as far as a transaction takes them.

    The setting `vectorised` takes the fast path where it can; the rows are the same without it.
    """
    samples = SampleGatherer([chunk.file for chunk in chunks])
    collected = [
        _Collected(number, chunk, format_of(chunk.file.format), samples)
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
    rows = map(_rows, collected, outcomes, gathered.counts, gathered.latest)
    return Rows(tuple(rows), tuple(outcomes), gathered.columns)


def _take_rest(collected: _Collected, settings: Settings) -> NeedData | Suspect:
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
            _take_frame(collected, found, settings)
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


def _end(collected: _Collected, suspect: Suspect) -> int:
    """Behind the bytes that are suspect: the frame's, or its header's where that tells no length."""
    return suspect.end if suspect.end is not None else suspect.position + collected.format.header_bytes


def _give_up(collected: _Collected, reader: Reader, suspect: Suspect, max_frame_bytes: int) -> int:
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


def _is_searched(collected: _Collected, end: int, searched: int) -> bool:
    """Whether every frame that begins before `end` can be seen in the buffer, or is not there to be seen."""
    chunk = collected.chunk
    return end <= searched or chunk.position + len(chunk.content) >= chunk.give_up_before


def _take_together(several: Sequence[_Collected], settings: Settings, most: int | None = None) -> None:
    """Take the frames of all summary files of a format at once, where it can decode them so: `most` bytes of each."""
    by_format: dict[str, list[_Collected]] = defaultdict(list)
    for each in several:
        if each.chunk.file.kind == "summary":
            by_format[each.format.name].append(each)
    for alike in by_format.values():
        if decode_columns := alike[0].format.decode_columns:
            _take_many(alike, decode_columns, settings, most)


def _take_many(
    several: Sequence[_Collected], decode_columns: DecodeColumns, settings: Settings, most: int | None
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
        _take_frame(several[number], Frame(position, length, buffer[start:end], checksum), settings)


def _take_frame(collected: _Collected, frame: Frame, settings: Settings) -> None:
    log_format, kind = collected.format, collected.chunk.file.kind
    try:
        bounds.before_decoding(log_format, kind, frame.payload, settings)
        values = log_format.decode(frame.payload, kind)
        events = [value for value in values if isinstance(value, LineageEvent)]
        lineage = [_lineage_row(collected, frame, each, settings) for each in events]
    except EventDecodeError as error:
        collected.quarantine(frame.position, frame.end, "undecodable_event", str(error))
        return
    except bounds.OversizedEventError as error:
        collected.quarantine(frame.position, frame.end, "oversized_event", str(error))
        return
    collected.event_count += 1
    collected.lineage_events += lineage
    collected.lineage_rows += sum(1 + len(row.metrics) for row in lineage)
    for place, value in enumerate(values):
        if isinstance(value, LineageEvent):
            continue
        if isinstance(value, Version):
            collected.version_times.append(value.wall_time)
        else:
            collected.samples.add(collected.number, frame, place, value)


def _lineage_row(collected: _Collected, frame: Frame, event: LineageEvent, settings: Settings) -> LineageRow:
    bounds.of_event(event, settings)
    metrics: tuple[Valued, ...] = ()
    if event.kind == "eval":
        try:
            metrics = named_values(bounds.of_metrics(parse_metric(event.content.get("metric")), settings))
        except ValueError as error:
            collected.note("unreadable_metric", frame.position, frame.end, str(error))
    user_values = len(event.content) if event.kind == "user_info" else 0
    content = bounds.of_content(json.dumps(event.content), settings)
    return LineageRow(
        frame.position,
        event.kind,
        _wall_time(event.wall_time),
        content,
        metrics,
        user_values,
        epoch=event.content.get("epoch") if event.kind == "eval" else None,
        step=event.content.get("step") if event.kind == "eval" else None,
    )


def _rows(
    collected: _Collected, outcome: NeedData | Suspect, sample_count: int, latest: float | None
) -> FileRows:
    suspect = None
    if isinstance(outcome, Suspect):
        position, reason = outcome.position, outcome.reason
        suspect = finding("suspect_bytes", collected.path, position=position, reason=reason)
    times = [event.wall_time for event in collected.lineage_events] + [latest]
    times += map(_wall_time, collected.version_times)
    return FileRows(
        end=collected.chunk.position + collected.index,
        event_count=collected.event_count,
        quarantined_bytes=collected.quarantined_bytes,
        last_wall_time=max((time for time in times if time is not None), default=None),
        sample_count=sample_count,
        lineage_events=tuple(collected.lineage_events),
        folded=_folded(collected),
        problems=tuple(collected.problems),
        suspect=suspect,
    )


def _folded(collected: _Collected) -> FoldedLineage | None:
    """What a lineage file comes to, read from its beginning: in most jobs it is the only one."""
    file, events = collected.chunk.file, collected.lineage_events
    if file.byte_offset or not events:
        return None
    return fold(StoredEvent(file.file_no, event.kind, event.content) for event in events)


def _wall_time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
