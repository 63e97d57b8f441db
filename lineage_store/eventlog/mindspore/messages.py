"""Parse payload bytes to a complete protobuf message, with the same result on every protobuf runtime.

In: the payload of a frame. Out: a message in which every required field is set, or an EventDecodeError that
says why not. Promises: the same result on every protobuf runtime from 5 to 7, though the fast ones do not report a
missing required field, and return a string that is not UTF-8 as bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from lineage_store.eventlog.mindspore.wire import anf_ir_pb2
from lineage_store.eventlog.values import EventDecodeError

AnyMessage = TypeVar("AnyMessage", bound=Message)


_OUT_OF_MEMORY = "Arena alloc failed"
"""What protobuf says from 7 on, which has no exception of its own for that; older ones do not say why they failed."""


def parse(message_type: type[AnyMessage], payload: bytes) -> AnyMessage:
    """Parse the message in `payload`. Raises EventDecodeError if it is malformed or lacks a required field.

    Raises MemoryError, which says nothing of the payload, if there is too little memory.
    """
    try:
        message = message_type.FromString(payload)
    except (DecodeError, UnicodeDecodeError) as error:
        if _OUT_OF_MEMORY in str(error):
            raise MemoryError from error
        raise EventDecodeError(
            f"The payload of {len(payload)} bytes is no {message_type.__name__}: {error}."
        ) from error
    if not _is_complete(message):
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


def _is_complete(message: Message) -> bool:
    """Return what IsInitialized would, but pass over a part in which no field is required: a graph has many nodes."""
    message_type: Any = type(message)  # hashable, which the published type stubs deny
    fields, parts = _required(message_type)
    return all(map(message.HasField, fields)) and all(
        getattr(message, part).IsInitialized() for part in parts
    )


# Types are Any, because the published type stubs leave out FindInitializationErrors, which every runtime has.
@cache
def _required(message_type: Any) -> tuple[list[str], list[str]]:
    """Return which fields a message must have, and in which of its parts, none repeated, a field is required."""
    fields = message_type.DESCRIPTOR.fields
    parts = [field.name for field in fields if field.message_type and _requires(field.message_type)]
    return message_type().FindInitializationErrors(), parts


def _requires(of: Any, within: tuple[Any, ...] = ()) -> bool:
    """Return whether a message, or one in it, has a required field."""
    message: Any = GetMessageClass(of)()
    if message.FindInitializationErrors():
        return True
    inner = (field.message_type for field in of.fields if field.message_type)
    return any(_requires(each, (*within, of)) for each in inner if each not in (*within, of))


def _missing_fields(message: Any) -> str:
    return ", ".join(message.FindInitializationErrors())
