"""Open paths beneath a base dir so that nobody who may write there can lead a reader out of it.

In: a base dir, and paths relative to it. Out: descriptors and `stat` results. Promises: no symbolic link beneath the
base dir is followed, even if somebody replaces a file or directory by a link meanwhile, because each name is looked
up in the directory opened before it. With `follow_symlinks`, a link is resolved first; its target must lie beneath
the base dir and is opened in the same way. Only regular files are opened, so that a read waits for nothing but the
disk. Links in the path of the base dir itself, which the operator chose, are followed. Does not know log files.
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
"""Looking a name up in a directory takes no right to read the directory."""
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOKS = 99
"""Attempts to resolve a path while its links change; about one attempt in twenty fails."""


class LinkError(OSError):
    """The path cannot be opened because of `filename`, a symbolic link beneath the base dir."""

    def __init__(self, link: str, words: str = "is a symbolic link") -> None:
        super().__init__(errno.ELOOP, f"{link} {words}", link)


@dataclass(frozen=True, slots=True)
class OpenBaseDir:
    """An open base dir. Every method raises OSError, and its subclass LinkError for a link that is not followed."""

    path: Path
    descriptor: int
    follow_symlinks: bool

    @contextmanager
    def directory(self, beneath: str) -> Iterator[int]:
        """Open a directory for listing."""
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
        """Open a regular file for reading."""
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
        """Return the status of a path of any kind, without opening it."""
        above, name = self._above(beneath)
        try:
            status = os.stat(name, dir_fd=above, follow_symlinks=False)
        finally:
            self._leave(above)
        if stat.S_ISLNK(status.st_mode):
            raise LinkError(beneath)
        return status

    def _above(self, beneath: str) -> tuple[int, str]:
        """Open the directory that contains the path; return its descriptor, for `_leave`, and the path's last name."""
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
        """Return the names to look up in turn; where links are followed, the names of the resolved path."""
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
    """Open a base dir. Raises OSError if it cannot be opened."""
    descriptor = os.open(base_dir, _THROUGH)
    try:
        yield OpenBaseDir(base_dir, descriptor, follow_symlinks)
    finally:
        os.close(descriptor)


def base_dir_above(path: Path, known: Container[str]) -> tuple[Path, str] | None:
    """Return the base dir that contains an absolute path, and the rest of the path; None if no known one does.

    `known` holds real paths. Links in the path of the base dir are resolved; the rest of the path stays as written.
    """
    path, found = Path(os.path.normpath(path)), None
    for above in (*reversed(path.parents), path):
        # One base dir lies in another only where the outer one's jobs do not: in a directory of snapshots.
        base_dir = resolved(above)
        if base_dir in known and (found is None or Path(base_dir).is_relative_to(found[0])):
            found = Path(base_dir), path.relative_to(above).as_posix()
    return found


def resolved(path: str | os.PathLike[str]) -> str:
    """Return `os.path.realpath`, which up to Python 3.12 fails if a link is removed meanwhile; then it is retried.

    Raises OSError if every attempt fails.
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
