"""From bytes of a log file to rows. Pure: which table, which column, what NaN and text become is decided here only.

In: a stretch of a log file that begins at its bookmark. Out: frozen rows, and where the next stretch begins.
Promises: bytes that are no frame are never passed over silently: they wait, are suspect, or are quarantined with the
range and the reason; a frame that holds no readable event costs that frame alone. Knows no database and no disk.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lineage_store.eventlog import events, framing
from lineage_store.eventlog.events import LineageEvent, PayloadValue, ScalarValue
from lineage_store.eventlog.framing import Frame, NeedData, Suspect
from lineage_store.eventlog.lineage_content import parse_metric
from lineage_store.eventlog.messages import EventDecodeError
from lineage_store.ingest.values import named_values
from lineage_store.store.batch import (
    FileRows,
    KnownFile,
    LineageRow,
    PayloadRow,
    Problem,
    ScalarColumns,
    Valued,
)

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

    scalars: dict[str, list[ScalarValue]] = field(default_factory=lambda: defaultdict(list))
    payloads: list[PayloadRow] = field(default_factory=list)
    lineage_events: list[LineageRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    event_count: int = 0
    quarantined_bytes: int = 0
    last_wall_time: float | None = None

    def quarantine(self, start: int, end: int, kind: str, reason: str) -> None:
        self.quarantined_bytes += end - start
        self.problems.append(Problem(kind, reason, QUARANTINE_REMEDY, start, end))


def from_stretch(
    file: KnownFile, stretch: Stretch, *, max_frame_bytes: int
) -> tuple[FileRows, NeedData | Suspect]:
    """The rows of every complete frame, and the outcome that ended the stretch."""
    collected = _Collected()
    view = memoryview(stretch.content)
    index = 0
    while True:
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


def _take_frame(collected: _Collected, file: KnownFile, frame: Frame) -> None:
    try:
        values = events.decode(frame.payload, "lineage" if file.kind == "lineage" else "summary")
    except EventDecodeError as error:
        collected.quarantine(frame.position, frame.end, "undecodable_event", str(error))
        return
    collected.event_count += 1
    for value in values:
        wall_time = _wall_time(value.wall_time)
        if wall_time is not None:
            collected.last_wall_time = max(wall_time, _or(collected.last_wall_time, wall_time))
        if isinstance(value, ScalarValue):
            collected.scalars[value.tag].append(value)
        elif isinstance(value, PayloadValue):
            collected.payloads.append(_payload_row(file, frame, value))
        elif isinstance(value, LineageEvent):
            collected.lineage_events.append(_lineage_row(collected, frame, value))


def _payload_row(file: KnownFile, frame: Frame, value: PayloadValue) -> PayloadRow:
    statistics = value.statistics
    return PayloadRow(
        plugin=value.plugin,
        tag=value.tag or file.name,  # a graph has no tag of its own; MindInsight shows it by its file
        step=value.step,
        wall_time=_wall_time(value.wall_time),
        frame_offset=frame.position,
        frame_length=frame.length,
        value_index=value.value_index,
        checksum=frame.checksum,
        dtype=value.dtype,
        shape=json.dumps(list(value.shape)),
        size_bytes=value.size_bytes,
        count=statistics.count if statistics else None,
        nan_count=statistics.nan_count if statistics else None,
        pos_inf_count=statistics.pos_inf_count if statistics else None,
        neg_inf_count=statistics.neg_inf_count if statistics else None,
        min=_number(statistics.min) if statistics else None,
        max=_number(statistics.max) if statistics else None,
        sum=_number(statistics.sum) if statistics else None,
    )


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
    return FileRows(
        end=end,
        event_count=collected.event_count,
        quarantined_bytes=collected.quarantined_bytes,
        last_wall_time=collected.last_wall_time,
        scalars=tuple(_columns(tag, values) for tag, values in collected.scalars.items()),
        payloads=tuple(collected.payloads),
        lineage_events=tuple(collected.lineage_events),
        problems=tuple(collected.problems),
        suspect=suspect,
    )


def _columns(tag: str, values: Sequence[ScalarValue]) -> ScalarColumns:
    return ScalarColumns(
        tag,
        np.array([value.step for value in values], np.int64),
        np.array([_or(_wall_time(value.wall_time), math.nan) for value in values], np.float64),
        np.array([value.value for value in values], np.float64),
    )


def _or(number: float | None, other: float) -> float:
    return other if number is None else number


def _wall_time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
