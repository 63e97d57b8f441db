"""The log formats that can be read, a row each: all that ingest, questions and verification know of any of them.

In: the name of a file, or of a format. Out: a LogFormat, which knows its files' names and their order, where their
frames begin and end, what is in a frame, how a payload is read back, and when a writer has finished.
Promises: a further format is one more row of FORMATS; nothing else imports what belongs to one format.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lineage_store.errors import UnknownFormatError
from lineage_store.eventlog.columns import Decoded
from lineage_store.eventlog.mindspore import events, filenames, payloads, vectorised, weighing
from lineage_store.eventlog.records import framing
from lineage_store.eventlog.records.framing import Buffer, Frame, NeedData, Suspect
from lineage_store.eventlog.records.vectorised import Segment
from lineage_store.eventlog.values import EventDecodeError, FileKind, ParsedName, Value


class Reader(Protocol):
    """Where frames begin and end in one buffer; `framing.FrameReader` is one, and says what these promise."""

    def next(self, start: int = 0) -> Frame | NeedData | Suspect:
        """What stands at index `start`."""

    def find(self, start: int = 0, before: int | None = None) -> Frame | NeedData | None:
        """The first frame at or behind index `start` and before `before`, where something may stand that is none."""


class OpenReader(Protocol):
    """A reader of a buffer whose first byte has the file position `base`."""

    def __call__(self, buffer: Buffer, *, base: int = 0, max_frame_bytes: int = ...) -> Reader:
        """See above."""


class DecodeColumns(Protocol):
    """Read whole buffers of summary files at once."""

    def __call__(self, buffer: bytes, segments: Sequence[Segment], *, max_frame_bytes: int) -> Decoded:
        """The frames of each segment, up to the first that is not complete and valid, and what they hold."""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """One format of log files."""

    name: str
    """As `log_file.format` has it: stores keep it, so that it never changes."""
    naming: str
    """What every name of such a file has in it, for people."""
    recognise: Callable[[str], ParsedName | None]
    """What a file's name says, and with its timestamp where the file stands among its job's; None: not such a file."""
    ignored_reason: Callable[[str], str | None]
    """Why a name does not count though it looks like one of this format's; None for every other name."""
    is_finished: Callable[[os.stat_result], bool]
    """Whether nobody writes to a file any more: what is incomplete at its end remains so."""
    reader: OpenReader
    """Finds frames."""
    header_bytes: int
    """So many bytes tell whether a frame may begin with them."""
    decode: Callable[[bytes, str], Sequence[Value]]
    """The values of a frame's payload in a file of this kind. Raises EventDecodeError."""
    decode_payload: Callable[[str, bytes, int], Any]
    """What a plugin's value at this place of a frame's payload is, as a sample gives it. Raises EventDecodeError."""
    weigh: Callable[[bytes, str, int], tuple[int, int]] | None = None
    """How many parts an event in a file of this kind has, and how many of them are values, before it is decoded; None:
    decoding takes no more memory than its bytes call for."""
    decode_columns: DecodeColumns | None = None
    """What `decode` would give of many frames, faster; None: frame by frame is fast enough."""

    def payload_of(self, frame: bytes, checksum: int) -> bytes:
        """The payload of exactly one frame. Raises EventDecodeError when this is not the frame of that checksum."""
        found = self.reader(frame, max_frame_bytes=len(frame)).next()
        if not isinstance(found, Frame) or (found.length, found.checksum) != (len(frame), checksum):
            raise EventDecodeError("The bytes are not the frame that was there.")
        return found.payload


def _is_read_only(status: os.stat_result) -> bool:
    """MindSpore takes away the right to write when it closes a file (mode 0400)."""
    return not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)


FORMATS: tuple[LogFormat, ...] = (
    LogFormat(
        name="mindspore",
        naming="'summary.<digits>'",
        recognise=filenames.parse,
        ignored_reason=filenames.ignored_reason,
        is_finished=_is_read_only,
        reader=framing.FrameReader,
        header_bytes=framing.HEADER_BYTES,
        decode=events.decode,
        decode_payload=payloads.decode,
        weigh=weighing.weigh,
        decode_columns=vectorised.decode,
    ),
)
"""Of formats that both recognise a name, the first has it."""


def recognise(name: str) -> tuple[LogFormat, ParsedName] | None:
    """The format of a file with this name, and what the name says; None when it is no log file."""
    for log_format in FORMATS:
        if parsed := log_format.recognise(name):
            return log_format, parsed
    return None


def ignored_reason(name: str) -> str | None:
    """Why a name does not count as a log file's; None when it does."""
    if recognise(name):
        return None
    reasons = (log_format.ignored_reason(name) for log_format in FORMATS)
    return next(filter(None, reasons), None) or f"no log file: the name has no {naming()} in it"


def naming() -> str:
    """What a log file's name has in it."""
    return " or ".join(log_format.naming for log_format in FORMATS)


def format_of(name: str) -> LogFormat:
    """The format that a store calls so. Raises UnknownFormatError for one that this version does not know."""
    for log_format in FORMATS:
        if log_format.name == name:
            return log_format
    raise UnknownFormatError(
        f"This version knows no log format {name!r}, only {', '.join(each.name for each in FORMATS)}.",
        hint="Use the version that read the file, or a newer one.",
    )


def assumed(name: str) -> tuple[LogFormat, FileKind]:
    """How to take any file apart: by its name, or as MindSpore would have named it."""
    if found := recognise(name):
        return found[0], found[1].kind
    return FORMATS[0], "lineage" if name.endswith(filenames.LINEAGE_SUFFIX) else "summary"
