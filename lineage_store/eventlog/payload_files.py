"""A payload, read and decoded from the log file to which the database points.

In: a place below a base dir. Out: the value that is there. Promises: symbolic links are followed inside the base dir,
never out of it; memory is allocated only for bytes that the file really has; a payload is returned only if its checksum
is that of the frame that was ingested; one that would take more memory than is allowed is refused before it is decoded.
Whatever is wrong is a PayloadUnavailableError, which names the file, the bytes and the reason. Does not know SQL: this
is what the processes of a server import that read log files for people.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_store.errors import LineageStoreError, PayloadTooCostlyError, PayloadUnavailableError
from lineage_store.eventlog.formats import LogFormat, format_of
from lineage_store.paths import opened
from lineage_store.plugins import GRAPH

MOST_BYTES = 1 << 30
"""The most memory that reading one payload takes, unless the caller says otherwise; estimated before it is decoded."""
_COPIES = 8
"""How often the bytes of a payload are in memory while it is decoded and made into something else, at most."""
_PART_OF_GRAPH, _PART = 1024, 256
"""Bytes in memory for each message of a payload: of a graph, they become Python objects."""


@dataclass(frozen=True, slots=True)
class FramePlace:
    """The place of a frame, and the checksum by which to recognise it."""

    base_dir: str
    train_id: str
    log_file: str
    format: str
    """The name of the file's log format."""
    frame_offset: int
    frame_length: int
    checksum: int

    @property
    def path(self) -> str:
        return os.path.normpath(os.path.join(self.base_dir, self.train_id, self.log_file))

    def __str__(self) -> str:
        return f"bytes {self.frame_offset} to {self.frame_offset + self.frame_length} of {self.path}"

    def unavailable(self, reason: str) -> PayloadUnavailableError:
        return PayloadUnavailableError(
            f"The payload at {self} cannot be read: {reason}.",
            hint="Ingest the base dir again if the file has changed, or bring the file back.",
        )


@dataclass(frozen=True, slots=True)
class PayloadSource:
    """Where a payload is, and all that is needed to decode it."""

    place: FramePlace
    plugin: str
    value_index: int
    """Its place among the values of the event."""

    def read(self, most_bytes: int | None = None) -> Any:
        """Return the payload. `most_bytes`: refuse one that may take more memory; None: take what it needs.

        Raises PayloadUnavailableError, PayloadTooCostlyError.
        """
        frame = read_frame(self.place)
        try:
            log_format = format_of(self.place.format)
            payload = log_format.payload_of(frame, self.place.checksum, base=self.place.frame_offset)
            if (
                most_bytes is not None
                and (least := self._needs(log_format, payload, most_bytes)) > most_bytes
            ):
                raise self.too_costly(f"more than {least >> 20:,} MiB of memory, by estimate")
            return log_format.decode_payload(self.plugin, payload, self.value_index)
        except PayloadTooCostlyError:
            raise
        except LineageStoreError as error:
            raise self.place.unavailable(error.message.rstrip(".")) from error

    def _needs(self, log_format: LogFormat, payload: bytes, most_bytes: int) -> int:
        """Estimate the memory that decoding takes; stop counting soon after `most_bytes`."""
        of_bytes, of_part = _COPIES * len(payload), _PART_OF_GRAPH if self.plugin == GRAPH else _PART
        if log_format.weigh is None or of_bytes + len(payload) // 2 * of_part <= most_bytes:
            return of_bytes  # no part takes less than two bytes
        parts, _ = log_format.weigh(payload, "summary", most_bytes // of_part)
        return of_bytes + parts * of_part

    def too_costly(self, what: str) -> PayloadTooCostlyError:
        """Return the error that names the payload and what it takes."""
        return PayloadTooCostlyError(
            f"The {self.plugin} at {self.place} is not read: it takes {what}.",
            hint="With enough memory, `read(most_bytes=…)` of the Python API reads it; "
            "`lineage-store inspect` shows what is in the file.",
            plugin=self.plugin,
            reason=f"It takes {what}.",
        )


def read_frame(place: FramePlace) -> bytes:
    """Return the whole frame.

    Raises PayloadUnavailableError when the file is missing, unreadable, too short or outside of the base dir.
    """
    try:
        with (
            opened(Path(place.base_dir), follow_symlinks=True) as root,
            root.file(f"{place.train_id}/{place.log_file}") as descriptor,
        ):
            if os.fstat(descriptor).st_size < place.frame_offset + place.frame_length:
                raise place.unavailable("the file is shorter than it was")
            return _read(descriptor, place.frame_offset, place.frame_length)
    except (OSError, ValueError) as error:  # ValueError: the name has a NUL, so there is no such file
        raise place.unavailable(getattr(error, "strerror", None) or str(error)) from error


def _read(descriptor: int, position: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(descriptor, length, position)):
        parts.append(part)
        position += len(part)
        length -= len(part)
    return b"".join(parts)
