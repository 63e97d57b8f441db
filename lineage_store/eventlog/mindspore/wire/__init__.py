"""The protobuf messages of a log file, built at import from the descriptor set `messages.binpb`.

In: the descriptor set that `tools/build_proto.py` makes from `proto/*.proto`. Out: the modules `summary_pb2`,
`lineage_pb2` and `anf_ir_pb2` beside this file, with the same names as protoc's modules, typed by generated `.pyi`
files. Promises: works on every protobuf runtime from 5 to 7, because no generated code requires a certain one, and
never collides with the messages that MindSpore registers, because the descriptor pool is our own.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass


def module_contents(proto_name: str) -> dict[str, Any]:
    """Return the contents of protoc's module for a file: message classes, enums and enum values by name."""
    descriptor = _POOL.FindFileByName(proto_name)
    contents: dict[str, Any] = {"DESCRIPTOR": descriptor}
    for name, message in descriptor.message_types_by_name.items():
        contents[name] = _message_class(message)
    for name, enum in descriptor.enum_types_by_name.items():
        contents[name] = EnumTypeWrapper(enum)
        contents.update((value.name, value.number) for value in enum.values)
    return contents


def _message_class(descriptor: Descriptor) -> type[Message]:
    """Return the class of a message, with its nested classes, which the pure Python runtime leaves out."""
    message_class = GetMessageClass(descriptor)
    for name, nested in descriptor.nested_types_by_name.items():
        if not hasattr(message_class, name):
            setattr(message_class, name, _message_class(nested))
    return message_class


def _load_pool() -> DescriptorPool:
    pool = DescriptorPool()
    for proto in FileDescriptorSet.FromString(files(__name__).joinpath("messages.binpb").read_bytes()).file:
        pool.AddSerializedFile(proto.SerializeToString())
    return pool


_POOL = _load_pool()
