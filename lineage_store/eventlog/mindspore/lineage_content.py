"""Convert lineage messages to plain, JSON-able dicts, as MindInsight 2.3.1 does.

In: the messages of a lineage event. Out: dicts of str, int, float, bool, None, lists and dicts, in a fixed key order.
Promises: optional fields appear only if they are set; float32 fields of a training become their shortest decimal (0.01,
not 0.009999999776); NaN and infinities become "NaN", "Infinity" and "-Infinity". Text is exact (bytes that are not
UTF-8 become surrogate escapes, which `json.dumps` can write). Unlike in MindInsight, `size` and `weights` of a dataset
operation are not mixed up, and all keys of a user-defined entry are read.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from lineage_store.eventlog.mindspore.messages import text
from lineage_store.eventlog.mindspore.wire import lineage_pb2
from lineage_store.eventlog.values import EventDecodeError
from lineage_store.extreme_numbers import spelled

Content = dict[str, Any]


def train(message: lineage_pb2.TrainLineage) -> Content:
    """Return `{group: {key: value}}` of the groups and fields that are set, such as `hyper_parameters`."""
    return _fields(message)


def evaluation(message: lineage_pb2.EvaluationLineage) -> Content:
    """Return `{"metric": JSON text or None, "valid_dataset": dict}`, and `epoch` and `step` if they are set."""
    return {
        "metric": text(message.metric) if message.HasField("metric") else None,
        "valid_dataset": _fields(message.valid_dataset),
        **({"epoch": message.epoch} if message.HasField("epoch") else {}),
        **({"step": message.step} if message.HasField("step") else {}),
    }


def dataset_graph(message: lineage_pb2.DatasetGraph) -> Content:
    """Return the pipeline's last operation: its parameters, `operations`, `sampler`, and the inputs as `children`."""
    content = _parameters(message.parameter)
    if message.operations:
        content["operations"] = [_operation(operation) for operation in message.operations]
    if sampler := _operation(message.sampler):
        content["sampler"] = sampler
    content["children"] = [dataset_graph(child) for child in message.children]
    return content


def user_info(message: lineage_pb2.UserDefinedInfo) -> Content:
    """Return all user-defined values by key.

    If several maps of an entry have a key, the first of map_dict, map_int32, map_str and map_double wins; if several
    entries have it, the last entry wins. A value of map_dict is a dict of the same form.
    """
    content = {
        **_by_key(message.map_double, json_number),
        **_by_key(message.map_str, text),
        **_by_key(message.map_int32, int),
        **_by_key(message.map_dict, user_info),
    }
    for entry in message.user_info:
        content |= user_info(entry)
    return content


def json_number(value: float) -> float | str:
    """Return a finite number unchanged; NaN and infinities as their names in protobuf's JSON mapping."""
    return spelled(value) or value


def shortest_decimal(value: float) -> float:
    """Return the decimal with the fewest digits, six or more, that has this float32 value, as in protobuf's JSON."""
    if not math.isfinite(value):
        return value
    candidates = (float(f"{value:.{digits}g}") for digits in range(6, 9))
    return next((short for short in candidates if _as_float32(short) == value), float(f"{value:.9g}"))


def _fields(message: Message) -> Content:
    return {field.name: _plain(field, value) for field, value in message.ListFields()}


def _plain(field: FieldDescriptor, value: Any) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            return _fields(value)
        case FieldDescriptor.TYPE_FLOAT:
            return json_number(shortest_decimal(value))
        case FieldDescriptor.TYPE_STRING:
            return text(value)
        case _:
            return value


def _operation(message: lineage_pb2.Operation) -> Content:
    content = _parameters(message.operationParam)
    if message.size:
        content["size"] = list(message.size)
    if message.weights:
        content["weights"] = [json_number(weight) for weight in message.weights]
    return content


def _parameters(message: lineage_pb2.OperationParameter) -> Content:
    present = {field.name: entries for field, entries in message.ListFields()}
    merged: Content = {}
    for name, convert in _PARAMETERS:
        if name in present:
            merged |= _by_key(present[name], convert)
    return dict(sorted(merged.items()))


_PARAMETERS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("mapStr", lambda value: None if value == "None" else text(value)),
    ("mapBool", bool),
    ("mapInt", int),
    ("mapDouble", json_number),
    ("mapStrList", lambda value: [text(item) or None for item in value.strValue]),
)
"""The maps of an operation's parameters; if several have a key, the last one in this order wins."""


def _by_key(entries: Mapping[str, Any], convert: Callable[[Any], Any]) -> Content:
    """Return the entries of a protobuf map, which has no order, sorted by key."""
    if not entries:
        return {}
    try:
        return {key: convert(value) for key, value in sorted(entries.items())}
    except UnicodeDecodeError as error:  # protobuf can list such a key, but not look it up
        raise EventDecodeError(f"A key of a map in the event is not UTF-8: {error}.") from error


def _as_float32(value: float) -> float:
    number: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return number
