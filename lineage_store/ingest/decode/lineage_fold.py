"""The fold of a job's lineage events into one lineage, and named JSON values in a form that SQL can compare. Pure.

In: the lineage events of a job's current files, in order (file timestamp, name, position); a dict of named JSON values.
Out: the typed columns, MindInsight's `model_lineage`, the metrics, the user's values and the dataset pipeline; a kind,
a number and a text for each named value. The rule: within a file, the last train, evaluation and dataset event each
count, and user-defined values are merged; files are applied in order, and a file with a train event discards all before
it. `fold` does this from all events; `extended`, `binding` and `come_to` give the same result step by step from a
summary of each file (`FileLineage`), so that old events need not be read again when new ones arrive. Numbers and bools
that are equal in Python have the same number (True, 1 and 1.0, though they differ in kind), except for integers beyond
the range of floats, which are text, as lists and objects are. Does not know SQL or files.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any

from lineage_store.errors import LineageStoreError
from lineage_store.fields import END_RECORD, LISTED, OUTCOME, TRAINED
from lineage_store.plain_values import float_kind
from lineage_store.states import Outcome
from lineage_store.store.records import (
    DatasetGraph,
    FileLineage,
    FoldedLineage,
    GraphNode,
    LineageRow,
    StoredEvent,
    Valued,
)
from lineage_store.texts import canonical_json, key, to_stored

MARK_DIGITS = 12
LONGEST_KEPT = 4096
"""The result of parsing a dataset pipeline is cached if its JSON has at most this many characters."""


def fold(events: Iterable[StoredEvent]) -> FoldedLineage:
    """Fold one job's events."""
    state: dict[str, str] = {}
    user: dict[str, Any] = {}
    for _, of_file in groupby(events, key=lambda event: event.file_no):
        last: dict[str, str] = {}
        merged: dict[str, Any] = {}
        for event in of_file:
            if event.kind == "user_info":
                merge(merged, json.loads(event.content))
            else:
                last[event.kind] = event.content
        if "train" in last:
            state, user = {}, {}
        state |= last
        merge(user, merged)
    return come_to(state, user)


def merge(user: dict[str, Any], newer: Mapping[str, Any]) -> None:
    """Merge newer user-defined values into `user`. Those that say how a training ended replace all earlier such."""
    if OUTCOME in newer:
        for name in END_RECORD:
            user.pop(name, None)
    user.update(newer)


def extended(file: FileLineage, events: Sequence[LineageRow], now: datetime | None = None) -> FileLineage:
    """Return a file's summary after further events, which are read `now`."""
    has_user_info = any(event.kind == "user_info" for event in events)
    merged = json.loads(file.user_info) if has_user_info else {}
    last: dict[str, Any] = {}
    for event in events:
        values: dict[str, Any] = {}
        if event.kind == "user_info":
            values = json.loads(event.content)
            merge(merged, values)
        else:
            last[f"{event.kind}_at"] = event.byte_offset
        if event.kind == "train" or values.get(OUTCOME) in tuple(Outcome):
            last |= {"end_at": event.byte_offset, "ended_at": event.wall_time, "end_read_at": now}
    return file._replace(
        events=file.events + len(events),
        evaluations=file.evaluations + sum(event.kind == "eval" for event in events),
        user_values=file.user_values + sum(event.user_values for event in events),
        content_bytes=file.content_bytes + sum(len(event.content) for event in events),
        user_info=json.dumps(merged) if has_user_info else file.user_info,
        **last,
    )


def binding(files: Sequence[FileLineage]) -> tuple[dict[str, tuple[int, int]], int]:
    """Return which events of a job's files, given in order, count.

    Returns, by kind, the index in `files` and the byte offset of the event that counts; and the index of the first file
    whose user-defined values count.
    """
    trained = [number for number, file in enumerate(files) if file.train_at is not None]
    first = trained[-1] if trained else 0
    found: dict[str, tuple[int, int]] = {}
    for number, file in enumerate(files[first:], first):
        for kind in ("train", "eval", "dataset_graph"):
            if (at := getattr(file, f"{kind}_at")) is not None:
                found[kind] = number, at
    return found, first


def come_to(state: Mapping[str, str], user: dict[str, Any]) -> FoldedLineage:
    """Return the lineage of a job.

    Args:
        state: by kind, the JSON of the train, evaluation and dataset event that counts.
        user: the merged user-defined values.
    """
    groups = {**json.loads(state.get("train", "{}")), **json.loads(state.get("eval", "{}"))}
    values = {field.name: groups.get(field.group or "", {}).get(field.key) for field in TRAINED}
    graph = _dataset_graph(state["dataset_graph"]) if "dataset_graph" in state else None
    mark = graph.mark if graph else NO_DATASET_MARK
    metrics = _metrics(groups.get("metric"))
    shown = {field.name: values.get(field.name) for field in LISTED} | {"dataset_mark": mark}
    shown |= {"metric": metrics, "user_defined": user}
    return FoldedLineage(
        listed=bool(state),
        columns=_columns(values),
        dataset_mark=mark,
        dataset_graph=graph,
        model_lineage=json.dumps(shown),
        metrics=named_values(metrics),
        user_info=named_values(user),
    )


