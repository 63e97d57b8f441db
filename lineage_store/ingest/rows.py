"""From bytes of a log file to rows. Pure: which table, which column, what NaN and text become is decided here only.

In: a stretch of a log file that begins at its bookmark. Out: frozen rows, and where the next stretch begins.
Promises: bytes that are no frame are never passed over silently: they wait, are suspect, or are quarantined with the
range and the reason; a frame that holds no readable event costs that frame alone. Knows no database and no disk.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from lineage_store.eventlog import events, fast, framing
from lineage_store.eventlog.events import LineageEvent, Version
from lineage_store.eventlog.framing import Frame, NeedData, Suspect
from lineage_store.eventlog.lineage_content import parse_metric
from lineage_store.eventlog.messages import EventDecodeError
from lineage_store.ingest.sample_columns import SampleGatherer
from lineage_store.ingest.values import named_values
from lineage_store.store.batch import FileRows, KnownFile, LineageRow, Problem, SampleColumns, Valued

QUARANTINE_REMEDY = "Nothing to do: the rest of the file was read. Compare it with a copy if one exists."


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a log file from its bookmark on."""

    content: bytes
    position: int
    """Where `content` begins in the file."""
    give_up_before: int
    """Suspect frames that end before this position are quarantined; others wait, for their bytes are younger."""


@dataclass(slots=True)
class _Collected:
    """Rows in the making."""

    samples: SampleGatherer
    lineage_events: list[LineageRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    version_times: list[float] = field(default_factory=list)
    event_count: int = 0
    quarantined_bytes: int = 0

    def quarantine(self, start: int, end: int, kind: str, reason: str) -> None:
        self.quarantined_bytes += end - start
        self.problems.append(Problem(kind, reason, QUARANTINE_REMEDY, start, end))


def from_stretch(
    file: KnownFile, stretch: Stretch, *, max_frame_bytes: int, vectorised: bool = True
) -> tuple[FileRows, NeedData | Suspect]:
    """The rows of every complete frame, and the outcome that ended the stretch.

    `vectorised` takes the fast path where it can; the rows are the same without it.
    """
    collected = _Collected(SampleGatherer(file.name))
    view = memoryview(stretch.content)
    index = 0
    while True:
        if vectorised and file.kind == "summary":
            index = _take_many(collected, file, stretch, index, max_frame_bytes)
        found = framing.next_frame(view, index, base=stretch.position, max_frame_bytes=max_frame_bytes)
        if isinstance(found, Frame):
            _take_frame(collected, file, found)
            index += found.length
        elif isinstance(found, Suspect) and _end(found) <= stretch.give_up_before:
            index = _give_up(collected, view, stretch.position, found, max_frame_bytes)
        else:
            return _rows(collected, stretch.position + index, found), found


def _end(suspect: Suspect) -> int:
    """Behind the bytes that are suspect: the frame's, or its header's where that tells no length."""
    return suspect.end if suspect.end is not None else suspect.position + framing.HEADER_BYTES


def _give_up(
    collected: _Collected, view: memoryview, base: int, suspect: Suspect, max_frame_bytes: int
) -> int:
    """Quarantine a place that makes no frame; the index in the buffer where reading goes on."""
    start = suspect.position
    following = framing.find_frame(view, start - base + 1, base=base, max_frame_bytes=max_frame_bytes)
    if suspect.end is not None and not (following and following.position < suspect.end):
        end = suspect.end  # a frame inside the claimed range means that bytes were cut out of this one
    elif following:
        end = following.position
    else:  # all but the last bytes, which may begin a header, are beyond help
        end = max(start + 1, base + len(view) - framing.HEADER_BYTES + 1)
    collected.quarantine(start, end, "damaged_bytes", f"No frame: {suspect.reason}.")
    return end - base


def _take_many(
    collected: _Collected, file: KnownFile, stretch: Stretch, index: int, max_frame_bytes: int
) -> int:
    """Take all valid frames from an index on at once; the index behind them."""
    decoded = fast.decode(stretch.content, index, max_frame_bytes=max_frame_bytes)
    frames = decoded.frames
    if not len(frames.start):
        return index
    collected.samples.add_decoded(decoded, stretch.position)
    collected.event_count += len(frames.start) - len(decoded.left)
    for number in decoded.left.tolist():
        start, length = int(frames.start[number]), int(frames.length[number])
        payload = stretch.content[frames.payload_start[number] : frames.payload_end[number]]
        checksum = int(frames.checksum[number])
        _take_frame(collected, file, Frame(stretch.position + start, length, payload, checksum))
    return int(frames.start[-1] + frames.length[-1])


def _take_frame(collected: _Collected, file: KnownFile, frame: Frame) -> None:
    try:
        values = events.decode(frame.payload, "lineage" if file.kind == "lineage" else "summary")
    except EventDecodeError as error:
        collected.quarantine(frame.position, frame.end, "undecodable_event", str(error))
        return
    collected.event_count += 1
    for place, value in enumerate(values):
        if isinstance(value, LineageEvent):
            collected.lineage_events.append(_lineage_row(collected, frame, value))
        elif isinstance(value, Version):
            collected.version_times.append(value.wall_time)
        else:
            collected.samples.add(frame, place, value)


def _lineage_row(collected: _Collected, frame: Frame, event: LineageEvent) -> LineageRow:
    metrics: tuple[Valued, ...] = ()
    if event.kind == "eval":
        try:
            metrics = named_values(parse_metric(event.content.get("metric")))
        except ValueError as error:
            reason = f"The metrics of an evaluation cannot be read: {error}"
            remedy = "The evaluation counts without metrics. Record metrics that are a JSON object."
            collected.problems.append(Problem("unreadable_metric", reason, remedy, frame.position, frame.end))
    wall_time = _wall_time(event.wall_time)
    return LineageRow(frame.position, event.kind, wall_time, json.dumps(event.content), metrics)


def _rows(collected: _Collected, end: int, outcome: NeedData | Suspect) -> FileRows:
    suspect = None
    if isinstance(outcome, Suspect):
        reason = f"At byte {outcome.position}: {outcome.reason}."
        remedy = "It is read again until it makes sense; after the grace time it is passed over, with a note."
        suspect = Problem("suspect_bytes", reason, remedy)
    samples = collected.samples.columns()
    return FileRows(
        end=end,
        event_count=collected.event_count,
        quarantined_bytes=collected.quarantined_bytes,
        last_wall_time=_last_wall_time(collected, samples),
        samples=samples,
        lineage_events=tuple(collected.lineage_events),
        problems=tuple(collected.problems),
        suspect=suspect,
    )


def _last_wall_time(collected: _Collected, samples: Iterable[SampleColumns]) -> float | None:
    times = [event.wall_time for event in collected.lineage_events if event.wall_time is not None]
    times += [time for time in collected.version_times if math.isfinite(time)]
    for columns in samples:
        known = columns.columns["wall_time"]
        times += [float(np.nanmax(known))] if not np.isnan(known).all() else []
    return max(times, default=None)


def _wall_time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
