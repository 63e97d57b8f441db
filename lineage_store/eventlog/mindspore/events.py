"""Decode the payload of a frame to values: plain, frozen, free of protobuf.

In: the payload of one frame and the kind of its log file. Out: a list of values, empty for an event without any known
ones (explanations, future plugins); what decoding would take, by its bytes. Text that becomes a key of the store (tags,
versions) is in its stored form. Large values (histograms, images, tensors, graphs, landscapes) are only described here;
`payloads` decodes them. Lineage becomes JSON-able dicts with MindInsight 2.3.1's keys, in a fixed order, optional
fields only if they are set. Unlike in MindInsight, `size` and `weights` of a dataset operation are not mixed up, and
all keys of a user-defined entry are read.
Promises: pure; a payload that is no complete event raises EventDecodeError and nothing else, and too little memory
MemoryError; the same result on every protobuf runtime from 5 to 7, though the fast ones do not report a missing
required field, and return a string that is not UTF-8 as bytes. A sample's float32 is widened exactly; one of a training
becomes its shortest decimal (0.01, not 0.009999999776), and NaN and infinities in lineage "NaN", "Infinity" and
"-Infinity". Text in lineage is exact: bytes that are not UTF-8 become surrogate escapes, which `json.dumps` can write.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from lineage_store import plugins
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2
from lineage_store.eventlog.values import (
    EventDecodeError,
    HistogramStatistics,
    LineageEvent,
    PayloadValue,
    ScalarValue,
    SummaryValue,
    Version,
)
from lineage_store.plain_values import spelled
from lineage_store.texts import to_stored

LONGEST_KEPT_BYTES = 4096
"""Encoded size of a dataset pipeline whose content is cached; longer ones are decoded each time."""
LONGEST_KEPT_TAG = 256
"""Length of a tag whose stored form is cached; longer ones are converted each time."""
MOST_DIMENSIONS = 64
"""The maximum of numpy."""
_OUT_OF_MEMORY = "Arena alloc failed"
"""What protobuf says from 7 on, which has no exception of its own for that; older ones do not say why they failed."""

Content = dict[str, Any]
Description = tuple[str | None, tuple[int, ...], HistogramStatistics | None]
AnyMessage = TypeVar("AnyMessage", bound=Message)
DTYPE_NAMES: dict[int, str] = {
    number: name.removeprefix("DT_").lower() for name, number in anf_ir_pb2.DataType.items()
}
"""The name of each DataType in the spelling of numpy and MindSpore: "float32", "bfloat16", …; 0 is "undefined"."""
_EVENT: dict[str, Any] = {
    "summary": summary_pb2.Event.DESCRIPTOR,
    "lineage": lineage_pb2.LineageEvent.DESCRIPTOR,
}
_VALUE = summary_pb2.Summary.Value.DESCRIPTOR
_BYTES_OF = {1: 8, 5: 4}
"""Length of a field by its wire type, for the types of fixed length."""


def decode_event(payload: bytes, kind: str) -> list[SummaryValue] | list[LineageEvent]:
    """Return the values of one frame of a log file of this kind. Raises EventDecodeError."""
    return decode_summary(payload) if kind == "summary" else decode_lineage(payload)


def decode_summary(payload: bytes) -> list[SummaryValue]:
    """Return the values of one frame of a summary file, in their order. Raises EventDecodeError."""
    event = parse_message(summary_pb2.Event, payload)
    wall_time = event.wall_time
    match event.WhichOneof("what"):
        case "summary":
            return _summary_values(wall_time, event.step, event.summary)
        case "version":
            return [Version(wall_time, to_stored(event.version))]
        case "graph_def":
            graph = event.graph_def
            shape = (len(graph.node),)
            return [
                PayloadValue(wall_time, event.step, plugins.GRAPH, None, 0, None, shape, graph.ByteSize())
            ]
        case _:
            return []


def decode_lineage(payload: bytes) -> list[LineageEvent]:
    """Return the event of one frame of a lineage file, in a list of one or none. Raises EventDecodeError."""
    event = parse_message(lineage_pb2.LineageEvent, payload)
    wall_time = event.wall_time
    match event.WhichOneof("what"):
        case "train_lineage":
            return [LineageEvent(wall_time, "train", train_content(event.train_lineage))]
        case "evaluation_lineage":
            return [LineageEvent(wall_time, "eval", evaluation_content(event.evaluation_lineage))]
        case "dataset_graph":
            return [LineageEvent(wall_time, "dataset_graph", _dataset_content(event.dataset_graph))]
        case "user_defined_info":
            return [LineageEvent(wall_time, "user_info", user_content(event.user_defined_info))]
        case _:
            return []


def _dataset_content(graph: lineage_pb2.DatasetGraph) -> dict[str, Any]:
    encoded = graph.SerializeToString(deterministic=True)
    if len(encoded) > LONGEST_KEPT_BYTES:
        return pipeline_content(graph)
    return _kept_dataset_content(encoded)


@lru_cache(maxsize=256)
def _kept_dataset_content(encoded: bytes) -> dict[str, Any]:
    """Many jobs have the same pipeline. The result is shared: callers must not change it."""
    return pipeline_content(lineage_pb2.DatasetGraph.FromString(encoded))


def histogram_statistics(histogram: summary_pb2.Summary.Histogram) -> HistogramStatistics:
    """Return the statistics that a histogram has beside its buckets."""
    return HistogramStatistics(
        count=histogram.count,
        nan_count=histogram.nan_count,
        pos_inf_count=histogram.pos_inf_count,
        neg_inf_count=histogram.neg_inf_count,
        min=histogram.min,
        max=histogram.max,
        sum=histogram.sum,
    )


def _summary_values(wall_time: float, step: int, summary: summary_pb2.Summary) -> list[SummaryValue]:
    values: list[SummaryValue] = []
    for index, value in enumerate(summary.value):
        field = value.WhichOneof("value")
        plugin = plugins.BY_FIELD.get(field) if field else None
        if plugin is None:
            continue
        content, tag = getattr(value, plugin.field), _stored_tag(value.tag)
        if plugin.has_value:
            values.append(ScalarValue(wall_time, step, tag, content))
            continue
        describe = _DESCRIPTIONS.get(plugin.name)
        dtype, shape, statistics = describe(content) if describe else _NOTHING_TO_SAY
        place = wall_time, step, plugin.name, tag, index
        values.append(PayloadValue(*place, dtype or plugin.dtype, shape, content.ByteSize(), statistics))
    return values


def _describe_histogram(histogram: summary_pb2.Summary.Histogram) -> Description:
    return None, (len(histogram.buckets),), histogram_statistics(histogram)


def _describe_image(image: summary_pb2.Summary.Image) -> Description:
    return None, (image.height, image.width, image.colorspace), None


def _describe_tensor(tensor: anf_ir_pb2.TensorProto) -> Description:
    if len(tensor.dims) > MOST_DIMENSIONS:
        raise EventDecodeError(f"A tensor has {len(tensor.dims)} dimensions; {MOST_DIMENSIONS} can be read.")
    return DTYPE_NAMES[tensor.data_type], tuple(tensor.dims), None


def _describe_landscape(landscape: summary_pb2.LossLandscape) -> Description:
    return _describe_tensor(landscape.landscape.z)


_DESCRIPTIONS: dict[str, Callable[[Any], Description]] = {
    plugins.HISTOGRAM: _describe_histogram,
    plugins.IMAGE: _describe_image,
    plugins.TENSOR: _describe_tensor,
    plugins.LANDSCAPE: _describe_landscape,
}
_NOTHING_TO_SAY: Description = None, (), None


def _stored_tag(tag: str | bytes) -> str:
    return _kept_tag(tag) if len(tag) <= LONGEST_KEPT_TAG else to_stored(tag)


# A file repeats few tags very often.
_kept_tag = lru_cache(maxsize=4096)(to_stored)


def train_content(message: lineage_pb2.TrainLineage) -> Content:
    """Return `{group: {key: value}}` of the groups and fields that are set, such as `hyper_parameters`."""
    return _fields(message)


def evaluation_content(message: lineage_pb2.EvaluationLineage) -> Content:
    """Return `{"metric": JSON text or None, "valid_dataset": dict}`, and `epoch` and `step` if they are set."""
    return {
        "metric": text(message.metric) if message.HasField("metric") else None,
        "valid_dataset": _fields(message.valid_dataset),
        **({"epoch": message.epoch} if message.HasField("epoch") else {}),
        **({"step": message.step} if message.HasField("step") else {}),
    }


def pipeline_content(message: lineage_pb2.DatasetGraph) -> Content:
    """Return the pipeline's last operation: its parameters, `operations`, `sampler`, and the inputs as `children`."""
    content = _parameters(message.parameter)
    if message.operations:
        content["operations"] = [_operation(operation) for operation in message.operations]
    if sampler := _operation(message.sampler):
        content["sampler"] = sampler
    content["children"] = [pipeline_content(child) for child in message.children]
    return content


def user_content(message: lineage_pb2.UserDefinedInfo) -> Content:
    """Return all user-defined values by key.

    If several maps of an entry have a key, the first of map_dict, map_int32, map_str and map_double wins; if several
    entries have it, the last entry wins. A value of map_dict is a dict of the same form.
    """
    content = {
        **_by_key(message.map_double, json_number),
        **_by_key(message.map_str, text),
        **_by_key(message.map_int32, int),
        **_by_key(message.map_dict, user_content),
    }
    for entry in message.user_info:
        content |= user_content(entry)
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


def parse_message(message_type: type[AnyMessage], payload: bytes) -> AnyMessage:
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


def weigh(payload: bytes, kind: str, most: int) -> tuple[int, int]:
    """Count (messages, values among them) of an event in a file of this kind; stop once there are more than `most`.

    Most memory of a decoded payload goes to its messages. None is created here, and a malformed payload is counted as
    far as possible; `parse_message` refuses it later.
    """
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
