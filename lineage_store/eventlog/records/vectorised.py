"""Find many frames and check their checksums: the vectorised counterpart of framing.

In: a buffer and its segments, each part of another file. Out: the complete and valid frames at the beginning of each
segment; short ones of equal length also in groups. Promises: these are exactly the frames that `framing.FrameReader`
finds one after the other in the segment. How: headers are read one by one until their lengths repeat in a cycle, then
many cycles at once. Checksums use that a CRC is linear: payloads of one length differ from the first of them in few
columns, and each differing byte changes the CRC in a known way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

import google_crc32c
import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from lineage_store.eventlog.records.crc import crcs_of_slices, length_checksum, masked
from lineage_store.eventlog.records.framing import HEADER, HEADER_BYTES, OVERHEAD_BYTES

Indices = NDArray[np.int64]
Bytes = NDArray[np.uint8]

LONGEST_IN_GROUP = 512
"""Longer payloads are checked one by one: for them the call of the CRC library no longer dominates."""
FEWEST_IN_GROUP = 16
_LOOK_BACK = 32
"""After each this many frames their lengths are searched for a cycle."""
_LONGEST_CYCLE = 12
_FEWEST_IN_CYCLES = 64
"""If a cycle could cover no more frames than this, they are read one by one, which needs no preparation."""

Segment = tuple[int, int]
"""(start, end) in the buffer."""


@dataclass(frozen=True, slots=True)
class Group:
    """Frames of one length, with their payloads as the rows of an array."""

    frame: Indices
    """The index of each among all frames of the buffer, ascending."""
    rows: Bytes
    """Array of shape (frames, payload bytes); perhaps a view of the buffer."""
    varying: NDArray[np.bool_]
    """Which columns are not equal in all rows; after invalid frames were removed, they may be equal all the same."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Complete, valid frames, in the order of the buffer; those of a segment follow each other without a gap."""

    start: Indices
    length: Indices
    checksum: NDArray[np.uint32]
    """The masked CRC-32C of each payload, as stored in the file."""
    segment: Indices
    """The index of each frame's segment."""
    read_to: Indices
    """Per segment: the index behind its last frame, or its beginning if it has none."""
    groups: tuple[Group, ...]
    """The frames that are short and have the same length as many others."""

    @property
    def payload_start(self) -> Indices:
        return self.start + HEADER_BYTES

    @property
    def payload_end(self) -> Indices:
        return self.start + self.length - (OVERHEAD_BYTES - HEADER_BYTES)


def read(buffer: bytes, segments: Sequence[Segment], *, max_frame_bytes: int) -> Frames:
    """Return the complete, valid frames at the beginning of each segment."""
    starts, lengths, segment = _complete_frames(buffer, segments, max_frame_bytes)
    every = np.frombuffer(buffer, np.uint8)
    groups: list[Group] = []
    single: list[Indices] = []
    stored, valid = np.zeros(len(starts), np.uint32), np.ones(len(starts), np.bool_)
    for frame in _by_length(lengths):
        payload_bytes = int(lengths[frame[0]]) - OVERHEAD_BYTES
        if len(frame) < FEWEST_IN_GROUP or not 0 < payload_bytes <= LONGEST_IN_GROUP:
            single.append(frame)
            continue
        payloads = starts[frame] + HEADER_BYTES
        stored[frame] = _side_by_side(every, payloads + payload_bytes, 4).copy().view("<u4").ravel()
        rows = _side_by_side(every, payloads, payload_bytes)
        varying = (rows != rows[0]).any(axis=0)
        valid[frame] = masked(_checksums_by_columns(rows, varying)) == stored[frame]
        groups.append(Group(frame, rows, varying))
    if single:  # all lengths together, because there may be as many lengths as frames
        frame = np.concatenate(single)
        payloads, many_bytes = starts[frame] + HEADER_BYTES, lengths[frame] - OVERHEAD_BYTES
        stored[frame] = sliding_window_view(every, 4)[payloads + many_bytes].view("<u4").ravel()
        slices = zip(payloads.tolist(), (payloads + many_bytes).tolist(), strict=True)
        valid[frame] = masked(np.array(crcs_of_slices(buffer, slices), np.uint32)) == stored[frame]
    if not valid.all():
        kept = _before_first_invalid(valid, segment)
        starts, lengths, stored, segment = starts[kept], lengths[kept], stored[kept], segment[kept]
        groups = [_of_kept(group, kept) for group in groups]
    read_to = np.array([start for start, _ in segments], np.int64)
    read_to[segment] = starts + lengths  # for equal indices numpy keeps the last value
    return Frames(starts, lengths, stored, segment, read_to, tuple(groups))


def _before_first_invalid(valid: NDArray[np.bool_], segment: Indices) -> NDArray[np.bool_]:
    """Return which frames are before the first invalid frame of their segment."""
    kept = valid.copy()
    invalid = np.flatnonzero(~valid)
    segments, firsts = np.unique(segment[invalid], return_index=True)
    for number, first in zip(segments.tolist(), invalid[firsts].tolist(), strict=True):
        kept[first : np.searchsorted(segment, number, side="right")] = False
    return kept


def _of_kept(group: Group, kept: NDArray[np.bool_]) -> Group:
    stays = kept[group.frame]
    return Group((np.cumsum(kept) - 1)[group.frame[stays]], group.rows[stays], group.varying)


def _by_length(lengths: Indices) -> list[Indices]:
    """Return for each length the indices of its frames, ascending."""
    if (lengths == lengths[:1]).all():
        return [np.arange(len(lengths))] if len(lengths) else []
    order = np.argsort(lengths, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)


