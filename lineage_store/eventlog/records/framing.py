"""The frame format of a log file: `length (8 bytes) | its checksum (4) | payload | its checksum (4)`.

In: a buffer that holds part of a file, and the file position of its first byte; integers are little-endian.
Out: the complete, checked frames, then exactly one of NeedData (the frame is not complete yet, which is no error) and
Suspect (the bytes at this position are no frame at present).
Promises: a frame is returned only if both checksums match; the frames found do not depend on how the file was split
into buffers; a length above `max_frame_bytes` is never believed, and no length alone causes an allocation; time is
linear in the buffer's size, whatever its headers claim. No I/O.
Does not know the meaning of payloads, or whether the bytes of a suspect position will still be written.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from lineage_store.eventlog.records.crc import (
    SliceChecksums,
    length_checksum,
    length_checksums,
    masked_crc32c,
)

Buffer = bytes | bytearray | memoryview

HEADER_BYTES = 12
OVERHEAD_BYTES = 16
"""Bytes of a frame beside its payload: header and payload checksum."""
DEFAULT_MAX_FRAME_BYTES = 64 * 1024 * 1024

HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_ZERO_HEADER = bytes(HEADER_BYTES)
_SEARCH_WINDOW_BYTES = 1024 * 1024


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
