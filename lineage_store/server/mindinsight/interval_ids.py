"""The id that MindInsight gives to the intervals of a landscape: Python's hash of their text. Pure.

In: a list of steps or epochs. Out: a 64-bit number in decimal, the hash that Python 3.11 and newer compute with
PYTHONHASHSEED=0: SipHash-1-3 with a key of zeros. In MindInsight the id changes with every start; here it is stable.
"""

from __future__ import annotations

from collections.abc import Sequence

_MASK = (1 << 64) - 1
_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def interval_id(intervals: Sequence[int]) -> str:
    """Return the id of these intervals."""
    number = _siphash13(str(list(intervals)).encode())
    return str(number - (1 << 64) if number >> 63 else number)


def _siphash13(message: bytes) -> int:
    state = _INITIAL
    whole = len(message) // 8 * 8
    words = [int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(message[whole:], "little") | (len(message) & 0xFF) << 56)
    for word in words:
        v0, v1, v2, v3 = state
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        state = v0 ^ word, v1, v2, v3
    v0, v1, v2, v3 = state
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _MASK
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = (v2 + v3) & _MASK
    v3 = _rotated(v3, 16) ^ v2
    v0 = (v0 + v3) & _MASK
    v3 = _rotated(v3, 21) ^ v0
    v2 = (v2 + v1) & _MASK
    v1 = _rotated(v1, 17) ^ v2
    return v0, v1, _rotated(v2, 32), v3


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK
