"""Events that take many times their bytes in memory, and jobs that grow without end: each far beyond a bound's default.

In: a directory for the job. Out: its log files, a few megabytes each; `BOMBS` names the setting in each one's finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from helpers.log_writer import Log
from lineage_store.eventlog.mindspore.wire import lineage_pb2, summary_pb2

MANY = 200_000


def metrics(job: Path) -> None:
    """One evaluation of very many metrics, and one whose metric is an endless list."""
    named = ",".join(f'"m{number}":1' for number in range(MANY))
    Log().evaluation(f"{{{named}}}").evaluation(f'{{"list":[{"1," * 10 * MANY}1]}}').write_lineage(job)


def user_values(job: Path) -> None:
    event = lineage_pb2.LineageEvent()
    event.user_defined_info.map_int32.update((f"k{number}", 1) for number in range(MANY))
    Log().lineage(event).write_lineage(job)


def nested_user_values(job: Path) -> None:
    event = lineage_pb2.LineageEvent()
    inner = event.user_defined_info.map_dict["k"].map_int32
    inner.update((f"k{number}", 1) for number in range(MANY))
    Log().lineage(event).write_lineage(job)


def nodes(job: Path) -> None:
    event = lineage_pb2.LineageEvent()
    for _ in range(MANY):
        event.dataset_graph.children.add()
    Log().lineage(event).write_lineage(job)


def long_text(job: Path) -> None:
    Log().train(network="N" * (17 << 20)).write_lineage(job)


def control_characters(job: Path) -> None:
    """Text that is six times as long in JSON as in the file."""
    Log().user_info(k="\x01" * (2 << 20)).write_lineage(job)


def values(job: Path) -> None:
    event = (summary_pb2.Summary.Value(tag=f"t{number}", scalar_value=1.0) for number in range(MANY))
    Log().summary(1, *event).write_summary(job)


def graph(job: Path) -> None:
    Log().frame(graph_event(3_000_000)).write_summary(job)


def graph_event(nodes: int) -> bytes:
    """Return a graph of empty nodes: two bytes each in the file, more than a hundred in memory."""
    field = summary_pb2.Event.DESCRIPTOR.fields_by_name["graph_def"].number
    return _started() + _field(field, b"\x0a\x00" * nodes)


def dimensions(job: Path) -> None:
    """A tensor of millions of dimensions."""
    value = _field(1, b"t") + _field(8, b"\x08\x01" * 2_000_000)
    Log().frame(_started() + _field(5, _field(1, value))).write_summary(job)


BOMBS: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "metrics": (metrics, "most_metrics"),
    "user_values": (user_values, "most_user_values"),
    "nested_user_values": (nested_user_values, "most_user_values"),
    "nodes": (nodes, "most_dataset_nodes"),
    "long_text": (long_text, "most_lineage_bytes"),
    "control_characters": (control_characters, "most_lineage_bytes"),
    "values": (values, "most_tags"),
    "graph": (graph, "most_event_parts"),
    "dimensions": (dimensions, "dimensions"),
}


def write(base_dir: Path, names: Iterable[str] = BOMBS) -> None:
    """Write these bombs, one job each."""
    for name in names:
        BOMBS[name][0](base_dir / name)


def _started() -> bytes:
    """Return the beginning of a summary event: its wall time and its step."""
    return summary_pb2.Event(wall_time=1.0, step=1).SerializeToString()


def _field(number: int, content: bytes) -> bytes:
    length, rest = bytearray(), len(content)
    while rest > 0x7F:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([number << 3 | 2, *length, rest]) + content
