"""The frame format of a log file: `length (8 bytes) | its checksum (4) | payload | its checksum (4)`.

In: a buffer that holds part of a file, and the file position of its first byte; integers are little-endian, checksums
masked CRC-32C (Castagnoli polynomial), as in TFRecord files.
Out: one after the other, the complete, checked frames, then exactly one of NeedData (the frame is not complete yet,
which is no error) and Suspect (the bytes at this position are no frame at present); or, from `read_frames`, all at
once, those at the beginning of each segment of the buffer, short ones of equal length also in groups.
Promises: a frame is returned only if both checksums match; the frames found do not depend on how the file was split
into buffers, and `read_frames` finds exactly those that `FrameReader` finds; a length above `max_frame_bytes` is never
believed, and no length alone causes an allocation; time is linear in the buffer's size, whatever its headers claim. No
I/O. Does not know the meaning of payloads, or whether the bytes of a suspect position will still be written.

How `read_frames` is fast: headers are read one by one until their lengths repeat in a cycle, then many cycles at once.
Checksums use that a CRC is linear: payloads of one length differ from the first of them in few columns, and each
differing byte changes the CRC in a known way.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, lru_cache
from itertools import accumulate

import google_crc32c
import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 12
OVERHEAD_BYTES = 16
"""Bytes of a frame beside its payload: header and payload checksum."""
DEFAULT_MAX_FRAME_BYTES = 64 * 1024 * 1024

HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_ZERO_HEADER = bytes(HEADER_BYTES)
_SEARCH_WINDOW_BYTES = 1024 * 1024
_MASK = 0xA282EAD8
_PART_BYTES = 1 << 20
_SLICE_BLOCK_BYTES = 8192

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
class Frame:
    """One complete frame with valid checksums."""

    position: int
    """File position of the frame's first byte."""
    length: int
    """Bytes of the whole frame: payload and OVERHEAD_BYTES."""
    payload: bytes
    checksum: int
    """Masked CRC-32C of the payload, as stored in the file."""

    @property
    def end(self) -> int:
        """File position behind the frame."""
        return self.position + self.length


@dataclass(frozen=True, slots=True)
class NeedData:
    """The frame at `position` is not complete in the buffer."""

    position: int
    length: int
    """Bytes of the whole frame if its header is complete and valid, else the minimum size of a frame."""

    def wanted(self, available: int) -> int:
        """Return how many bytes to read from `position` on, where `available` bytes were too few.

        A format whose frames do not state their length asks for one byte more; then twice as many are read.
        """
        return self.length if self.length > available + 1 else 2 * available + 1


class SuspectReason(StrEnum):
    """Why no frame can be read at a position."""

    ZERO_HEADER = "header is all zero bytes (a hole in the file)"
    BAD_LENGTH_CHECKSUM = "checksum of the length does not match"
    FRAME_TOO_LONG = "length is above max_frame_bytes"
    BAD_PAYLOAD_CHECKSUM = "checksum of the payload does not match"
    CUT_SHORT = "the frame would end behind the end of the finished file, and others follow it"
    """Never returned by FrameReader, which does not know where a file ends."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """The bytes at `position` are no valid frame: they are damaged, or have not been written completely yet."""

    position: int
    reason: SuspectReason
    end: int | None = None
    """File position behind the bad frame, if its header is valid, that is, for BAD_PAYLOAD_CHECKSUM; else None."""


def encode_header(payload_bytes: int) -> bytes:
    """Return the header of a frame: its payload's length, and the checksum of that."""
    return HEADER.pack(payload_bytes, length_checksum(payload_bytes))


def encode_frame(payload: bytes) -> bytes:
    """Return the frame that MindSpore writes for `payload`."""
    header = encode_header(len(payload))
    return header + payload + _CHECKSUM.pack(masked_crc32c(payload))


