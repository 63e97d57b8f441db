"""The masked CRC-32C of the frame format: of one byte string, of any slice of a buffer, of many frame lengths at once.

In: bytes, or an array of frame lengths. Out: the checksum as it stands in the file (CRC-32C with the
Castagnoli polynomial, rotated and offset so that a checksum of checksums stays strong; the same as in
TFRecord files).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import google_crc32c
import numpy as np
from numpy.typing import NDArray

MASK = 0xA282EAD8
_PART_BYTES = 1 << 20


def masked_crc32c(content: bytes | memoryview) -> int:
    """The masked CRC-32C of `content`, 0 <= n < 2**32."""
    return _masked(crc32c(content))


def _masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + MASK) & 0xFFFFFFFF


class SliceChecksums:
    """The masked CRC-32C of slices of a buffer, however many and however they overlap, each byte read about once.

    A CRC is linear: that of a slice follows from those of what ends where it begins and where it ends, and those are
    kept block by block.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._of_blocks = [0]
        """The CRC of the first n blocks, as far as they were needed."""

    def of(self, start: int, end: int) -> int:
        """The checksum of `buffer[start:end]`."""
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


_SLICE_BLOCK_BYTES = 8192


def _with_zeros_behind(crc: int, length: int) -> int:
    """What a CRC contributes to that of the same bytes with `length` more behind them."""
    for exponent in range(length.bit_length()):
        if length >> exponent & 1:
            first, second, third, fourth = _zero_tables(exponent)
            crc = first[crc & 255] ^ second[crc >> 8 & 255] ^ third[crc >> 16 & 255] ^ fourth[crc >> 24]
    return crc


@cache
def _zero_tables(exponent: int) -> tuple[Sequence[int], ...]:
    """For each byte of a CRC, and for each value of it: what becomes of it with 2**exponent zero bytes behind."""
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
    """The checksum in the header of a frame whose payload has `length` bytes."""
    return masked_crc32c(length.to_bytes(8, "little"))


def length_checksums(lengths: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """`length_checksum` of every element; as a CRC is linear, one table look-up for each of its bytes."""
    crc = np.full(lengths.shape, crc32c(bytes(8)), np.uint32)
    for position, table in enumerate(_length_tables()):
        crc ^= table[(lengths >> np.uint64(8 * position)) & np.uint64(0xFF)]
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(MASK)


@cache
def _length_tables() -> tuple[NDArray[np.uint32], ...]:
    """For each byte of a length: what each of its 256 values changes in the CRC of eight zero bytes."""
    zero = crc32c(bytes(8))
    lengths = [[byte << 8 * position for byte in range(256)] for position in range(8)]
    return tuple(
        np.array([crc32c(n.to_bytes(8, "little")) ^ zero for n in row], np.uint32) for row in lengths
    )


def crc32c(content: bytes | memoryview) -> int:
    """The CRC-32C of `content`, not masked. The library takes bytes only: a long view is copied part by part."""
    crc: int = google_crc32c.value(bytes(content[:_PART_BYTES]))
    for start in range(_PART_BYTES, len(content), _PART_BYTES):
        crc = google_crc32c.extend(crc, bytes(content[start : start + _PART_BYTES]))
    return crc


def crcs_of_slices(buffer: bytes, slices: Sequence[tuple[int, int]]) -> list[int]:
    """`crc32c` of slices (start, end); the call of the library is what a short one costs."""
    value, view = google_crc32c.value, memoryview(buffer)
    return [
        value(buffer[start:end]) if end - start <= _PART_BYTES else crc32c(view[start:end])
        for start, end in slices
    ]
