"""List the parts of a log file: every frame with its position, and every range that is no frame.

In: an open binary file, its format and kind. Out: parts in file order, which together cover the file from 0 to its end.
Promises: memory is bounded by one frame and one chunk; no byte is left out; frames pass the same checks as in ingest.
Unlike ingest it does not wait: a suspect range is reported and skipped at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

from lineage_store.eventlog.formats import LogFormat
from lineage_store.eventlog.tfrecord import DEFAULT_MAX_FRAME_BYTES, Frame, NeedData, Suspect
from lineage_store.eventlog.values import (
    EventDecodeError,
    FileKind,
    LineageEvent,
    PayloadValue,
    ScalarValue,
    Value,
    Version,
)

CHUNK_BYTES = 4 * 1024 * 1024


class PartState(StrEnum):
    """State of a part of the file."""

    GOOD = "good"
    """A frame with valid checksums that holds a readable event."""
    UNDECODABLE = "undecodable"
    """A frame with valid checksums that holds no readable event."""
    SUSPECT = "suspect"
    """No frame: damage, or bytes that have not arrived yet."""
    PENDING = "pending"
    """The beginning of a frame at the end of the file."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """One frame, or one range of bytes that is no frame."""

    position: int
    length: int
    state: PartState
    content: str
    """A description of the event, or the reason why there is none."""
    step: int | None = None
    wall_time: float | None = None


def inspect(
    file: BinaryIO, log_format: LogFormat, kind: FileKind, *, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
) -> Iterator[FilePart]:
    """Yield every part of a seekable file."""
    position, wanted = 0, CHUNK_BYTES
    while content := _read(file, position, wanted):
        base, end = position, position + len(content)
        reader = log_format.reader(content, base=base, max_frame_bytes=max_frame_bytes)
        while not isinstance(found := reader.next(position - base), NeedData):
            if isinstance(found, Frame):
                yield _frame_part(found, log_format, kind)
                position = found.end
                continue
            behind = _behind(found, reader.find(*_within(found, base)), file, log_format, max_frame_bytes)
            yield FilePart(position, behind - position, PartState.SUSPECT, str(found.reason))
            position = behind
        if len(content) < wanted:  # the end of the file
            if end > position:
                what = f"the first {end - position} bytes of a frame of at least {found.length}"
                yield FilePart(found.position, end - position, PartState.PENDING, what)
            return
        wanted = max(CHUNK_BYTES, found.wanted(end - position))


def summarise(parts: Iterator[FilePart]) -> dict[str, int]:
    """Return the number of bytes by state (`good_bytes`, …) and the number of `frames`."""
    totals = {"frames": 0, **{f"{state}_bytes": 0 for state in PartState}}
    for part in parts:
        totals[f"{part.state}_bytes"] += part.length
        totals["frames"] += part.state in (PartState.GOOD, PartState.UNDECODABLE)
    return totals


def _frame_part(frame: Frame, log_format: LogFormat, kind: FileKind) -> FilePart:
    try:
        values = log_format.decode(frame.payload, kind)
    except EventDecodeError as error:
        return FilePart(frame.position, frame.length, PartState.UNDECODABLE, error.message)
    step = next((value.step for value in values if isinstance(value, ScalarValue | PayloadValue)), None)
    wall_time = values[0].wall_time if values else None
    content = ", ".join(_described(values)) or "an event of a kind that is not known"
    return FilePart(frame.position, frame.length, PartState.GOOD, content, step, wall_time)


def _described(values: Sequence[Value]) -> Iterator[str]:
    for value in values:
        match value:
            case Version():
                yield f"version {value.text}"
            case ScalarValue():
                yield f"scalar {value.tag} = {value.value:.6g}"
            case PayloadValue():
                shape = "x".join(map(str, value.shape))
                yield " ".join(filter(None, (value.plugin, value.tag, value.dtype, f"[{shape}]")))
            case LineageEvent():
                yield f"lineage {value.kind}"


def _within(suspect: Suspect, base: int) -> tuple[int, int | None]:
    """Return `start` and `before` of `Reader.find`: search inside the bad frame if its end is known."""
    return suspect.position - base + 1, None if suspect.end is None else suspect.end - base


def _behind(
    suspect: Suspect,
    following: Frame | NeedData | None,
    file: BinaryIO,
    log_format: LogFormat,
    max_frame_bytes: int,
) -> int:
    """Return the position behind a suspect range: the next frame, the end of the bad frame, or the end of the file."""
    if isinstance(following, Frame):
        return following.position
    if following is None and suspect.end is not None:
        return suspect.end
    found = _next_frame(file, suspect.position + 1, log_format, max_frame_bytes)
    return min(found, suspect.end or found)


def _next_frame(file: BinaryIO, position: int, log_format: LogFormat, max_frame_bytes: int) -> int:
    """Return the position of the next valid frame at or behind `position`; the end of the file if there is none."""
    while len(content := _read(file, position, CHUNK_BYTES)) >= log_format.header_bytes:
        found = log_format.reader(content, base=position, max_frame_bytes=max_frame_bytes).find()
        if isinstance(found, NeedData):
            content = _read(file, found.position, found.length)
            complete = log_format.reader(content, base=found.position, max_frame_bytes=max_frame_bytes)
            if isinstance(complete.next(), Frame):
                return found.position
            position = found.position + 1
        elif found is not None:
            return found.position
        else:
            position += len(content) - log_format.header_bytes + 1
    return position + len(content)


def _read(file: BinaryIO, position: int, length: int) -> bytes:
    file.seek(position)
    return file.read(length)
