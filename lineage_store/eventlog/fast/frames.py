"""Where many frames are, and whether their checksums hold: the vectorised half of framing.

In: a buffer. Out: the complete frames from an index on, in groups of equal length, each checked.
Promises: exactly the frames that `framing.read_frames` would give, up to the first that is not valid.
Runs of equal headers are found by growing strides. Checksums use that a CRC is linear: payloads of one length differ
from the first of them in few columns, and each differing byte contributes a known change.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

import google_crc32c
import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from numpy.typing import NDArray

from lineage_store.eventlog.crc import length_checksum
from lineage_store.eventlog.framing import HEADER_BYTES, OVERHEAD_BYTES

Indices = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_HEADER = struct.Struct("<QI")
MASK = np.uint32(0xA282EAD8)
LONGEST_IN_GROUP = 512
"""Payloads that are longer are checked one by one: there the call is no longer the cost."""
FEWEST_IN_GROUP = 16
_ALIKE_BEFORE_RUN = 4
"""So many equal headers in a row are taken for the beginning of a run."""


@dataclass(frozen=True, slots=True)
class Group:
    """Frames of one length whose payloads lie side by side, a row each."""

    frame: Indices
    """Index of each among all frames of the buffer, ascending."""
    rows: Bytes
    varying: NDArray[np.bool_]
    """Which columns are not the same in all rows."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Complete, valid frames that follow each other."""

    start: Indices
    length: Indices
    checksum: NDArray[np.uint32]
    """Of the payload, as it stands in the file."""
    groups: tuple[Group, ...]
    """Those frames that are small and of one length with many others."""

    @property
    def payload_start(self) -> Indices:
        return self.start + HEADER_BYTES

    @property
    def payload_end(self) -> Indices:
        return self.start + self.length - (OVERHEAD_BYTES - HEADER_BYTES)


def read(buffer: bytes, start: int, *, max_frame_bytes: int) -> Frames:
    """The frames from index `start` on."""
    starts, lengths = _complete_frames(buffer, start, max_frame_bytes)
    every = np.frombuffer(buffer, np.uint8)
    if not len(starts):
        return Frames(starts, lengths, np.zeros(0, np.uint32), ())
    stored = sliding_window_view(every, 4)[starts + lengths - 4].view("<u4").ravel()
    valid = np.zeros(len(starts), np.bool_)
    groups = []
    for frame in _by_length(lengths):
        payload_bytes = int(lengths[frame[0]]) - OVERHEAD_BYTES
        payloads = starts[frame] + HEADER_BYTES
        if len(frame) < FEWEST_IN_GROUP or not 0 < payload_bytes <= LONGEST_IN_GROUP:
            valid[frame] = _checksums(buffer, payloads, payload_bytes) == stored[frame]
            continue
        rows = _side_by_side(every, payloads, payload_bytes)
        varying = (rows != rows[0]).any(axis=0)
        valid[frame] = _masked(_checksums_by_columns(rows, varying)) == stored[frame]
        groups.append(Group(frame, rows, varying))
    count = len(starts) if valid.all() else int(valid.argmin())
    if count < len(starts):
        groups = [_before(group, count) for group in groups]
    return Frames(starts[:count], lengths[:count], stored[:count], tuple(groups))


def _before(group: Group, count: int) -> Group:
    kept = int(np.searchsorted(group.frame, count))
    return Group(group.frame[:kept], group.rows[:kept], group.varying)


def _by_length(lengths: Indices) -> list[Indices]:
    """Indices of the frames of each length, ascending within each."""
    if (lengths == lengths[0]).all():
        return [np.arange(len(lengths))]
    order = np.argsort(lengths, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)


def _side_by_side(every: Bytes, starts: Indices, length: int) -> Bytes:
    """(n, length): without a copy where the payloads are evenly spaced."""
    stride = int(starts[1] - starts[0])
    if (np.diff(starts) == stride).all():
        return as_strided(every[int(starts[0]) :], (len(starts), length), (stride, 1), writeable=False)
    return sliding_window_view(every, length)[starts]


def _complete_frames(buffer: bytes, start: int, max_frame_bytes: int) -> tuple[Indices, Indices]:
    """Frames whose header is valid and which end inside the buffer."""
    every = np.frombuffer(buffer, np.uint8)
    lengths: dict[bytes, int] = {}  # by header: files repeat few of them very often
    found: list[Indices] = []
    single: list[int] = []
    header, alike, size = b"", 0, len(buffer)
    while start + HEADER_BYTES <= size:
        before, header = header, buffer[start : start + HEADER_BYTES]
        length = lengths.get(header)
        if length is None:
            length = lengths[header] = _length(header, max_frame_bytes)
        if length == 0 or start + length > size:
            break
        alike = alike + 1 if header == before else 0
        if alike < _ALIKE_BEFORE_RUN:
            single.append(start)
            start += length
        else:
            run = start + length * np.arange(_run(every, buffer, start, length))
            found += [np.array(single, np.int64), run]
            single, alike, start = [], 0, int(run[-1]) + length
    starts = np.concatenate([*found, np.array(single, np.int64)])
    return starts, np.diff(starts, append=start)


def _length(header: bytes, max_frame_bytes: int) -> int:
    """Bytes of the whole frame; 0 where the header is none."""
    payload_bytes, checksum = _HEADER.unpack(header)
    length: int = payload_bytes + OVERHEAD_BYTES
    return length if length <= max_frame_bytes and length_checksum(payload_bytes) == checksum else 0


def _run(every: Bytes, buffer: bytes, start: int, length: int) -> int:
    """How many complete frames with the same header follow each other from `start` on."""
    most = (len(buffer) - start) // length
    header = buffer[start : start + HEADER_BYTES]
    run, stride = 1, 4
    while run < most:
        stride = min(stride * 4, most - run)
        rows = as_strided(every[start + run * length :], (stride, HEADER_BYTES), (length, 1))
        equal = (rows == np.frombuffer(header, np.uint8)).all(axis=1)
        if not equal.all():
            return run + int(equal.argmin())
        run += stride
    return run


def _checksums(buffer: bytes, starts: Indices, length: int) -> NDArray[np.uint32]:
    view = memoryview(buffer)
    crcs = [google_crc32c.value(bytes(view[first : first + length])) for first in starts.tolist()]
    return _masked(np.array(crcs, np.uint32))


def _checksums_by_columns(rows: Bytes, varying: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """The CRC-32C of each row: that of the first, and what each byte that differs from it changes."""
    first = rows[0]
    crc = np.full(len(rows), google_crc32c.value(first.tobytes()), np.uint32)
    for column in np.flatnonzero(varying).tolist():
        changes = _changes(rows.shape[1] - 1 - column)
        crc ^= (changes ^ changes[first[column]])[rows[:, column]]
    return crc


def _masked(crc: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + MASK


@cache
def _changes(bytes_behind: int) -> NDArray[np.uint32]:
    """For each value of a byte: how it changes the CRC, with so many bytes behind it."""
    zeros = bytes(bytes_behind)
    base = google_crc32c.value(b"\0" + zeros)
    return np.array([google_crc32c.value(bytes([byte]) + zeros) ^ base for byte in range(256)], np.uint32)
