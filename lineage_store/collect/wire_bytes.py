"""Serialise fields of protobuf messages that are written often, because MindSpore makes protobuf run in pure Python.

In: a field's number and its value. Out: the same bytes as from protobuf's own serialiser. A message is the
concatenation of its fields in the order of their numbers.
"""

from __future__ import annotations

import math
import struct

_VARINT, _FIXED_64, _LENGTH, _FIXED_32 = (0, 1, 2, 5)
"""The wire types."""
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")


def varint(number: int) -> bytes:
    """Encode an integer; a negative one in 64 bits of two's complement."""
    if 0 <= number <= 0x7F:
        return bytes((number,))
    number %= 2**64
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def varint_field(field: int, number: int) -> bytes:
    """Encode an int32, int64 or enum."""
    return varint(field << 3 | _VARINT) + varint(number)


def double_field(field: int, number: float) -> bytes:
    """Encode a double."""
    return varint(field << 3 | _FIXED_64) + _DOUBLE.pack(number)


def float_field(field: int, number: float) -> bytes:
    """Encode a float; a number beyond its range becomes infinity, as in a C cast."""
    try:
        packed = _FLOAT.pack(number)
    except OverflowError:
        packed = _FLOAT.pack(math.copysign(math.inf, number))
    return varint(field << 3 | _FIXED_32) + packed


def length_field(field: int, content: bytes) -> bytes:
    """Encode a string, bytes, packed numbers or a message."""
    return varint(field << 3 | _LENGTH) + varint(len(content)) + content
