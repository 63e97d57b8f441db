"""From bytes of log files to rows: decide which bytes are decoded as frames, which wait, which are given up. Pure.

In: chunks of log files, each beginning at its file's bookmark or behind a hole there that is given up. Out: frozen
rows, and where the next chunks begin. Promises: bytes that are no frame are never skipped silently: they wait, are
suspect, or are quarantined with the range and the reason, and so is a frame without a readable event or with one that
exceeds a bound; although files are decoded together, the result for one does not depend on the others, but that lineage
is folded here only if its job has no second lineage file among them; whether an event is within the bounds does not
depend on the chunks. Does not know the database or the disk, nor how samples become columns (sample_columns.py).
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lineage_store.config import Settings
from lineage_store.eventlog.formats import DecodeColumns, FrameFinder, LogFormat, format_of
from lineage_store.eventlog.tfrecord import Frame, NeedData, Suspect, SuspectReason
from lineage_store.eventlog.values import EventDecodeError, LineageEvent, Version
from lineage_store.findings import RangeProblems, finding, in_range
from lineage_store.ingest.decode.lineage_fold import fold, named_values, parse_metric
from lineage_store.ingest.decode.sample_columns import SampleGatherer
from lineage_store.plain_values import PLAUSIBLE_SINCE
from lineage_store.store.records import (
    FileLineage,
    FileRows,
    FileSight,
    FoldedLineage,
    KnownFile,
    LineageRow,
    SampleColumns,
    StoredEvent,
    Valued,
    relative_path,
)

FEWEST_TOGETHER = 32
"""After damage the fast path is retried only after this many good frames: where every other frame is damaged, it
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

    With `vectorised` the fast path is used where possible; the rows are the same without it.
    """
    samples = SampleGatherer([chunk.file for chunk in chunks])
    collected = [
        ChunkContent(number, chunk, format_of(chunk.file.format), samples, settings.most_damages)
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
    with_lineage = Counter(each.chunk.file.job_id for each in collected if each.lineage_events)
    rows = [
        each.rows(outcome, count, earliest, latest, fold=with_lineage[each.chunk.file.job_id] == 1)
        for each, outcome, count, earliest, latest in found
    ]
    return Rows(tuple(rows), tuple(outcomes), gathered.columns)


def _take_rest(collected: ChunkContent, settings: Settings) -> NeedData | Suspect:
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


def _end(collected: ChunkContent, suspect: Suspect) -> int:
    """Return the file position behind the suspect bytes: those of the frame, or of its header if that is invalid."""
    return suspect.end if suspect.end is not None else suspect.position + collected.format.header_bytes


def _give_up(collected: ChunkContent, reader: FrameFinder, suspect: Suspect, max_frame_bytes: int) -> int:
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


def _is_searched(collected: ChunkContent, end: int, searched: int) -> bool:
    """Return whether the buffer has the header of each frame that begins before `end`, or all bytes to be given up."""
    chunk = collected.chunk
    return end <= searched or chunk.position + len(chunk.content) >= chunk.give_up_before


def _take_together(several: Sequence[ChunkContent], settings: Settings, most: int | None = None) -> None:
    """Decode the frames of summary files together, in each format with a fast path; at most `most` bytes per file."""
    by_format: dict[str, list[ChunkContent]] = defaultdict(list)
    for each in several:
        if each.chunk.file.kind == "summary":
            by_format[each.format.name].append(each)
    for alike in by_format.values():
        if decode_columns := alike[0].format.decode_columns:
            _take_many(alike, decode_columns, settings, most)


def _take_many(
    several: Sequence[ChunkContent], decode_columns: DecodeColumns, settings: Settings, most: int | None
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


# ---- The rows of one chunk, collected frame by frame


@dataclass(slots=True)
class ChunkContent:
    """What has been taken from a chunk so far."""

    number: int
    chunk: Chunk
    format: LogFormat
    samples: SampleGatherer
    most_damages: int
    index: int = 0
    """The index in the chunk's content of the first byte not taken yet."""
    lineage_events: list[LineageRow] = field(default_factory=list)
    problems: dict[str, RangeProblems] = field(default_factory=dict)
    """By kind: the memory that they take does not grow with their number."""
    places: int = 0
    """Number of separate places with problems, of any kind."""
    heavily_damaged_at: int | None = None
    """Where the first place beyond `most_damages` begins."""
    version_times: list[float] = field(default_factory=list)
    event_count: int = 0
    quarantined_bytes: int = 0
    lineage_rows: int = 0
    """How many rows the lineage events make, with one for each metric."""
    _noted_to: int = -1

    @property
    def stop(self) -> int:
        """The index in the chunk's content at which decoding stops."""
        chunk = self.chunk
        return len(chunk.content) if chunk.stop is None else chunk.stop - chunk.position

    @property
    def path(self) -> str:
        return relative_path(self.chunk.file.train_id, self.chunk.file.name)

    def quarantine(self, start: int, end: int, kind: str, reason: str) -> None:
        self.quarantined_bytes += end - start
        self.note(kind, start, end, reason)

    def note(self, kind: str, start: int, end: int, reason: str) -> None:
        """Count a byte range with a problem."""
        if start != self._noted_to:
            self.places += 1
            if self.places == self.most_damages + 1:
                self.heavily_damaged_at = start
        self._noted_to = end
        found, before = in_range(kind, start, end, reason=reason), self.problems.get(kind)
        self.problems[kind] = found if before is None else before.plus(found)

    def take(self, frame: Frame, settings: Settings) -> None:
        """Take the values of a frame, or quarantine it."""
        kind = self.chunk.file.kind
        try:
            before_decoding(self.format, kind, frame.payload, settings)
            values = self.format.decode(frame.payload, kind)
            lineage = [
                self._lineage_row(frame, index, value, settings)
                for index, value in enumerate(values)
                if isinstance(value, LineageEvent)
            ]
        except EventDecodeError as error:
            self.quarantine(frame.position, frame.end, "undecodable_event", str(error))
            return
        except OversizedEventError as error:
            self.quarantine(frame.position, frame.end, "oversized_event", str(error))
            return
        self.event_count += 1
        self.lineage_events += lineage
        self.lineage_rows += sum(1 + len(row.metrics) for row in lineage)
        for place, value in enumerate(values):
            if isinstance(value, LineageEvent):
                continue
            if isinstance(value, Version):
                self.version_times.append(value.wall_time)
            else:
                self.samples.add(self.number, frame, place, value)

    def _lineage_row(self, frame: Frame, index: int, event: LineageEvent, settings: Settings) -> LineageRow:
        of_event(event, settings)
        metrics: tuple[Valued, ...] = ()
        if event.kind == "eval":
            try:
                metrics = named_values(metrics_within(event, settings))
            except ValueError as error:
                self.note("unreadable_metric", frame.position, frame.end, str(error))
        at = event.content if event.kind == "eval" else {}
        user_values = len(event.content) if event.kind == "user_info" else 0
        content = content_within(event, settings)
        return LineageRow(
            frame.position,
            index,
            event.kind,
            _wall_time(event.wall_time),
            content,
            metrics,
            user_values,
            epoch=at.get("epoch"),
            step=at.get("step"),
        )

    def rows(
        self,
        outcome: NeedData | Suspect,
        sample_count: int,
        earliest: float | None,
        latest: float | None,
        *,
        fold: bool,
    ) -> FileRows:
        """Return the rows of the chunk.

        Args:
            outcome: why decoding ended.
            sample_count: how many samples of the file `samples` has.
            earliest: their least plausible wall time; `latest`: the greatest of all.
            fold: whether to fold the lineage of a file that was read from its beginning; in most jobs it is the only
                lineage file.
        """
        suspect = None
        if isinstance(outcome, Suspect):
            position, reason = outcome.position, outcome.reason
            suspect = finding("suspect_bytes", self.path, position=position, reason=reason)
        read = [event.wall_time for event in self.lineage_events] + [*map(_wall_time, self.version_times)]
        times = [time for time in (*read, latest) if time is not None]
        begins = [time for time in (*read, earliest) if time is not None and time >= PLAUSIBLE_SINCE]
        return FileRows(
            end=self.chunk.position + self.index,
            event_count=self.event_count,
            quarantined_bytes=self.quarantined_bytes,
            first_wall_time=min(begins, default=None),
            last_wall_time=max(times, default=None),
            sample_count=sample_count,
            lineage_events=tuple(self.lineage_events),
            folded=self._folded() if fold else None,
            problems=tuple(self.problems.values()),
            heavily_damaged_at=self.heavily_damaged_at,
            suspect=suspect,
        )

    def _folded(self) -> FoldedLineage | None:
        file, events = self.chunk.file, self.lineage_events
        if file.byte_offset or not events:
            return None
        return fold(StoredEvent(file.file_no, event.kind, event.content) for event in events)


