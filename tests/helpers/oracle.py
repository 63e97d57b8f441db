"""A second reader of summary files, with struct and a few lines of protobuf; it shares no code with the package.

In: a summary file, or bytes of one. Out: its frames, and its scalars in the order in which they were written.
`payloads` and `scalars` trust every length and check no checksum, so they are for undamaged files only; `sound_frame`
is for others.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

_VARINT, _EIGHT_BYTES, _BLOCK, _FOUR_BYTES = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class OracleScalar:
    tag: str
    step: int
    wall_time: float
    value: float


def sound_frame(content: bytes, start: int) -> bytes | None:
    """Return the payload of the complete frame with valid checksums at index `start`; None when there is none."""
    if start + 16 > len(content):
        return None
    length, length_checksum = struct.unpack_from("<QI", content, start)
    end = start + 12 + length
    if _checksum(content[start : start + 8]) != length_checksum or end + 4 > len(content):
        return None
    payload = content[start + 12 : end]
    return payload if struct.pack("<I", _checksum(payload)) == content[end : end + 4] else None


def payloads(path: Path) -> Iterator[bytes]:
    """Yield the payload of every frame."""
    content, position = path.read_bytes(), 0
    while position < len(content):
        (length,) = struct.unpack_from("<Q", content, position)
        yield content[position + 12 : position + 12 + length]
        position += length + 16


def scalars(path: Path) -> list[OracleScalar]:
    """Yield every scalar of a summary file."""
    return [scalar for payload in payloads(path) for scalar in scalars_in(payload)]


def scalars_in(payload: bytes) -> list[OracleScalar]:
    """Yield every scalar of an event."""
    found = []
    event = dict(_fields(payload))
    wall_time = _double(event.get(1, bytes(8)))
    step = _signed(event.get(2, 0))
    for number, value in _fields(_bytes(event.get(5, b""))):
        fields = dict(_fields(_bytes(value))) if number == 1 else {}
        if 3 in fields:
            tag = _bytes(fields[1]).decode()
            found.append(OracleScalar(tag, step, wall_time, struct.unpack("<f", _bytes(fields[3]))[0]))
    return found


def is_event(payload: bytes) -> bool:
    """Whether a payload reads as the fields of a message."""
    try:
        list(_fields(payload))
    except (IndexError, KeyError):
        return False
    return True


def _checksum(content: bytes) -> int:
    crc: int = google_crc32c.value(content)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, position = _varint(message, position)
            yield number, value
            continue
        if wire_type == _BLOCK:
            length, position = _varint(message, position)
        else:
            length = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}[wire_type]
        yield number, message[position : position + length]
        position += length


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        value |= (byte & 0x7F) << shift
        shift, position = shift + 7, position + 1
        if byte < 0x80:
            return value, position


def _signed(value: int | bytes) -> int:
    assert isinstance(value, int)
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _double(value: int | bytes) -> float:
    number: float = struct.unpack("<d", _bytes(value))[0]
    return number