class FrameReader:
    """Finds frames in one buffer. All calls together take time linear in its size if their `start` ascends."""

    def __init__(
        self, buffer: Buffer, *, base: int = 0, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    ) -> None:
        self._view, self._base, self._max_frame_bytes = memoryview(buffer), base, max_frame_bytes
        self._checksums = SliceChecksums(self._view)
        self._window, self._headers = range(0), list[int]()

    def next(self, start: int = 0) -> Frame | NeedData | Suspect:
        """Return what is at index `start` of the buffer, whose first byte has the file position `base`.

        `max_frame_bytes` bounds the whole frame. Only the payload is copied, once.
        """
        view, position = self._view, self._base + start
        available = len(view) - start
        if available < HEADER_BYTES:
            return NeedData(position, OVERHEAD_BYTES)
        payload_length, header_checksum = HEADER.unpack_from(view, start)
        if length_checksum(payload_length) != header_checksum:
            hole = view[start : start + HEADER_BYTES] == _ZERO_HEADER
            return Suspect(position, SuspectReason.ZERO_HEADER if hole else SuspectReason.BAD_LENGTH_CHECKSUM)
        length = payload_length + OVERHEAD_BYTES
        if length > self._max_frame_bytes:
            return Suspect(position, SuspectReason.FRAME_TOO_LONG)
        if available < length:
            return NeedData(position, length)
        payload_start, payload_end = start + HEADER_BYTES, start + HEADER_BYTES + payload_length
        (checksum,) = _CHECKSUM.unpack_from(view, payload_end)
        if self._checksums.of(payload_start, payload_end) != checksum:
            return Suspect(position, SuspectReason.BAD_PAYLOAD_CHECKSUM, position + length)
        return Frame(position, length, bytes(view[payload_start:payload_end]), checksum)

    def find(self, start: int = 0, before: int | None = None) -> Frame | NeedData | None:
        """Resynchronise: return the first valid frame that begins at or behind index `start`, and before `before`.

        If there is no complete one, return NeedData for the first valid header whose payload is incomplete in the
        buffer. A complete frame behind such a header wins, as when another writer appended to a torn frame. None:
        there is no valid header, though one may begin in the last `HEADER_BYTES - 1` bytes. Empty frames are never
        found, because no writer produces them.
        """
        incomplete: NeedData | None = None
        for index in self._valid_headers(start, len(self._view) if before is None else before):
            found = self.next(index)
            if isinstance(found, Frame):
                return found
            if isinstance(found, NeedData):
                incomplete = incomplete or found
        return incomplete

    def _valid_headers(self, start: int, before: int) -> Iterator[int]:
        """Yield the indices of plausible lengths with a matching checksum, ascending; search each window once."""
        end = min(before, len(self._view) - HEADER_BYTES + 1)
        while start < end:
            if start not in self._window:
                last = min(start + _SEARCH_WINDOW_BYTES, len(self._view) - HEADER_BYTES + 1)
                self._window = range(start, last)
                self._headers = _valid_headers_between(
                    self._view, start, last, self._max_frame_bytes
                ).tolist()
            window, headers = self._window, self._headers
            for place in range(bisect_left(headers, start), bisect_left(headers, end)):
                yield headers[place]
            start = window.stop


