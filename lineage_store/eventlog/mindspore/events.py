"""Decode the payload of a frame to values: plain, frozen, free of protobuf.

In: the payload of one frame and the kind of its log file. Out: a list of values, empty for an event without any known
ones (explanations, future plugins). Text that becomes a key of the store (tags, versions) is in its stored form.
Promises: pure; a payload that is no complete event raises EventDecodeError and nothing else; float32 is widened
exactly. Large values (histograms, images, tensors, graphs, landscapes) are only described here; `payloads` decodes
them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lineage_store import plugins
from lineage_store.eventlog.mindspore import lineage_content
from lineage_store.eventlog.mindspore.messages import DTYPE_NAMES, parse
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
from lineage_store.texts import to_stored

LONGEST_KEPT_BYTES = 4096
"""Encoded size of a dataset pipeline whose content is cached; longer ones are decoded each time."""
LONGEST_KEPT_TAG = 256
"""Length of a tag whose stored form is cached; longer ones are converted each time."""
MOST_DIMENSIONS = 64
"""The maximum of numpy."""


def decode(payload: bytes, kind: str) -> list[SummaryValue] | list[LineageEvent]:
    """Return the values of one frame of a log file of this kind. Raises EventDecodeError."""
    return decode_summary(payload) if kind == "summary" else decode_lineage(payload)


def decode_summary(payload: bytes) -> list[SummaryValue]:
    """Return the values of one frame of a summary file, in their order. Raises EventDecodeError."""
    event = parse(summary_pb2.Event, payload)
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
    event = parse(lineage_pb2.LineageEvent, payload)
    wall_time = event.wall_time
    match event.WhichOneof("what"):
        case "train_lineage":
            return [LineageEvent(wall_time, "train", lineage_content.train(event.train_lineage))]
        case "evaluation_lineage":
            return [LineageEvent(wall_time, "eval", lineage_content.evaluation(event.evaluation_lineage))]
        case "dataset_graph":
            return [LineageEvent(wall_time, "dataset_graph", _dataset_content(event.dataset_graph))]
        case "user_defined_info":
            return [LineageEvent(wall_time, "user_info", lineage_content.user_info(event.user_defined_info))]
        case _:
            return []


def _dataset_content(graph: lineage_pb2.DatasetGraph) -> dict[str, Any]:
    encoded = graph.SerializeToString(deterministic=True)
    if len(encoded) > LONGEST_KEPT_BYTES:
        return lineage_content.dataset_graph(graph)
    return _kept_dataset_content(encoded)


@lru_cache(maxsize=256)
def _kept_dataset_content(encoded: bytes) -> dict[str, Any]:
    """Many jobs have the same pipeline. The result is shared: callers must not change it."""
    return lineage_content.dataset_graph(lineage_pb2.DatasetGraph.FromString(encoded))


def statistics_of(histogram: summary_pb2.Summary.Histogram) -> HistogramStatistics:
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


Description = tuple[str | None, tuple[int, ...], HistogramStatistics | None]


def _describe_histogram(histogram: summary_pb2.Summary.Histogram) -> Description:
    return None, (len(histogram.buckets),), statistics_of(histogram)


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