def _columns(values: Mapping[str, Any]) -> dict[str, object]:
    columns: dict[str, object] = {}
    for field in TRAINED:
        value = values[field.name]
        if field.type == "text":
            columns[field.column] = None if value is None else to_stored(value)
        elif field.type == "integer":
            columns[field.column] = value
        else:
            number = None if value is None else float(value)  # reads "NaN" and "Infinity" too
            columns[field.column] = None if number is None or math.isnan(number) else number
            columns[f"{field.kind_column}"] = None if number is None else float_kind(number)
    return columns


def _metrics(text: str | None) -> dict[str, Any]:
    try:
        return parse_metric(text)
    except ValueError:  # reported when the event was read
        return {}


def _dataset_graph(text: str) -> DatasetGraph:
    return _kept_dataset_graph(text) if len(text) <= LONGEST_KEPT else _kept_dataset_graph.__wrapped__(text)


@lru_cache(maxsize=256)  # many jobs have the same pipeline
def _kept_dataset_graph(text: str) -> DatasetGraph:
    content = json.loads(text)
    digest = _digest(content)
    return DatasetGraph(digest, digest[:MARK_DIGITS], text, tuple(_nodes(content)))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


NO_DATASET_MARK = _digest({})[:MARK_DIGITS]


def _nodes(graph: dict[str, Any]) -> Iterator[GraphNode]:
    """The nodes, parents first, with a row for each parameter."""
    waiting: list[tuple[dict[str, Any], int | None]] = [(graph, None)]
    number = 0
    while waiting:
        node, parent = waiting.pop()
        yield from _parameters(node, number, parent)
        waiting.extend((child, number) for child in reversed(node.get("children", [])))
        number += 1


def _parameters(node: dict[str, Any], number: int, parent: int | None) -> Iterator[GraphNode]:
    op_type = _text(node.get("op_type"))
    own = {name: value for name, value in node.items() if not _is_structure(name, value)}
    groups: list[tuple[str | None, int | None, dict[str, Any]]] = [(None, None, own)]
    for position, operation in enumerate([] if "operations" in own else node.get("operations", [])):
        rest = {name: value for name, value in operation.items() if name != "tensor_op_name"}
        groups.append((_text(operation.get("tensor_op_name")), position, rest))
    if "sampler" in node and "sampler" not in own:
        groups.append(("sampler", None, node["sampler"]))
    for operation_name, operation_no, parameters in groups:
        if not parameters:
            yield GraphNode(number, parent, op_type, operation_name, operation_no, None, None)
        for name, value in parameters.items():
            text = canonical_json(value)
            yield GraphNode(number, parent, op_type, operation_name, operation_no, to_stored(name), text)


def _is_structure(name: str, value: Any) -> bool:
    """Whether an entry of a node is part of the pipeline's structure. A parameter may have the same name, but not such
    a value."""
    if name == "operations":
        return isinstance(value, list) and all(isinstance(operation, dict) for operation in value)
    return name in ("op_type", "children") or (name == "sampler" and isinstance(value, dict))


def _text(value: Any) -> str | None:
    return None if value is None else to_stored(str(value))


# ---- Named JSON values

DEEPEST_METRIC = 50
"""How many levels of lists and objects a metric may have: no real result has more, and they would exhaust the stack."""


class MetricTextError(LineageStoreError, ValueError):
    """The metric text of an evaluation is not a JSON object."""


def parse_metric(metric: str | None) -> dict[str, Any]:
    """Parse the metrics of an evaluation from their JSON text; None and an empty text give no metrics.

    Values keep their JSON types; NaN and Infinity are parsed as floats. Raises MetricTextError, a ValueError.
    """
    if not metric:
        return {}
    try:
        metrics = json.loads(metric)
    except (ValueError, RecursionError) as error:
        raise _refusal(metric, f"is no JSON: {error}") from error
    if not isinstance(metrics, dict):
        raise _refusal(metric, "is JSON, but no object of name: value")
    if _is_deeper(metrics, DEEPEST_METRIC):
        raise _refusal(metric, "is nested too deep")
    return metrics


def _refusal(metric: str, why: str) -> MetricTextError:
    return MetricTextError(f"The metric text {metric[:80]!r} of an evaluation {why}.")


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def named_values(values: Mapping[str, Any]) -> tuple[Valued, ...]:
    """Return a row for each name. Names with the same key are the same to the database: the last one wins."""
    rows = [
        Valued(position, to_stored(name), *_comparable(value))
        for position, (name, value) in enumerate(values.items())
    ]
    return tuple({key(row.name): row for row in rows}.values())


def _comparable(value: Any) -> tuple[str, float | None, str | None]:
    """Return (kind, number, text)."""
    match value:
        case None:
            return "null", None, None
        case bool():
            return "bool", float(value), None
        case int():
            return _integer(value)
        case float():
            kind = float_kind(value)
            return ("float" if kind == "finite" else kind), (None if kind == "nan" else value), None
        case str():
            return "text", None, to_stored(value)
        case _:
            return "json", None, canonical_json(value)


def _integer(value: int) -> tuple[str, float | None, str | None]:
    try:
        return "int", float(value), None
    except OverflowError:  # beyond the range of floats
        return "json", None, canonical_json(value)
