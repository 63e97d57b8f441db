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

from lineage_store.beneath import opened
from lineage_store.errors import PayloadUnavailableError


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

    def unavailable(self, reason: str) -> PayloadUnavailableError:
        end = self.frame_offset + self.frame_length
        return PayloadUnavailableError(
            f"The payload at bytes {self.frame_offset} to {end} of {self.path} cannot be read: {reason}.",
            hint="Ingest the base dir again if the file has changed, or bring the file back.",
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