def _valid_headers_between(view: memoryview, begin: int, end: int, max_frame_bytes: int) -> NDArray[np.int64]:
    plausible = []
    for phase in range(begin, min(begin + 8, end)):
        lengths = np.frombuffer(view, "<u8", count=(end - 1 - phase) // 8 + 1, offset=phase)
        hits = np.flatnonzero((lengths > 0) & (lengths <= max_frame_bytes - OVERHEAD_BYTES))
        checksums = _unaligned_u4(view, phase + 8 + hits * 8)
        plausible.append(phase + 8 * hits[length_checksums(lengths[hits]) == checksums])
    return np.sort(np.concatenate(plausible))


def _unaligned_u4(view: memoryview, indices: NDArray[np.int64]) -> NDArray[np.uint32]:
    four_bytes = sliding_window_view(np.frombuffer(view, np.uint8), 4)
    return four_bytes[indices].view("<u4").ravel()


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


def read_frames(buffer: bytes, segments: Sequence[Segment], *, max_frame_bytes: int) -> Frames:
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
        valid[frame] = masked_crcs(_checksums_by_columns(rows, varying)) == stored[frame]
        groups.append(Group(frame, rows, varying))
    if single:  # all lengths together, because there may be as many lengths as frames
        frame = np.concatenate(single)
        payloads, many_bytes = starts[frame] + HEADER_BYTES, lengths[frame] - OVERHEAD_BYTES
        stored[frame] = sliding_window_view(every, 4)[payloads + many_bytes].view("<u4").ravel()
        slices = zip(payloads.tolist(), (payloads + many_bytes).tolist(), strict=True)
        valid[frame] = masked_crcs(np.array(crcs_of_slices(buffer, slices), np.uint32)) == stored[frame]
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


def masked_crc32c(content: bytes | memoryview) -> int:
    """Return the checksum as stored in the file: the CRC-32C, rotated and offset, 0 <= n < 2**32.

    So a checksum over data with checksums in it stays strong.
    """
    return _masked(crc32c(content))


def _masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def masked_crcs(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the masked form of each CRC-32C."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(_MASK)


class SliceChecksums:
    """The masked CRC-32C of any number of slices of a buffer, which may overlap; each block is read about once.

    A CRC is linear: that of a slice follows from the CRCs of the buffer up to its beginning and up to its end. The CRC
    up to each block is cached, so that even a long slice takes the time of reading two blocks.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._of_blocks = [0]
        """At index n the CRC of the first n blocks, as far as needed so far."""

    def of(self, start: int, end: int) -> int:
        """Return the masked CRC-32C of `buffer[start:end]`."""
        if end - start <= _SLICE_BLOCK_BYTES:
            return masked_crc32c(self._buffer[start:end])
        return _masked(self._up_to(end) ^ _with_zeros_behind(self._up_to(start), end - start))

    def _up_to(self, end: int) -> int:
        blocks, size = self._of_blocks, _SLICE_BLOCK_BYTES
        while len(blocks) <= end // size:
            whole = bytes(self._buffer[(len(blocks) - 1) * size : len(blocks) * size])
            blocks.append(google_crc32c.extend(blocks[-1], whole))
        rest = bytes(self._buffer[end // size * size : end])
        crc: int = google_crc32c.extend(blocks[end // size], rest)
        return crc


def _with_zeros_behind(crc: int, length: int) -> int:
    """Return what the CRC of some bytes contributes to the CRC of the same bytes with `length` further bytes."""
    for exponent in range(length.bit_length()):
        if length >> exponent & 1:
            first, second, third, fourth = _zero_tables(exponent)
            crc = first[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ fourth[crc >> 24]
    return crc


@cache
def _zero_tables(exponent: int) -> tuple[Sequence[int], ...]:
    """Return for each of the four bytes of a CRC, and each of its values, its contribution 2**exponent bytes later."""
    if exponent:
        half = 1 << exponent - 1
        bits = [_with_zeros_behind(_with_zeros_behind(1 << bit, half), half) for bit in range(32)]
    else:
        zero: int = google_crc32c.value(b"\0")
        low = [google_crc32c.value(bytes([1 << bit])) ^ zero for bit in range(8)]
        bits = low + [1 << bit for bit in range(24)]
    tables = []
    for first in range(0, 32, 8):
        table = [0]
        for bit in bits[first : first + 8]:
            table += [bit ^ other for other in table]
        tables.append(table)
    return tuple(tables)


@lru_cache(maxsize=4096)
def length_checksum(length: int) -> int:
    """Return the checksum in the header of a frame whose payload has `length` bytes."""
    return masked_crc32c(length.to_bytes(8, "little"))


def length_checksums(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return the `length_checksum` of each element. A CRC is linear, so a table look-up per byte is enough."""
    crc = np.full(lengths.shape, crc32c(bytes(8)), np.uint32)
    for position, table in enumerate(_length_tables()):
        crc ^= table[(lengths >> np.uint64(8 * position)) & np.uint64(0xFF)]
    return masked_crcs(crc)


@cache
def _length_tables() -> tuple[NDArray[np.uint32], ...]:
    """Return for each byte of a length how each of its 256 values changes the CRC of eight zero bytes."""
    zero = crc32c(bytes(8))
    lengths = [[byte << 8 * position for byte in range(256)] for position in range(8)]
    return tuple(
        np.array([crc32c(n.to_bytes(8, "little")) ^ zero for n in row], np.uint32) for row in lengths
    )


def crc32c(content: bytes | memoryview) -> int:
    """Return the CRC-32C of `content`, not masked. The library takes only bytes, so a long view is copied in parts."""
    crc: int = google_crc32c.value(bytes(content[:_PART_BYTES]))
    for start in range(_PART_BYTES, len(content), _PART_BYTES):
        crc = google_crc32c.extend(crc, bytes(content[start : start + _PART_BYTES]))
    return crc


def crcs_of_slices(buffer: bytes, slices: Iterable[tuple[int, int]]) -> list[int]:
    """Return the CRC-32C, not masked, of each slice (start, end). For short slices the library is called directly."""
    value, view = google_crc32c.value, memoryview(buffer)
    return [
        value(buffer[start:end]) if end - start <= _PART_BYTES else crc32c(view[start:end])
        for start, end in slices
    ]
