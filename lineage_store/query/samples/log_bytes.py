"""The bytes of a frame, out of the log file that the database points to.

In: a place below a base dir. Out: exactly those bytes. Promises: nothing outside the base dir is ever opened, whatever
symbolic links do; only regular files; no allocation beyond what the file really has.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lineage_store.errors import PayloadUnavailableError

_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class FramePlace:
    """Where a frame stands and how to recognise it."""

    base_dir: str
    train_id: str
    log_file: str
    format: str
    """The log format that the file is of."""
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
    """The whole frame. Raises PayloadUnavailableError when the file is gone, unreadable, shorter or elsewhere."""
    try:
        with _opened(place) as descriptor:
            if os.fstat(descriptor).st_size < place.frame_offset + place.frame_length:
                raise place.unavailable("the file is shorter than it was")
            return _read(descriptor, place.frame_offset, place.frame_length)
    except (OSError, ValueError) as error:  # ValueError: a name with NUL, which no file has
        raise place.unavailable(getattr(error, "strerror", None) or str(error)) from error


@contextmanager
def _opened(place: FramePlace) -> Iterator[int]:
    """Open component by component without following links, so that none can be swapped in meanwhile."""
    base_dir = os.path.realpath(place.base_dir)
    below = os.path.relpath(os.path.realpath(place.path), base_dir).split(os.sep)
    if os.pardir in below:
        raise place.unavailable("it lies outside the base dir")
    descriptor = os.open(base_dir, _DIRECTORY)
    try:
        for name in below[:-1]:
            descriptor = _replaced(descriptor, os.open(name, _DIRECTORY, dir_fd=descriptor))
        descriptor = _replaced(descriptor, os.open(below[-1], _FILE, dir_fd=descriptor))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise place.unavailable("it is no regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new


def _read(descriptor: int, position: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(descriptor, length, position)):
        parts.append(part)
        position += len(part)
        length -= len(part)
    return b"".join(parts)
