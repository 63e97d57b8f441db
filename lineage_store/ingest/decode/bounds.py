"""The bounds on how much of one event and of one job is stored; what exceeds them is left out and reported. Pure.

In: an event before it is decoded, a lineage event after that, what a job has used up so far. Out: nothing for an event
within the bounds, else the reason, with the numbers and the name of the setting. Promises: whether an event is within
the bounds does not depend on the chunks in which its file was read.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from lineage_store.config import Settings
from lineage_store.eventlog.formats import LogFormat
from lineage_store.eventlog.values import LineageEvent
from lineage_store.ingest.decode.named_values import parse_metric
from lineage_store.store.records import FileLineage, LineageRow

_PARTS_OF_A_ROW = 4
"""At most this many messages of a lineage event make one row: a node, its parameters, one of them, the text in it."""
_TOKENS_OF_A_METRIC = 10
"""How many names and numbers the JSON of a metric has on average at most: a metric may be a list."""


class OversizedEventError(Exception):
    """An event exceeds a bound."""


def before_decoding(log_format: LogFormat, kind: str, payload: bytes, most: Settings) -> None:
    """Refuse an event that would take many times its bytes when decoded. Raises OversizedEventError."""
    if kind == "lineage":
        _refuse(len(payload), "bytes", most, "most_lineage_bytes")
        parts = _PARTS_OF_A_ROW * max(most.most_user_values, most.most_dataset_nodes)
        fewest, allowed_by = parts, "most_user_values and most_dataset_nodes allow"
    else:
        parts, allowed_by = most.most_event_parts, "most_event_parts allows"
        fewest = min(parts, most.most_tags)
    if log_format.weigh is None or len(payload) <= 2 * fewest:  # no part takes less than two bytes
        return
    found, values = log_format.weigh(payload, kind, parts)
    _refuse(values, "values", most, "most_tags")
    if found > parts:
        raise OversizedEventError(f"it has more than {parts:,} parts, which is more than {allowed_by}")


def of_event(event: LineageEvent, most: Settings) -> None:
    """Refuse a lineage event with too many values. Raises OversizedEventError."""
    match event.kind:
        case "user_info":
            _refuse(len(event.content), "user-defined values", most, "most_user_values")
        case "dataset_graph":
            _refuse(_nodes(event.content), "nodes and parameters", most, "most_dataset_nodes")
        case "eval":
            text = event.content.get("metric") or ""
            tokens = text.count(",") + text.count(":")
            if tokens > _TOKENS_OF_A_METRIC * most.most_metrics:
                raise OversizedEventError(
                    f"its metrics have {tokens:,} names and numbers, and most_metrics is {most.most_metrics:,}"
                )


def of_metrics(metrics: dict[str, Any], most: Settings) -> dict[str, Any]:
    """Return the metrics of an evaluation. Raises OversizedEventError when there are too many."""
    _refuse(len(metrics), "metrics", most, "most_metrics")
    return metrics


def of_content(content: str, most: Settings) -> str:
    """Return the JSON of a lineage event. Raises OversizedEventError: it may take six times the event's bytes."""
    _refuse(len(content), "bytes as JSON", most, "most_lineage_bytes")
    return content


def of_whole_event(event: LineageEvent, most: Settings) -> None:
    """Refuse a lineage event for any of its parts. Raises OversizedEventError."""
    of_event(event, most)
    if event.kind == "eval":
        with suppress(ValueError):
            of_metrics(parse_metric(event.content.get("metric")), most)
    of_content(json.dumps(event.content), most)


def of_job(used: FileLineage, event: LineageRow, most: Settings) -> str | None:
    """Return why a job that has used up `used` has no room for the event; None when it has."""
    more = (
        ("lineage events", used.events, 1, "most_lineage_events"),
        ("bytes of lineage", used.content_bytes, len(event.content), "most_lineage_bytes"),
        ("user-defined values", used.user_values, event.user_values, "most_user_values"),
    )
    for what, before, added, setting in more:
        if added and before + added > getattr(most, setting):
            too_many = f"{added:,} more are too many: {setting} is {getattr(most, setting):,}"
            return f"the job has {before:,} {what}, {too_many}"
    return None


def plus(used: FileLineage, event: LineageRow) -> FileLineage:
    """Return what a job has used up after a further event."""
    return used._replace(
        events=used.events + 1,
        content_bytes=used.content_bytes + len(event.content),
        user_values=used.user_values + event.user_values,
    )


def _nodes(graph: dict[str, Any]) -> int:
    """The number of a pipeline's nodes, their operations and all parameters."""
    count, waiting = 0, [graph]
    while waiting:
        node = waiting.pop()
        count += max(1, len(node))
        for inner in (node.get("children"), node.get("operations")):
            if isinstance(inner, list):
                waiting += [each for each in inner if isinstance(each, dict)]
    return count


def _refuse(count: int, what: str, most: Settings, setting: str) -> None:
    if count > getattr(most, setting):
        raise OversizedEventError(f"it has {count:,} {what}, and {setting} is {getattr(most, setting):,}")
