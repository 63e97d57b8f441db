"""Paths beneath a base dir, opened so that nobody who may write there can lead a reader out of it.

In: a base dir, and paths beneath it as text on disk. Out: descriptors, and what `stat` says. Promises: no symbolic link
beneath the base dir is followed, whatever is put in the place of a file or directory at whatever moment: each name is
looked up in the directory that was opened before it. Where links are allowed, what they lead to must lie beneath the
base dir, and is opened in the same way. Only regular files are opened, so that nothing is waited for but the disk.
The way to the base dir itself is its operator's, and followed. Does not know log files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_THROUGH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""To look something up in a directory takes no right to read it."""
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOKS = 99
"""At a path whose links change: of those, one in twenty fails."""


class LinkError(OSError):
    """A symbolic link beneath the base dir, `filename`, stands in the way."""

    def __init__(self, link: str, words: str = "is a symbolic link") -> None:
        super().__init__(errno.ELOOP, f"{link} {words}", link)


@dataclass(frozen=True, slots=True)
class OpenBaseDir:
    """A base dir that is open. Every method raises OSError, and LinkError for a link that is not followed."""

    path: Path
    descriptor: int
    follow_symlinks: bool

    @contextmanager
    def directory(self, beneath: str) -> Iterator[int]:
        """A directory, to be listed."""
        above, name = self._above(beneath)
        try:
            descriptor = _opened(name, _LISTED, above, beneath)
        finally:
            self._leave(above)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def file(self, beneath: str) -> Iterator[int]:
        """A regular file, to be read."""
        above, name = self._above(beneath)
        try:
            _require_file(os.stat(name, dir_fd=above, follow_symlinks=False), beneath)
            descriptor = _opened(name, _READ, above, beneath)
        finally:
            self._leave(above)
        try:
            _require_file(os.fstat(descriptor), beneath)
            yield descriptor
        finally:
            os.close(descriptor)

    def status(self, beneath: str) -> os.stat_result:
        """What is there, opened or not."""
        above, name = self._above(beneath)
        try:
            status = os.stat(name, dir_fd=above, follow_symlinks=False)
        finally:
            self._leave(above)
        if stat.S_ISLNK(status.st_mode):
            raise LinkError(beneath)
        return status

    def _above(self, beneath: str) -> tuple[int, str]:
        """The directory that holds what is meant, to be left, and its name there."""
        *names, last = self._names(beneath) or ["."]
        above = self.descriptor
        for number, name in enumerate(names, 1):
            try:
                inner = _opened(name, _THROUGH | os.O_NOFOLLOW, above, "/".join(names[:number]))
            finally:
                self._leave(above)
            above = inner
        return above, last

    def _leave(self, directory: int) -> None:
        if directory != self.descriptor:
            os.close(directory)

    def _names(self, beneath: str) -> list[str]:
        """The names to look up in turn; where links are followed, those of the place that they lead to now."""
        place = beneath
        if self.follow_symlinks:
            base_dir = resolved(self.path)
            place = os.path.relpath(resolved(os.path.join(base_dir, beneath)), base_dir)
        names = [name for name in place.split("/") if name not in ("", ".")]
        if ".." in names:
            raise LinkError(beneath, "leads out of the base dir")
        return names


@contextmanager
def opened(base_dir: Path, *, follow_symlinks: bool = False) -> Iterator[OpenBaseDir]:
    """A base dir, to look beneath it. Raises OSError where there is none."""
    descriptor = os.open(base_dir, _THROUGH)
    try:
        yield OpenBaseDir(base_dir, descriptor, follow_symlinks)
    finally:
        os.close(descriptor)


def base_dir_above(path: Path, known: Container[str]) -> tuple[Path, str] | None:
    """The base dir that holds an absolute path, of those known by their real paths, and the path beneath it.

    The way to the base dir may lead over links; beneath it the path counts as it is written.
    """
    path = Path(os.path.normpath(path))
    for above in (*reversed(path.parents), path):
        if (base_dir := resolved(above)) in known:
            return Path(base_dir), path.relative_to(above).as_posix()
    return None


def resolved(path: str | os.PathLike[str]) -> str:
    """Where a path leads, as `os.path.realpath` tells, which up to Python 3.12 fails for a link that goes meanwhile.

    Raises OSError where one goes each time.
    """
    for _ in range(_LOOKS):
        with suppress(OSError):
            return os.path.realpath(path)
    return os.path.realpath(path)


def _opened(name: str, flags: int, above: int, beneath: str) -> int:
    try:
        return os.open(name, flags, dir_fd=above)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR) or not _is_link(name, above):
            raise
        raise LinkError(beneath) from error


def _is_link(name: str, above: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _require_file(status: os.stat_result, beneath: str) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise LinkError(beneath)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{beneath} is no regular file")
