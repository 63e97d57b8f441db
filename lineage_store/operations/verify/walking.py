"""Read a log file frame by frame up to a bookmark, by the plain path of its format.

In: an open log file, and the ranges that the store has given up. Out: claims, lineage events and counts; and a fault
where the file contradicts the bookmark. Promises: memory is bounded by one chunk or frame, plus the file's lineage
events, which are kept; the fast path is not used. Does not know the database.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from lineage_store.config import Settings
from lineage_store.eventlog.formats import LogFormat
from lineage_store.eventlog.records.framing import Frame, NeedData
from lineage_store.eventlog.values import EventDecodeError, LineageEvent, PayloadValue, ScalarValue
from lineage_store.ingest.read.log_reader import OpenLogFile
from lineage_store.operations.verify.claims import Claims, canonical
from lineage_store.plugins import SCALAR

_STATISTICS = ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
_PLACE = ("frame_offset", "frame_length", "value_index", "checksum")
_ABOUT = ("dtype", "shape", "size_bytes")
PAYLOAD_COLUMNS = ("wall_time", *_PLACE, *_ABOUT, *_STATISTICS)
SCALAR_COLUMNS = ("wall_time", "value")
"""The columns of the sample tables, in the order of a claim's content."""


@dataclass(slots=True)
class Walk:
    """The contents of one file that were read so far."""

    log: OpenLogFile
    format: LogFormat
    kind: str
    name: str
    claims: Claims
    settings: Settings
    position: int = 0
    event_count: int = 0
    given_up_bytes: int = 0
    lineage: list[tuple[int, str, float | None, str]] = field(default_factory=list)
    """(byte offset, kind, wall time, content as JSON)."""
    faults: list[tuple[int, str]] = field(default_factory=list)

    def to(self, end: int, gaps: Sequence[tuple[int, int]]) -> bool:
        """Read on up to the bookmark `end`; return False, with the reason in `faults`, if that is impossible."""
        skip, settings = dict(gaps), self.settings
        content, base = b"", self.position
        reader = self.format.reader(content, base=base)
        while self.position < end:
            if (behind := skip.get(self.position)) is not None:
                self.given_up_bytes += behind - self.position
                self.position = behind
                continue
            if not base <= self.position <= base + len(content):
                content, base = b"", self.position
                reader = self.format.reader(content, base=base)
            found = reader.next(self.position - base)
            if isinstance(found, NeedData):
                wanted = max(settings.chunk_bytes, found.wanted(base + len(content) - self.position))
                more = self.log.read(self.position, min(wanted, max(end - self.position, 0)))
                if len(more) < found.length:
                    return self._fault("no whole frame before the bookmark")
                content, base = more, self.position
                reader = self.format.reader(more, base=base, max_frame_bytes=settings.max_frame_bytes)
            elif isinstance(found, Frame):
                self._take(found)
                self.position = found.end
            else:
                return self._fault(f"no frame: {found.reason}")
        return self.position == end or self._fault("a range that was given up passes the bookmark")

    def _fault(self, text: str) -> bool:
        self.faults.append((self.position, f"The store counts these bytes as read, but there is {text}."))
        return False

    def _take(self, frame: Frame) -> None:
        try:
            values = self.format.decode(frame.payload, self.kind)
        except EventDecodeError as error:
            self.faults.append((frame.position, f"The frame holds no event: {error}"))
            return
        self.event_count += 1
        for value in values:
            if isinstance(value, LineageEvent):
                content = json.dumps(value.content)
                self.lineage.append((frame.position, value.kind, _time(value.wall_time), content))
            elif isinstance(value, ScalarValue):
                row = canonical((_time(value.wall_time), value.value))
                self.claims.add((SCALAR, value.tag), value.step, row)
            elif isinstance(value, PayloadValue):
                self._take_payload(frame, value)

    def _take_payload(self, frame: Frame, value: PayloadValue) -> None:
        found = value.statistics
        place = (frame.position, frame.length, value.value_index, frame.checksum)
        about = (value.dtype, json.dumps(value.shape), value.size_bytes)
        statistics = [getattr(found, name) if found else None for name in _STATISTICS]
        row = canonical((_time(value.wall_time), *place, *about, *statistics))
        self.claims.add((value.plugin, value.series_tag(self.name)), value.step, row)


def _time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
