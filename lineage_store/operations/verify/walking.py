"""Read a log file frame by frame up to a bookmark, by the plain path of its format.

In: an open log file, and where the store has given up bytes. Out: claims, lineage events and counts, also of the bytes
that hold no event; and a fault where the file contradicts the bookmark. Promises: memory is bounded by one chunk or
frame, plus the file's lineage events, which are kept; the fast path is not used. Does not know the database.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from lineage_store.config import Settings
from lineage_store.eventlog.formats import LogFormat, Reader
from lineage_store.eventlog.records.framing import Frame, NeedData
from lineage_store.eventlog.values import EventDecodeError, LineageEvent, PayloadValue, ScalarValue
from lineage_store.ingest.decode import bounds
from lineage_store.ingest.decode.rows import LOOK_AHEAD
from lineage_store.ingest.read.log_reader import OpenLogFile
from lineage_store.operations.verify.claims import Claims, canonical
from lineage_store.plugins import SCALAR
from lineage_store.store.catalog.audit import GivenUp

_STATISTICS = ("count", "nan_count", "pos_inf_count", "neg_inf_count", "min", "max", "sum")
_PLACE = ("frame_offset", "frame_length", "value_index", "checksum")
_ABOUT = ("dtype", "shape", "size_bytes")
PAYLOAD_COLUMNS = ("wall_time", *_PLACE, *_ABOUT, *_STATISTICS)
SCALAR_COLUMNS = ("wall_time", "value")
"""The columns of the sample tables, in the order of a claim's content."""
_HEADER_IN_HOLE = 256
"""A frame may begin with so many zeros that a hole of the file ends behind its beginning."""


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

    def to(self, end: int, given_up: GivenUp) -> bool:
        """Read on up to the bookmark `end`; return False, with the reason in `faults`, if that is impossible.

        Where the store has given up bytes, what is no frame is passed over up to the next whole one.
        """
        settings = self.settings
        content, base = b"", self.position
        reader = self.format.reader(content, base=base)
        while self.position < end:
            if not base <= self.position <= base + len(content):
                content, base = b"", self.position
                reader = self.format.reader(content, base=base)
            found = reader.next(self.position - base)
            if isinstance(found, NeedData):
                wanted = max(settings.chunk_bytes, found.wanted(base + len(content) - self.position))
                more = self.log.read(self.position, min(wanted, max(end - self.position, 0)))
                if len(more) < found.length:
                    if not self._pass_over(self._next_frame, end, end, given_up):
                        return self._fault("no whole frame before the bookmark")
                    continue
                content, base = more, self.position
                reader = self.format.reader(more, base=base, max_frame_bytes=settings.max_frame_bytes)
            elif isinstance(found, Frame):
                self._take(found, given_up)
                self.position = found.end
            else:
                searched = partial(self._next_frame_in, reader, base, base + len(content))
                if not self._pass_over(searched, min(found.end or end, end), end, given_up):
                    return self._fault(f"no frame: {found.reason}")
        return True

    def _fault(self, text: str) -> bool:
        self.faults.append((self.position, f"The store counts these bytes as read, but there is {text}."))
        return False

    def _pass_over(
        self, next_frame: Callable[[int, int], int], before: int, end: int, given_up: GivenUp
    ) -> bool:
        """Pass over bytes that are no frame: up to the next frame, or to `before` if none begins before that.

        Return False if the store has not given up bytes there.
        """
        if not given_up.may_be(self.position, "damaged_bytes"):
            return False
        following = next_frame(before, end)
        self.given_up_bytes += following - self.position
        self.position = following
        return True

    def _next_frame_in(self, reader: Reader, base: int, read_to: int, before: int, end: int) -> int:
        """Return what `_next_frame` does, if possible from bytes that were read already.

        Damage in every other frame then costs one search of each buffer, not one of each place.
        """
        found = reader.find(self.position + 1 - base, before - base)
        if isinstance(found, Frame):
            return found.position
        if found is None and before + self.format.header_bytes <= read_to:
            return before
        return self._next_frame(before, end)

    def _next_frame(self, before: int, end: int) -> int:
        """Return where the next frame begins that is whole before the bookmark `end`; `before` if it is not before.

        A header that claims more than is in the buffer is looked at with twice as much, but only if it is in the first
        half of the buffer: any number of headers may claim a long frame.
        """
        start, wanted, most = self.position + 1, self.settings.chunk_bytes, self.settings.max_frame_bytes
        while start < before:
            start = max(start, self.log.next_data(start) - _HEADER_IN_HOLE)
            content = self.log.read(start, min(wanted, end - start))
            reader = self.format.reader(content, base=start, max_frame_bytes=most)
            found = reader.find(0, max(before - start, 0))
            if isinstance(found, Frame):
                return found.position
            if start + len(content) >= end or not content:
                return before
            if found is None:
                start += max(len(content) - self.format.header_bytes + 1, 1)
                wanted = self.settings.chunk_bytes
            else:
                is_near = found.position - start < len(content) / 2
                wanted = min(2 * found.length, LOOK_AHEAD * most) if is_near else self.settings.chunk_bytes
                start = found.position
        return before

    def _take(self, frame: Frame, given_up: GivenUp) -> None:
        if given_up.may_be(frame.position, "oversized_event") and self._is_oversized(frame):
            self.given_up_bytes += frame.length
            return
        try:
            values = self.format.decode(frame.payload, self.kind)
        except EventDecodeError as error:
            if given_up.may_be(frame.position, "undecodable_event"):
                self.given_up_bytes += frame.length
            else:
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

    def _is_oversized(self, frame: Frame) -> bool:
        """Return whether an event is beyond a bound of the present settings."""
        try:
            bounds.before_decoding(self.format, self.kind, frame.payload, self.settings)
            for value in self.format.decode(frame.payload, self.kind):
                if isinstance(value, LineageEvent):
                    bounds.of_whole_event(value, self.settings)
        except bounds.OversizedEventError:
            return True
        except EventDecodeError:
            pass
        return False

    def _take_payload(self, frame: Frame, value: PayloadValue) -> None:
        found = value.statistics
        place = (frame.position, frame.length, value.value_index, frame.checksum)
        about = (value.dtype, json.dumps(value.shape), value.size_bytes)
        statistics = [getattr(found, name) if found else None for name in _STATISTICS]
        row = canonical((_time(value.wall_time), *place, *about, *statistics))
        self.claims.add((value.plugin, value.series_tag(self.name)), value.step, row)


def _time(seconds: float) -> float | None:
    return seconds if math.isfinite(seconds) else None