def _wall_time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


# ---- The bytes of one log file from its bookmark on


@dataclass(frozen=True, slots=True)
class Chunk:
    """The bytes of a log file behind its bookmark, and as many bytes before them as the digests need."""

    file: KnownFile
    sight: FileSight
    before: bytes
    content: bytes
    give_up_before: int = 0
    """Suspect bytes that end at or before this position are quarantined; later ones wait, for they are newer."""
    skipped: int = 0
    """How many bytes between the bookmark and `content` were not read: a hole in the file that is given up."""
    stop: int | None = None
    """The file position at which decoding stops; None: at the end of `content`."""

    @property
    def position(self) -> int:
        """The file position at which `content` begins."""
        return self.file.byte_offset + self.skipped

    @property
    def is_last(self) -> bool:
        """Whether the chunk reaches the end of a file that is no longer written."""
        return self.sight.closed and self.position + len(self.content) >= self.sight.size_bytes

    def bytes_before(self, end: int, length: int) -> bytes:
        """Return the `length` bytes before the file position `end`, which is within `content` or at its end."""
        index = end - self.position
        if index >= length:
            return self.content[index - length : index]
        return (self.before + self.content[:index])[-length:]


# ---- The bounds on how much of one event and of one job is stored; what exceeds them is left out and reported

