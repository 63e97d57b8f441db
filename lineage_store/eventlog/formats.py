"""THE table of log formats, one row each: all that ingest, queries and verification know about a format.

In: the name of a file or of a format. Out: a LogFormat, which recognises file names, finds and decodes frames, reads
payloads back and says when a writer has finished.
Promises: a further format needs only one more row of FORMATS; apart from the collectors, which write log files, no
other package imports the modules of one format.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lineage_store.errors import UnknownFormatError
from lineage_store.eventlog import tfrecord
from lineage_store.eventlog.mindspore import event_columns, events, filenames, payloads
from lineage_store.eventlog.protobuf_columns import Decoded
from lineage_store.eventlog.tfrecord import Buffer, Frame, NeedData, Segment, Suspect
from lineage_store.eventlog.values import EventDecodeError, FileKind, ParsedName, Value


class FrameFinder(Protocol):
    """Finds the frames of one buffer. `tfrecord.FrameReader` is one and documents both methods."""

    def next(self, start: int = 0) -> Frame | NeedData | Suspect:
        """Return what is at index `start`."""

    def find(self, start: int = 0, before: int | None = None) -> Frame | NeedData | None:
        """Search for the first frame at or behind index `start` and before index `before`."""


class OpenReader(Protocol):
    """Creates a reader."""

    def __call__(self, buffer: Buffer, *, base: int = 0, max_frame_bytes: int = ...) -> FrameFinder:
        """Create a reader of `buffer`, whose first byte has the file position `base`."""


class DecodeColumns(Protocol):
    """Decodes whole buffers of summary files at once."""

    def __call__(self, buffer: bytes, segments: Sequence[Segment], *, max_frame_bytes: int) -> Decoded:
        """Decode the frames of each segment up to the first one that is not complete and valid."""


@dataclass(frozen=True, slots=True)
class LogFormat:
    """One format of log files."""

    name: str
    """The value of `log_file.format`. Stores keep it, so it must never change."""
    naming: str
    """The part that all names of such files have, as users see it."""
    recognise: Callable[[str], ParsedName | None]
    """Parse a file's name; None if it is no name of this format."""
    ignored_reason: Callable[[str], str | None]
    """Return why a name does not count though it looks like one of this format's; None for every other name."""
    is_finished: Callable[[os.stat_result], bool]
    """Return whether the writer has finished the file, so that an incomplete end will stay incomplete."""
    reader: OpenReader
    """Create a reader that finds the frames of a buffer."""
    header_bytes: int
    """Number of bytes from which a reader can tell whether a frame may begin there."""
    decode: Callable[[bytes, str], Sequence[Value]]
    """Decode (payload of a frame, kind of the file) to its values. Raises EventDecodeError."""
    decode_payload: Callable[[str, bytes, int], Any]
    """Decode (plugin, payload of a frame, index of the value in its event) to a sample's value. Raises
    EventDecodeError."""
    weigh: Callable[[bytes, str, int], tuple[int, int]] | None = None
    """Count, without decoding, (parts, values among them) in (payload, kind of the file, number to stop at); None:
    decoding never takes much more memory than the payload's size."""
    decode_columns: DecodeColumns | None = None
    """Decode many frames at once, with the same result as `decode`; None: `decode` alone is fast enough."""
    may_be_copies: Callable[[str, str], bool] = lambda name, other: True
    """Return whether files with two names, equal device and equal first bytes may be copies, not of two writers."""
    is_regular: Callable[[str], bool] = lambda name: True
    """Return whether a name looks like one that the writer gave, not one that a copy was given."""

    def payload_of(self, frame: bytes, checksum: int, *, base: int) -> bytes:
        """Return the payload of exactly one frame, which begins at the file position `base`.

        Raises EventDecodeError unless the frame has that checksum.
        """
        found = self.reader(frame, base=base, max_frame_bytes=len(frame)).next()
        if not isinstance(found, Frame) or (found.length, found.checksum) != (len(frame), checksum):
            raise EventDecodeError("The bytes are not the frame that was there.")
        return found.payload


def _is_read_only(status: os.stat_result) -> bool:
    """MindSpore removes write permission when it closes a file (mode 0400)."""
    return not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)


FORMATS: tuple[LogFormat, ...] = (
    LogFormat(
        name="mindspore",
        naming="'summary.<digits>'",
        recognise=filenames.parse_name,
        ignored_reason=filenames.why_ignored,
        is_finished=_is_read_only,
        reader=tfrecord.FrameReader,
        header_bytes=tfrecord.HEADER_BYTES,
        decode=events.decode_event,
        decode_payload=payloads.decode_payload,
        weigh=events.weigh,
        decode_columns=event_columns.decode_columns,
        may_be_copies=filenames.may_be_copies,
        is_regular=filenames.is_regular,
    ),
)
"""If several formats recognise a name, the first one wins."""


def recognise(name: str) -> tuple[LogFormat, ParsedName] | None:
    """Return the format of a file with this name, and the parsed name; None if it is no log file."""
    for log_format in FORMATS:
        if parsed := log_format.recognise(name):
            return log_format, parsed
    return None


def ignored_reason(name: str) -> str | None:
    """Return why a name does not count as a log file's; None if it does."""
    return None if recognise(name) else why_not_recognised(name)


def why_not_recognised(name: str) -> str:
    """Return why a name that no format recognises does not count as a log file's."""
    reasons = (log_format.ignored_reason(name) for log_format in FORMATS)
    return next(filter(None, reasons), None) or f"no log file: the name has no {naming()} in it"


def naming() -> str:
    """Return the part that a log file's name must have, as users see it."""
    return " or ".join(log_format.naming for log_format in FORMATS)


def format_of(name: str) -> LogFormat:
    """Return the format with this name. Raises UnknownFormatError if this version does not know it."""
    for log_format in FORMATS:
        if log_format.name == name:
            return log_format
    raise UnknownFormatError(
        f"This version knows no log format {name!r}, only {', '.join(each.name for each in FORMATS)}.",
        hint="Use the version that read the file, or a newer one.",
    )


def assumed(name: str) -> tuple[LogFormat, FileKind]:
    """Return format and kind of any file: by its name if that is a log file's, else MindSpore's format."""
    if found := recognise(name):
        return found[0], found[1].kind
    return FORMATS[0], filenames.file_kind(name)
