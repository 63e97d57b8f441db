"""The masked CRC-32C of the frame format: for one byte string, any slice of a buffer, or many frame lengths at once.

In: bytes, or an array of frame lengths. Out: the checksum as stored in the file, the same as in TFRecord files: the
CRC-32C (Castagnoli polynomial), rotated and offset so that a checksum over data with checksums in it stays strong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

import google_crc32c
import numpy as np
from numpy.typing import NDArray

_MASK = 0xA282EAD8
_PART_BYTES = 1 << 20


def masked_crc32c(content: bytes | memoryview) -> int:
    """Return the masked CRC-32C of `content`, 0 <= n < 2**32."""
    return _masked(crc32c(content))


def _masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


def masked(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
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


_SLICE_BLOCK_BYTES = 8192


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
    return masked(crc)


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
