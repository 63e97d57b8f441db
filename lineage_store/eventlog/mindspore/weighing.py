"""Estimate the memory of a decoded payload from its bytes: most of it goes to protobuf messages, so these are counted.

In: the payload of a frame. Out: the number of messages in it, and how many of them are values of a summary. Promises:
no message is created; counting stops soon after `most`. A malformed payload is counted as far as possible; `parse`
refuses it later.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from lineage_store.eventlog.mindspore.wire import lineage_pb2, summary_pb2

_EVENT: dict[str, Any] = {
    "summary": summary_pb2.Event.DESCRIPTOR,
    "lineage": lineage_pb2.LineageEvent.DESCRIPTOR,
}
_VALUE = summary_pb2.Summary.Value.DESCRIPTOR
_BYTES_OF = {1: 8, 5: 4}
"""Length of a field by its wire type, for the types of fixed length."""


def weigh(payload: bytes, kind: str, most: int) -> tuple[int, int]:
    """Count (messages, values among them) of an event in a file of this kind; stop once there are more than `most`."""
    messages = values = 0
    waiting = [(_EVENT[kind], 0, len(payload))]
    try:
        while waiting and messages <= most:
            message, position, end = waiting.pop()
            inner = _messages_in(message)
            while position < end:
                key, position = payload[position], position + 1
                if key >= 0x80:
                    key, position = _varint(payload, position - 1)
                if key & 7 == 2:
                    length, position = payload[position], position + 1
                    if length >= 0x80:
                        length, position = _varint(payload, position - 1)
                    if (found := inner.get(key)) is not None:
                        messages += 1
                        values += found is _VALUE
                        if messages > most:
                            break
                        if length:
                            waiting.append((found, position, min(position + length, end)))
                    position += length
                else:
                    position = _behind(payload, position, key & 7, end)
    except IndexError:  # the payload ends in the middle of a field
        pass
    return messages, values


@cache
def _messages_in(message: Descriptor) -> dict[int, Any]:
    """Return the message types of the fields that are messages, by the fields' keys on the wire."""
    fields = (field for field in message.fields if field.type == FieldDescriptor.TYPE_MESSAGE)
    return {field.number << 3 | 2: field.message_type for field in fields}


def _behind(payload: bytes, position: int, wire_type: int, end: int) -> int:
    """Return the position behind a field that is not length-delimited; `end` or more for an unknown wire type."""
    return _varint(payload, position)[1] if wire_type == 0 else position + _BYTES_OF.get(wire_type, end)


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    """Return a varint, and the position behind it."""
    number = shift = 0
    while (byte := payload[position]) >= 0x80 and shift < 63:
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return number | (byte & 0x7F) << shift, position + 1
