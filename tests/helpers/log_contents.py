"""The events in the log files of a directory, as plain values that tests can compare.

In: a job's directory. Out: its events in the order of file names and of frames, without times. A file that does not
end with a complete frame fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from helpers.frames import read_frames
from lineage_store.eventlog.mindspore import filenames
from lineage_store.eventlog.mindspore.events import parse_message
from lineage_store.eventlog.mindspore.wire import lineage_pb2, summary_pb2
from lineage_store.eventlog.tfrecord import NeedData


@dataclass(frozen=True, slots=True)
class Told:
    """One event: the kind of its file, its step, and its content as protobuf's JSON."""

    kind: str
    step: int | None
    what: str
    content: Any


def log_files(directory: Path) -> list[Path]:
    """Return the log files of a job, by ascending time in their names."""
    named = [(filenames.parse_name(path.name), path) for path in directory.iterdir() if path.is_file()]
    return [path for _, path in sorted((name.timestamp, path) for name, path in named if name is not None)]


def told(directory: Path, kind: str | None = None) -> list[Told]:
    """Return the events of a job, or of its files of one kind ("summary", "lineage"); none for a missing directory."""
    files = log_files(directory) if directory.is_dir() else []
    parsed = [(filenames.parse_name(path.name), path) for path in files]
    return [
        event
        for name, path in parsed
        if name is not None and kind in (None, name.kind)
        for event in told_of(path, name.kind)
    ]


def told_of(path: Path, kind: str = "summary") -> list[Told]:
    """Return the events of one file."""
    content = path.read_bytes()
    frames, outcome = read_frames(content)
    assert isinstance(outcome, NeedData), f"{path}: {outcome}"
    assert outcome.position == len(content), f"{path} ends with a torn frame"
    return [_told(frame.payload, kind) for frame in frames]


def _told(payload: bytes, kind: str) -> Told:
    event: Any = parse_message(lineage_pb2.LineageEvent if kind == "lineage" else summary_pb2.Event, payload)
    what = event.WhichOneof("what")
    step = event.step if event.HasField("step") else None
    content = getattr(event, what)
    plain = content if isinstance(content, str) else MessageToDict(content, preserving_proto_field_name=True)
    return Told(kind, step, what, plain)
