"""The minimum work of any reader of log files: check each frame, parse each event, keep nothing.

In: a log file. Out: the number of its events. It parses with a *lean* schema, in which payloads (histograms, images,
tensors, graphs, lineage) stay bytes, in a plain loop over a C extension, as one would write it for speed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

HEADER = struct.Struct("<QI")
CHECKSUM = struct.Struct("<I")
_Field = descriptor_pb2.FieldDescriptorProto


def parse_base_dir(base_dir: Path) -> int:
    """Return the number of events in all log files below a base dir."""
    files = [path for path in base_dir.glob("*/*summary.*") if path.is_file()]
    return sum(parse_file(path) for path in files)


def parse_file(path: Path) -> int:
    """Return the number of events in one log file, up to the first incomplete or damaged frame."""
    content, start, count, checked = path.read_bytes(), 0, 0, dict[int, int]()
    parse, crc = EVENT, google_crc32c.value
    while start + 16 <= len(content):
        length, header_checksum = HEADER.unpack_from(content, start)
        if length not in checked:
            checked[length] = masked(crc(content[start : start + 8]))
        end = start + 12 + length
        if checked[length] != header_checksum or end + 4 > len(content):
            break
        payload = content[start + 12 : end]
        if masked(crc(payload)) != CHECKSUM.unpack_from(content, end)[0]:
            break
        parse(payload)
        start, count = end + 4, count + 1
    return count


def masked(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _lean_parser() -> Callable[[bytes], Any]:
    file = descriptor_pb2.FileDescriptorProto(name="lean.proto", package="lean", syntax="proto2")
    payloads = {"graph_def": 4, "train": 6, "evaluation": 7, "dataset_graph": 9, "user_info": 10}
    event = file.message_type.add(name="Event")
    _add(event, "wall_time", 1, _Field.TYPE_DOUBLE)
    _add(event, "step", 2, _Field.TYPE_INT64)
    _add(event, "version", 3, _Field.TYPE_BYTES)
    _add(event, "summary", 5, _Field.TYPE_MESSAGE, ".lean.Summary")
    _add_bytes(event, payloads)
    summary = file.message_type.add(name="Summary")
    _add(summary, "value", 1, _Field.TYPE_MESSAGE, ".lean.Value").label = _Field.LABEL_REPEATED
    value = file.message_type.add(name="Value")
    _add(value, "tag", 1, _Field.TYPE_STRING)
    _add(value, "scalar_value", 3, _Field.TYPE_FLOAT)
    _add_bytes(value, {"image": 4, "tensor": 8, "histogram": 9, "loss_landscape": 10})
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("lean.Event"))
    parse: Callable[[bytes], Any] = message.FromString
    return parse


def _add(message: Any, name: str, number: int, kind: Any, of: str | None = None) -> Any:
    return message.field.add(name=name, number=number, type=kind, type_name=of, label=_Field.LABEL_OPTIONAL)


def _add_bytes(message: Any, numbers: dict[str, int]) -> None:
    for name, number in numbers.items():
        _add(message, name, number, _Field.TYPE_BYTES)


EVENT = _lean_parser()
