"""Parse payload bytes to a complete protobuf message, with the same result on every protobuf runtime.

In: the payload of a frame. Out: a message in which every required field is set, or an EventDecodeError that
says why not. Promises: the same result on every protobuf runtime from 5 to 7, though the fast ones do not report a
missing required field, and return a string that is not UTF-8 as bytes.
"""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from lineage_store.eventlog.mindspore.wire import anf_ir_pb2
from lineage_store.eventlog.values import EventDecodeError

AnyMessage = TypeVar("AnyMessage", bound=Message)


def parse(message_type: type[AnyMessage], payload: bytes) -> AnyMessage:
    """Parse the message in `payload`. Raises EventDecodeError if it is malformed or lacks a required field."""
    try:
        message = message_type.FromString(payload)
    except (DecodeError, UnicodeDecodeError) as error:
        raise EventDecodeError(
            f"The payload of {len(payload)} bytes is no {message_type.__name__}: {error}."
        ) from error
    if not message.IsInitialized():
        raise EventDecodeError(
            f"The {message_type.__name__} lacks required fields: {_missing_fields(message)}."
        )
    return message


def text(value: str | bytes) -> str:
    """Return the text of a string field; bytes that are not UTF-8 become surrogate escapes, as in file names."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


DTYPE_NAMES: dict[int, str] = {
    number: name.removeprefix("DT_").lower() for name, number in anf_ir_pb2.DataType.items()
}
"""The name of each DataType in the spelling of numpy and MindSpore: "float32", "bfloat16", …; 0 is "undefined"."""


def _missing_fields(message: Any) -> str:
    # Every runtime has this method; the published type stubs leave it out.
    return ", ".join(message.FindInitializationErrors())