def _side_by_side(every: Bytes, starts: Indices, length: int) -> Bytes:
    """Return `length` bytes from each start on as an array of shape (n, length); a view if evenly spaced."""
    stride = int(starts[1] - starts[0]) if len(starts) > 1 else length
    if (np.diff(starts) == stride).all():
        return as_strided(every[int(starts[0]) :], (len(starts), length), (stride, 1), writeable=False)
    return sliding_window_view(every, length)[starts]


@dataclass(slots=True)
class _Headers:
    """The frames found so far: those whose header is valid and that end within their segment."""

    buffer: bytes
    max_frame_bytes: int
    known: dict[bytes, int] = field(default_factory=dict)
    """The length of the frame by its header, 0 for an invalid one: files repeat few headers very often."""
    found: list[tuple[Indices, Indices]] = field(default_factory=list)
    """Starts and lengths of frames, in blocks."""
    starts: list[int] = field(default_factory=list)
    """Starts of the frames behind the last block."""
    lengths: list[int] = field(default_factory=list)
    """Their lengths."""
    count: int = 0
    """How many frames are in blocks."""

    def read(self, start: int, end: int) -> None:
        """Find the frames of one segment."""
        unseen = 0  # frames since the last search for a cycle
        while start + HEADER_BYTES <= end:
            header = self.buffer[start : start + HEADER_BYTES]
            length = self.known.get(header)
            if length is None:
                length = self.known[header] = _length(header, self.max_frame_bytes)
            if length == 0 or start + length > end:
                return
            self.starts.append(start)
            self.lengths.append(length)
            start += length
            unseen += 1
            if unseen == _LOOK_BACK:
                unseen = 0
                start = self._cycles(self.lengths[-_LOOK_BACK:], start, end)

    def _cycles(self, before: list[int], start: int, end: int) -> int:
        """Find the frames that continue the cycle of the lengths `before`; return the index behind them."""
        period = _period(before)
        cycle = before[len(before) - period :]
        if period == 0 or (end - start) // sum(cycle) * period < _FEWEST_IN_CYCLES:
            return start
        ends = list(accumulate(cycle))
        begins = [0, *ends[:-1]]
        places = [start - ends[-1] + begin for begin in begins]
        headers = [self.buffer[place : place + HEADER_BYTES] for place in places]
        columns = np.array(begins)
        every = np.frombuffer(self.buffer, np.uint8)
        count = _cycle_count(every, start, (end - start) // ends[-1], columns, headers, ends[-1])
        self.close_block()
        starts = (start + ends[-1] * np.arange(count)[:, None] + columns).ravel()
        self._add(starts, np.tile(np.array(cycle, np.int64), count))
        return start + count * ends[-1]

    def close_block(self) -> None:
        """Turn the frames behind the last block into a block."""
        self._add(np.array(self.starts, np.int64), np.array(self.lengths, np.int64))
        self.starts, self.lengths = [], []

    def _add(self, starts: Indices, lengths: Indices) -> None:
        self.found.append((starts, lengths))
        self.count += len(starts)


def _complete_frames(
    buffer: bytes, segments: Sequence[Segment], max_frame_bytes: int
) -> tuple[Indices, Indices, Indices]:
    """Return starts, lengths and segments of the frames whose header is valid and that end within their segment."""
    headers, ends = _Headers(buffer, max_frame_bytes), [0]
    for start, end in segments:
        headers.read(start, end)
        ends.append(headers.count + len(headers.starts))
    headers.close_block()
    starts, lengths = (np.concatenate(blocks) for blocks in zip(*headers.found, strict=True))
    return starts, lengths, np.repeat(np.arange(len(segments)), np.diff(ends))


def _length(header: bytes, max_frame_bytes: int) -> int:
    """Return the length of the whole frame; 0 if the header is invalid or the frame longer than allowed."""
    payload_bytes, checksum = HEADER.unpack(header)
    length: int = payload_bytes + OVERHEAD_BYTES
    return length if length <= max_frame_bytes and length_checksum(payload_bytes) == checksum else 0


def _period(lengths: list[int]) -> int:
    """Return after how many frames the lengths repeat; 0 if they do not."""
    periods = range(1, _LONGEST_CYCLE + 1)
    return next((period for period in periods if lengths[period:] == lengths[:-period]), 0)


def _cycle_count(
    every: Bytes, start: int, most: int, columns: Indices, headers: Sequence[bytes], cycle_bytes: int
) -> int:
    """Return how many whole cycles of these headers, at most `most`, follow each other from `start` on."""
    count, stride = 0, 4
    while count < most:
        stride = min(stride * 4, most - count)
        equal = np.ones(stride, np.bool_)
        for column, header in zip(columns.tolist(), headers, strict=True):
            first = every[start + count * cycle_bytes + column :]
            rows = as_strided(first, (stride, HEADER_BYTES), (cycle_bytes, 1))
            equal &= (rows == np.frombuffer(header, np.uint8)).all(axis=1)
        if not equal.all():
            return count + int(equal.argmin())
        count += stride
    return count


def _checksums_by_columns(rows: Bytes, varying: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return the CRC-32C of each row: that of the first row, changed by each byte that differs from it."""
    first = rows[0]
    crc = np.full(len(rows), google_crc32c.value(first.tobytes()), np.uint32)
    for column in np.flatnonzero(varying).tolist():
        changes = _changes(rows.shape[1] - 1 - column)
        crc ^= (changes ^ changes[first[column]])[rows[:, column]]
    return crc


@cache
def _changes(bytes_behind: int) -> NDArray[np.uint32]:
    """Return how each value of a byte, compared with 0, changes the CRC if `bytes_behind` bytes follow it."""
    zeros = bytes(bytes_behind)
    base = google_crc32c.value(b"\0" + zeros)
    return np.array([google_crc32c.value(bytes([byte]) + zeros) ^ base for byte in range(256)], np.uint32)
