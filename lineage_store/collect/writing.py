"""Write the log files of one kind for one recorder, and begin a new file when one is full.

In: frames. Out: files with MindSpore's names, created with the first frame. Promises: recorders of the same second
never open or truncate each other's files; after a failed write the incomplete frame is removed, so that the file ends
with a complete one and later frames may follow; the file gets its closed mode even if the process is killed, where
`closed_mode` can start its process. Not thread-safe. Does not know what a frame means.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from lineage_store.collect.closed_mode import Keeper, keeper_of

FILE_MODE = 0o600
CLOSED_FILE_MODE = 0o400
_WRITE_BYTES = 4 * 1024 * 1024
"""Approximate maximum size of the frames that are written with one system call."""


@dataclass(frozen=True, slots=True)
class FileRules:
    """The modes and the maximum size of files."""

    max_file_size: int | None = None
    """Maximum bytes of each file; None: no limit."""
    file_mode: int = FILE_MODE
    closed_file_mode: int = CLOSED_FILE_MODE


def free_second(paths_at: Callable[[int], Iterable[Path]]) -> int:
    """Return the first second from now on for which none of the paths exists."""
    seconds = count(int(time.time()))
    return next(second for second in seconds if not any(map(os.path.lexists, paths_at(second))))


class LogFile:
    """A log file, which is created with the first frame, and its successors."""

    def __init__(
        self,
        path_at: Callable[[int], Path],
        timestamp: int,
        rules: FileRules,
        opening: Callable[[], bytes] = bytes,
    ) -> None:
        """`path_at` returns the path of the file with this unix time in seconds in its name; `opening` the bytes that
        every file begins with: the version's frame, or nothing."""
        self._path_at, self._timestamp, self._rules, self._opening = path_at, timestamp, rules, opening
        self._descriptor: int | None = None
        self._keeper: Keeper | None = None
        self._size = 0

    @property
    def path(self) -> Path:
        """The open file, or the next one to be created, unless that name is taken by then."""
        return self._path_at(self._timestamp)

    def append(self, frames: Sequence[bytes]) -> int:
        """Write the first of the frames, as many as fit; return their number. Call again with the rest.

        Raises OSError if the first frame could not be written; the file then has no part of it.
        """
        if self._size and not self._holds(self._size + len(frames[0])):
            self._begin_another()
        opening = b"" if self._size else self._opening()
        if not self._holds(self._size + len(opening) + len(frames[0])):
            raise OSError(f"{len(frames[0])} bytes do not fit into a file of {self._rules.max_file_size}")
        descriptor = self._open() if self._descriptor is None else self._descriptor
        status = os.fstat(descriptor)
        if status.st_nlink == 0:
            raise FileNotFoundError(f"{self.path} was removed while it was written")
        self._size = status.st_size  # more than `_size` if Ctrl-C came between writing and counting
        content, ends = bytearray(opening), []
        for frame in frames:
            if len(content) > _WRITE_BYTES or not self._holds(self._size + len(content) + len(frame)):
                break
            content += frame
            ends.append(len(content))
        return self._write(descriptor, content, ends)

    def close(self) -> None:
        """Close the file and give it its closed mode; the next frame goes into a new file."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor, self._size = self._descriptor, None, 0
        try:
            os.fchmod(descriptor, self._rules.closed_file_mode)
        finally:
            os.close(descriptor)
            if self._keeper is not None:
                self._keeper.kill()
                self._keeper.wait()

    def _holds(self, size: int) -> bool:
        return self._rules.max_file_size is None or size <= self._rules.max_file_size

    def _open(self) -> int:
        while self._descriptor is None:
            try:
                self._descriptor = os.open(
                    self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, self._rules.file_mode
                )
            except FileExistsError:
                self._timestamp += 1
        os.fchmod(self._descriptor, self._rules.file_mode)  # regardless of the umask
        self._keeper = keeper_of(self._descriptor, self._rules.closed_file_mode)
        return self._descriptor

    def _write(self, descriptor: int, content: bytearray, ends: list[int]) -> int:
        """Write all, or on a failure the complete frames up to one of the `ends`; return how many frames."""
        written = 0
        try:
            with memoryview(content) as view:
                while written < len(content):
                    written += os.write(descriptor, view[written:])
        except BaseException as error:  # Ctrl-C among them
            whole = bisect_right(ends, written)
            self._take_back(descriptor, self._size + (ends[whole - 1] if whole else 0))
            if not whole or not isinstance(error, OSError):
                raise
            return whole
        self._size += written
        return len(ends)

    def _take_back(self, descriptor: int, size: int) -> None:
        try:
            os.ftruncate(descriptor, size)
            self._size = size
        except OSError:  # the rest of a frame stays, so no frame may follow in this file
            self._begin_another()

    def _begin_another(self) -> None:
        self.close()
        self._timestamp = max(int(time.time()), self._timestamp + 1)
