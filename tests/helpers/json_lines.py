"""A second log format, only for tests: JSON lines, with file names, frames, an end and payloads of their own.

In: nothing; `line`, `step` and `append` write such files. Out: JSON_LINES, the row that a table of formats needs.
`metrics-<unix s>-<rank>.jsonl` has a step per line, `{"time", "step", "values": {tag: number or list}}`; lists are
tensors. `about-<unix s>.jsonl` has lineage, `{"time", "events": [{"kind", "content"}]}`, which may be among the samples
too. A frame is a line, and its checksum that of the line at its place in the file; a file is finished when it was not
written to for an hour.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from lineage_store.eventlog.formats import LogFormat
from lineage_store.eventlog.tfrecord import Buffer, Frame, NeedData, Suspect, SuspectReason
from lineage_store.eventlog.values import (
    EventDecodeError,
    LineageEvent,
    ParsedName,
    PayloadValue,
    ScalarValue,
    Value,
)

QUIET_S = 3600
_NAME = re.compile(r"(?P<what>metrics|about)-(?P<time>\d{1,10})(?:-(?P<rank>\d+))?\.jsonl")


def _recognise(name: str) -> ParsedName | None:
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    rank = match["rank"]
    return ParsedName(
        "summary" if match["what"] == "metrics" else "lineage",
        int(match["time"]),
        None if rank is None else int(rank),
    )


def _ignored_reason(name: str) -> str | None:
    return "JSON lines, but not of ours" if name.endswith(".jsonl") and not _NAME.fullmatch(name) else None


def _is_finished(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime > QUIET_S


class LineReader:
    """Finds frames, each a line. Only the end of a line says how long it is."""

    def __init__(self, buffer: Buffer, *, base: int = 0, max_frame_bytes: int = 2**20) -> None:
        self.buffer, self.base, self.max_frame_bytes = bytes(buffer), base, max_frame_bytes

    def next(self, start: int = 0) -> Frame | NeedData | Suspect:
        """Return the line that begins at `start`."""
        position, most = self.base + start, start + self.max_frame_bytes
        length = self.buffer.find(b"\n", start, most) + 1 - start
        if length > 0:
            line = self.buffer[start : start + length - 1]
            return Frame(position, length, line, google_crc32c.value(b"%d:%b" % (position, line)))
        if len(self.buffer) >= most:
            return Suspect(position, SuspectReason.FRAME_TOO_LONG)
        return NeedData(position, len(self.buffer) - start + 1)

    def find(self, start: int = 0, before: int | None = None) -> Frame | NeedData | None:
        """Return the next line behind a line end."""
        begin = self.buffer.find(b"\n", max(start - 1, 0), before) + 1
        found = self.next(begin) if begin else None
        return None if isinstance(found, Suspect) else found


def _parsed(payload: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(payload)
        float(parsed["time"])
    except (ValueError, TypeError, KeyError) as error:
        raise EventDecodeError(f"The line is no event: {error!r}.") from error
    return dict(parsed)


def _decode(payload: bytes, kind: str) -> Sequence[Value]:
    event = _parsed(payload)
    events = [LineageEvent(event["time"], each["kind"], each["content"]) for each in event.get("events", ())]
    return events if kind == "lineage" else [*_values(event), *events]


def _values(event: dict[str, Any]) -> Iterator[Value]:
    for index, (tag, value) in enumerate(event.get("values", {}).items()):
        when = event["time"], event["step"]
        if isinstance(value, list):
            size = len(json.dumps(value))
            yield PayloadValue(*when, "tensor", tag, index, "float32", (len(value),), size)
        else:
            yield ScalarValue(*when, tag, float(value))


def _decode_payload(plugin: str, payload: bytes, value_index: int) -> Any:
    assert plugin == "tensor"
    return np.array(list(_parsed(payload)["values"].values())[value_index], np.float32)


JSON_LINES = LogFormat(
    name="json-lines",
    naming="'metrics-<seconds>-<rank>.jsonl'",
    recognise=_recognise,
    ignored_reason=_ignored_reason,
    is_finished=_is_finished,
    reader=LineReader,
    header_bytes=1,
    decode=_decode,
    decode_payload=_decode_payload,
)


def line(**event: Any) -> bytes:
    """Return the line of one event."""
    return json.dumps(event).encode() + b"\n"


def about(time: float, **contents: dict[str, Any]) -> bytes:
    """Return the line of lineage events, each given as its kind and content."""
    return several(time, *contents.items())


def several(time: float, *events: tuple[str, dict[str, Any]]) -> bytes:
    """Return the line of lineage events, of which several may be of one kind."""
    return line(time=time, events=[{"kind": kind, "content": content} for kind, content in events])


def step(number: int, **values: float | list[float]) -> bytes:
    """Return the line of the values of a step."""
    return line(time=1_700_000_000.0 + number, step=number, values=values)


def append(path: Path, *parts: bytes) -> Path:
    """Append to a file, as a training does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        log.write(b"".join(parts))
    return path


def finish(path: Path) -> None:
    """Let the file look as if it was last written to more than an hour ago."""
    long_ago = time.time() - 2 * QUIET_S
    os.utime(path, (long_ago, long_ago))
