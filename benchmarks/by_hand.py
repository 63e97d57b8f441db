"""A program by hand that makes rows of log files: each event is parsed in full, each value becomes a tuple.

In: a base dir. Out: how many rows. It is written for speed in plain loops, as for a table that is filled once: it
checks frames, parses a large value once and in C, and numbers the tags of a file. It knows no damage, no bookmarks, no
statistics, no second look at a file, and no fold of a job's lineage: it does less than ingest. It inserts nothing
(`floor` does). As in ingest, Python's cyclic garbage collector rests meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c

from benchmarks.lean import CHECKSUM, EVENT, HEADER, masked
from lineage_store.eventlog.mindspore import events
from lineage_store.eventlog.mindspore.wire import anf_ir_pb2, lineage_pb2, summary_pb2
from lineage_store.program import uncollected

Place = tuple[int, int, float, int, int, int, int]
"""Number of the tag, step, wall time, byte offset and length of the frame, index of the value, checksum."""


def count_rows(base_dir: Path) -> int:
    """Make rows of all log files below a base dir and return how many there are."""
    rows: list[tuple[Any, ...]] = []
    with uncollected():
        for path in base_dir.glob("*/*summary.*"):
            if path.is_file():
                rows += _lineage(path) if path.name.endswith("_lineage") else _samples(path)
    return len(rows)


def _lineage(path: Path) -> Iterator[tuple[Any, ...]]:
    contents: dict[str | None, Callable[[Any], dict[str, Any]]] = {
        "train_lineage": events.train_content,
        "evaluation_lineage": events.evaluation_content,
        "dataset_graph": events.pipeline_content,
        "user_defined_info": events.user_content,
    }
    for start, _, _, payload in _frames(path):
        event = lineage_pb2.LineageEvent.FromString(payload)
        kind = event.WhichOneof("what")
        if kind in contents:
            yield start, kind, event.wall_time, json.dumps(contents[kind](getattr(event, kind)))


def _samples(path: Path) -> Iterator[tuple[Any, ...]]:
    tags: dict[str, int] = {}
    for start, length, checksum, payload in _frames(path):
        event = EVENT(payload)
        wall_time, step = event.wall_time, event.step
        if event.HasField("graph_def"):
            graph = event.graph_def
            yield -1, step, wall_time, start, length, 0, checksum, *_graph(graph), len(graph)
            continue
        for index, value in enumerate(event.summary.value):
            number = tags.setdefault(value.tag, len(tags))
            if value.HasField("scalar_value"):
                yield number, step, wall_time, value.scalar_value
                continue
            for name, describe in _DESCRIBED:
                if value.HasField(name):
                    content = getattr(value, name)
                    place: Place = number, step, wall_time, start, length, index, checksum
                    yield *place, *describe(content), len(content)


def _graph(content: bytes) -> tuple[Any, ...]:
    return (str((len(anf_ir_pb2.GraphProto.FromString(content).node),)),)


def _histogram(content: bytes) -> tuple[Any, ...]:
    found = summary_pb2.Summary.Histogram.FromString(content)
    counts = found.count, found.nan_count, found.pos_inf_count, found.neg_inf_count
    return len(found.buckets), *counts, found.min, found.max, found.sum


def _image(content: bytes) -> tuple[Any, ...]:
    found = summary_pb2.Summary.Image.FromString(content)
    return (str((found.height, found.width, found.colorspace)),)


def _tensor(content: bytes) -> tuple[Any, ...]:
    found = anf_ir_pb2.TensorProto.FromString(content)
    return found.data_type, str(tuple(found.dims))


_DESCRIBED: tuple[tuple[str, Callable[[bytes], tuple[Any, ...]]], ...] = (
    ("histogram", _histogram),
    ("image", _image),
    ("tensor", _tensor),
)


def _frames(path: Path) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield start, length, stored checksum and payload of each frame, up to the first incomplete or damaged one.

    The loop of `lean` again, which stays in one function, for it is what others are measured by.
    """
    content, start, checked = path.read_bytes(), 0, dict[int, int]()
    crc = google_crc32c.value
    while start + 16 <= len(content):
        length, header_checksum = HEADER.unpack_from(content, start)
        if length not in checked:
            checked[length] = masked(crc(content[start : start + 8]))
        end = start + 12 + length
        if checked[length] != header_checksum or end + 4 > len(content):
            return
        payload = content[start + 12 : end]
        (stored,) = CHECKSUM.unpack_from(content, end)
        if masked(crc(payload)) != stored:
            return
        yield start, length + 16, stored, payload
        start = end + 4
