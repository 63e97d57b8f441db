"""The rows of one chunk, collected frame by frame. Pure.

In: frames, one after the other; byte ranges that are given up. Out: frozen rows. Promises: a frame without a readable
event, or with one that exceeds a bound, is quarantined with its range and the reason, and affects no other frame. Does
not know how frames are found, nor how samples become columns (sample_columns.py).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field

from lineage_store.config import Settings
from lineage_store.eventlog.formats import LogFormat
from lineage_store.eventlog.records.framing import Frame, NeedData, Suspect
from lineage_store.eventlog.values import EventDecodeError, LineageEvent, Version
from lineage_store.findings import RangeProblems, finding, in_range
from lineage_store.ingest.decode import bounds
from lineage_store.ingest.decode.chunk import Chunk
from lineage_store.ingest.decode.lineage_fold import fold
from lineage_store.ingest.decode.named_values import named_values, parse_metric
from lineage_store.ingest.decode.sample_columns import SampleGatherer
from lineage_store.store.records import (
    FileRows,
    FoldedLineage,
    LineageRow,
    StoredEvent,
    Valued,
    relative_path,
)
from lineage_store.times import PLAUSIBLE_SINCE


@dataclass(slots=True)
class Collected:
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
    riddled_at: int | None = None
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
                self.riddled_at = start
        self._noted_to = end
        found, before = in_range(kind, start, end, reason=reason), self.problems.get(kind)
        self.problems[kind] = found if before is None else before.plus(found)

    def take(self, frame: Frame, settings: Settings) -> None:
        """Take the values of a frame, or quarantine it."""
        kind = self.chunk.file.kind
        try:
            bounds.before_decoding(self.format, kind, frame.payload, settings)
            values = self.format.decode(frame.payload, kind)
            events = [value for value in values if isinstance(value, LineageEvent)]
            lineage = [self._lineage_row(frame, each, settings) for each in events]
        except EventDecodeError as error:
            self.quarantine(frame.position, frame.end, "undecodable_event", str(error))
            return
        except bounds.OversizedEventError as error:
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

    def _lineage_row(self, frame: Frame, event: LineageEvent, settings: Settings) -> LineageRow:
        bounds.of_event(event, settings)
        metrics: tuple[Valued, ...] = ()
        if event.kind == "eval":
            try:
                metrics = named_values(bounds.of_metrics(parse_metric(event.content.get("metric")), settings))
            except ValueError as error:
                self.note("unreadable_metric", frame.position, frame.end, str(error))
        at = event.content if event.kind == "eval" else {}
        user_values = len(event.content) if event.kind == "user_info" else 0
        content = bounds.of_content(json.dumps(event.content), settings)
        return LineageRow(
            frame.position,
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
            riddled_at=self.riddled_at,
            suspect=suspect,
        )

    def _folded(self) -> FoldedLineage | None:
        file, events = self.chunk.file, self.lineage_events
        if file.byte_offset or not events:
            return None
        return fold(StoredEvent(file.file_no, event.kind, event.content) for event in events)


def _wall_time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
