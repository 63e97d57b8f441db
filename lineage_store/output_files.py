"""Write files for people: pictures, exports, snapshots, backups. Nothing else in the package writes such files.

In: a directory, and the names of files beneath it. Out: files. Promises: a file gets its name when it is whole and
synced to the disk; until then it is in a directory of this run alone (mode 0700, beside it, made exclusively), which is
removed however the run ends: by the next run, if this one is killed. A directory is opened once, and names are looked
up in what was opened, so that nobody who swaps a directory or file for a symbolic link leads a file elsewhere. A link
at the end of a path is refused, and so is what is no regular file; what exists is replaced on request only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from lineage_store.errors import LineageStoreError

_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNFINISHED = ".unfinished-"
_OURS = re.compile(r"[0-9a-f]{16}(-journal|-wal|-shm)?")
"""The names of unfinished files, and of the files that SQLite makes beside one."""
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class OutputDirectory:
    """An open directory for files, and a private one in it for those that are not whole yet."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        try:
            _remove_left(descriptor)
            self._private_name, self._private = _private(descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def made(cls, path: Path) -> Self:
        """Open a directory; make it, and those above it, if they are not there.

        Raises OSError; LineageStoreError if it is a symbolic link.
        """
        return cls(path, _made(path))

    @classmethod
    def above(cls, target: Path) -> Self:
        """Open the directory of a file, which must be there and may be a symbolic link. Raises OSError."""
        return cls(target.parent, os.open(target.parent, _LISTED))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Remove what is unfinished, and sync the names of the others to the disk."""
        _remove(self._private, self._private_name, self._descriptor)
        os.close(self._private)
        _sync_directory(self._descriptor)
        os.close(self._descriptor)

    def is_empty(self) -> bool:
        """Whether nothing is in it, not even the unfinished files of another run."""
        return set(os.listdir(self._descriptor)) <= {self._private_name}

    def exists(self, beneath: str) -> bool:
        """Whether there is anything of that name, such as `name` or `directory/name`."""
        try:
            with self._opened(beneath, make=False) as (above, name):
                os.stat(name, dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def new(self, beneath: str, *, replace: bool = False, mode: int | None = None) -> UnfinishedFile:
        """Begin a file. Raises OSError; LineageStoreError if something is there that must not be replaced.

        Args:
            beneath: its name, or `directory/name`: directories are made.
            replace: whether a regular file of that name is replaced.
            mode: its permissions; None: what the umask allows everybody to read and write.
        """
        with self._opened(beneath, make=True) as (above, name):
            _refuse(above, name, self.path / beneath, replace=replace)
        return UnfinishedFile(self, beneath, replace, mode)

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        """Write a whole file; raises as `new` does."""
        with self.new(name, replace=replace) as new:
            new.file.write(content)
            new.finish()

    def _create(self, name: str, mode: int) -> int:
        return os.open(name, _NEW, mode, dir_fd=self._private)

    def _path_of(self, name: str) -> Path:
        return self.path / self._private_name / name

    def _discard(self, name: str) -> None:
        for each in (name, *(f"{name}{ending}" for ending in ("-journal", "-wal", "-shm"))):
            with suppress(FileNotFoundError):
                os.unlink(each, dir_fd=self._private)

    def _give_name(self, unfinished: str, beneath: str, *, replace: bool) -> None:
        with self._opened(beneath, make=False) as (above, name):
            _refuse(above, name, self.path / beneath, replace=replace)
            if replace or not self._linked(unfinished, name, above, self.path / beneath):
                os.rename(unfinished, name, src_dir_fd=self._private, dst_dir_fd=above)
            if "/" in beneath:
                _sync_directory(above)

    def _linked(self, unfinished: str, name: str, above: int, path: Path) -> bool:
        """Give a file a name that nothing else has, at whatever moment; return False where there are no hard links."""
        try:
            os.link(unfinished, name, src_dir_fd=self._private, dst_dir_fd=above, follow_symlinks=False)
        except FileExistsError:
            raise _exists(path) from None
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            return False
        return True

    @contextmanager
    def _opened(self, beneath: str, *, make: bool) -> Iterator[tuple[int, str]]:
        """Open the directory of a file; yield its descriptor and the file's name."""
        *directories, name = beneath.split("/")
        for each in (*directories, name):
            if each in ("", ".", "..") or "\0" in each:
                raise OSError(errno.EINVAL, "Not a name that a file can have", beneath)
        above = os.dup(self._descriptor)
        try:
            for each in directories:
                inner = _inner(each, above, make=make)
                os.close(above)
                above = inner
            yield above, name
        finally:
            os.close(above)


class UnfinishedFile:
    """A file without a name yet. Left without `finish`, it is removed."""

    def __init__(self, directory: OutputDirectory, beneath: str, replace: bool, mode: int | None) -> None:
        self._directory, self._beneath, self._replace, self._mode = directory, beneath, replace, mode
        self._name = secrets.token_hex(8)
        descriptor = directory._create(self._name, 0o666 if mode is None else 0o600)
        self.file = os.fdopen(descriptor, "w+b")
        self.path = directory._path_of(self._name)
        """Where it is until it is whole, for SQLite, which opens files by name."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.discard()

    def finish(self) -> None:
        """Sync the file, and give it its name. Raises OSError; LineageStoreError as `OutputDirectory.new` does."""
        self.file.flush()
        if self._mode is not None:
            os.fchmod(self.file.fileno(), self._mode)
        os.fsync(self.file.fileno())
        self._directory._give_name(self._name, self._beneath, replace=self._replace)
        self.file.close()

    def discard(self) -> None:
        """Close and remove the file, unless it is finished."""
        with suppress(OSError):  # what a full disk did not take
            self.file.close()
        self._directory._discard(self._name)


@contextmanager
def replacing(target: Path, mode: int) -> Iterator[UnfinishedFile]:
    """Yield a file that gets the name `target` at the end of the block, replacing an older file.

    Raises OSError; LineageStoreError if `target` is a symbolic link or no regular file.
    """
    with (
        OutputDirectory.above(target) as directory,
        directory.new(target.name, replace=True, mode=mode) as new,
    ):
        yield new
        new.finish()


def _made(path: Path) -> int:
    """Open a directory; make it, and those above it, if they are not there."""
    missing: list[str] = []
    above, flags = path, _LISTED | os.O_NOFOLLOW
    while True:
        try:
            descriptor = os.open(above, flags)
            break
        except FileNotFoundError:
            missing.append(above.name)
            above, flags = above.parent, _LISTED
        except OSError:
            if above.is_symlink():
                raise _is_link(above, "directory") from None
            raise
    for name in reversed(missing):
        try:
            inner = _inner(name, descriptor, make=True)
            _sync_directory(descriptor)
        except OSError as error:
            if path.is_symlink():
                raise _is_link(path, "directory") from None
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def _inner(name: str, above: int, *, make: bool) -> int:
    """Open a directory in a directory, and never through a link."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
    return os.open(name, _LISTED | os.O_NOFOLLOW, dir_fd=above)


def _private(above: int) -> tuple[str, int]:
    """Make a directory for this run alone; return its name and its descriptor, which holds a lock while it is open."""
    while True:
        name = f"{_UNFINISHED}{socket.gethostname()}-{secrets.token_hex(4)}"
        os.mkdir(name, 0o700, dir_fd=above)
        with suppress(FileNotFoundError):  # another run took it for a dead one's, before the lock
            descriptor = os.open(name, _LISTED | os.O_NOFOLLOW, dir_fd=above)
            with suppress(OSError):  # NFS locks no directories: nobody removes it then but this run
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_there(name, above, descriptor):
                return name, descriptor
            os.close(descriptor)


def _is_there(name: str, above: int, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(name, dir_fd=above, follow_symlinks=False), os.fstat(descriptor))
    return False


def _remove_left(above: int) -> None:
    """Remove the private directories of runs on this host that were killed: nobody holds the lock of one."""
    for name in os.listdir(above):
        if not name.startswith(f"{_UNFINISHED}{socket.gethostname()}-"):
            continue
        with suppress(OSError):
            descriptor = os.open(name, _LISTED | os.O_NOFOLLOW, dir_fd=above)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(descriptor, name, above)
            finally:
                os.close(descriptor)


def _remove(private: int, name: str, above: int) -> None:
    """Remove a private directory with the files that we made in it, and with no others: it may have been swapped."""
    for each in os.listdir(private):
        if _OURS.fullmatch(each):
            with suppress(OSError):
                os.unlink(each, dir_fd=private)
    with suppress(OSError):
        os.rmdir(name, dir_fd=above)


def _refuse(above: int, name: str, path: Path, *, replace: bool) -> None:
    """Raise LineageStoreError if something has the name that must not be replaced."""
    try:
        status = os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(status.st_mode):
        raise _is_link(path, "file")
    if not stat.S_ISREG(status.st_mode):
        raise LineageStoreError(
            f"{path} cannot be written: it is no regular file.", hint="Name a new file, or an older one."
        )
    if not replace:
        raise _exists(path)


def _is_link(path: Path, what: str) -> LineageStoreError:
    return LineageStoreError(
        f"{path} cannot be written: it is a symbolic link, which is not followed.",
        hint=f"Name the {what} to which it points, or remove the link.",
    )


def _exists(path: Path) -> LineageStoreError:
    return LineageStoreError(f"{path} cannot be written: it exists.", hint="Name another, or remove it.")


def _sync_directory(descriptor: int) -> None:
    with suppress(OSError):  # some filesystems sync no directories
        os.fsync(descriptor)