_PARTS_OF_A_ROW = 4
"""At most this many messages of a lineage event make one row: a node, its parameters, one of them, the text in it."""
_TOKENS_OF_A_METRIC = 10
"""How many names and numbers the JSON of a metric has on average at most: a metric may be a list."""


class OversizedEventError(Exception):
    """An event exceeds a bound."""


def before_decoding(log_format: LogFormat, kind: str, payload: bytes, most: Settings) -> None:
    """Refuse an event that would take many times its bytes when decoded. Raises OversizedEventError."""
    if kind == "lineage":
        _refuse(len(payload), "bytes", most, "most_lineage_bytes")
        parts = _PARTS_OF_A_ROW * max(most.most_user_values, most.most_dataset_nodes)
        fewest, allowed_by = parts, "most_user_values and most_dataset_nodes allow"
    else:
        parts, allowed_by = most.most_event_parts, "most_event_parts allows"
        fewest = min(parts, most.most_tags)
    if log_format.weigh is None or len(payload) <= 2 * fewest:  # no part takes less than two bytes
        return
    found, values = log_format.weigh(payload, kind, parts)
    _refuse(values, "values", most, "most_tags")
    if found > parts:
        raise OversizedEventError(f"it has more than {parts:,} parts, which is more than {allowed_by}")


def of_event(event: LineageEvent, most: Settings) -> None:
    """Refuse a lineage event with too many values. Raises OversizedEventError."""
    match event.kind:
        case "user_info":
            _refuse(len(event.content), "user-defined values", most, "most_user_values")
        case "dataset_graph":
            _refuse(_nodes(event.content), "nodes and parameters", most, "most_dataset_nodes")
        case "eval":
            text = event.content.get("metric") or ""
            tokens = text.count(",") + text.count(":")
            if tokens > _TOKENS_OF_A_METRIC * most.most_metrics:
                raise OversizedEventError(
                    f"its metrics have {tokens:,} names and numbers, and most_metrics is {most.most_metrics:,}"
                )


def metrics_within(event: LineageEvent, most: Settings) -> dict[str, Any]:
    """Return the metrics of an evaluation. Raises OversizedEventError when there are too many; MetricTextError."""
    metrics = parse_metric(event.content.get("metric"))
    _refuse(len(metrics), "metrics", most, "most_metrics")
    return metrics


def content_within(event: LineageEvent, most: Settings) -> str:
    """Return the JSON of a lineage event. Raises OversizedEventError: it may take six times the event's bytes."""
    content = json.dumps(event.content)
    _refuse(len(content), "bytes as JSON", most, "most_lineage_bytes")
    return content


def no_room_for(used: FileLineage, event: LineageRow, most: Settings) -> str | None:
    """Return why a job that has used up `used` has no room for the event; None when it has."""
    more = (
        ("lineage events", used.events, 1, "most_lineage_events"),
        ("bytes of lineage", used.content_bytes, len(event.content), "most_lineage_bytes"),
        ("user-defined values", used.user_values, event.user_values, "most_user_values"),
    )
    for what, before, added, setting in more:
        if added and before + added > getattr(most, setting):
            too_many = f"{added:,} more are too many: {setting} is {getattr(most, setting):,}"
            return f"the job has {before:,} {what}, {too_many}"
    return None


def plus(used: FileLineage, event: LineageRow) -> FileLineage:
    """Return what a job has used up after a further event."""
    return used._replace(
        events=used.events + 1,
        content_bytes=used.content_bytes + len(event.content),
        user_values=used.user_values + event.user_values,
    )


def _nodes(graph: dict[str, Any]) -> int:
    """The number of a pipeline's nodes, their operations and all parameters."""
    count, waiting = 0, [graph]
    while waiting:
        node = waiting.pop()
        count += max(1, len(node))
        for inner in (node.get("children"), node.get("operations")):
            if isinstance(inner, list):
                waiting += [each for each in inner if isinstance(each, dict)]
    return count


def _refuse(count: int, what: str, most: Settings, setting: str) -> None:
    if count > getattr(most, setting):
        raise OversizedEventError(f"it has {count:,} {what}, and {setting} is {getattr(most, setting):,}")
