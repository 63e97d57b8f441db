"""Paths: how the store spells them, how those beneath a base dir are opened, and where a SQLite file may be.

In: a base dir, and paths relative to it; paths that people typed; the path of a database. Out: descriptors and `stat`
results; the one spelling of a path that the store uses; the type of the filesystem, or an error that says why it will
not do. Promises: nobody who may write beneath a base dir can lead a reader out of it: no symbolic link there is
followed, even if somebody replaces a file or directory by a link meanwhile, because each name is looked up in the
directory opened before it. With `follow_symlinks`, a link is resolved first; its target must lie beneath the base dir
and is opened in the same way. Only regular files are opened, so that a read waits for nothing but the disk. Links in
the path of the base dir itself, which the operator chose, are followed. A SQLite file is on a local filesystem only,
because its write-ahead log needs memory that the processes of one host share: over NFS and the like it loses writes.
Does not know log files.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from lineage_store.errors import LineageParamSummaryPathError, UnsafeStoreLocationError
from lineage_store.texts import to_stored

_THROUGH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""Looking a name up in a directory takes no right to read the directory."""
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOKS = 99
"""Attempts to resolve a path while its links change; about one attempt in twenty fails."""

PathLike = str | os.PathLike[str]
Identity = tuple[int, int]
LONGEST_BYTES, LONGEST_NAME_BYTES = 4095, 255
"""The longest path, and the longest name in a path, that Linux accepts."""
# fmt: off
NETWORK_FILESYSTEMS = frozenset({
    "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "lustre", "ceph", "glusterfs", "beegfs", "gpfs", "wekafs",
    "panfs", "afs", "9p", "ncpfs", "orangefs",
})
# fmt: on
MOUNTINFO = Path("/proc/self/mountinfo")
"""One line per mount; in names, blanks, line ends and backslashes are written in octal, all other bytes as they are."""
_ESCAPE = re.compile(rb"\\([0-7]{3})")


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
            raise LinkError(beneath, "points out of the base dir")
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

    `known` holds paths as the store has them. Links in the path of the base dir are resolved, unless it is known as it
    is written: it may have been moved, and a link left in its place. The rest of the path stays as written.
    """
    path, found = Path(os.path.normpath(path)), None
    for above in (*reversed(path.parents), path):
        # One base dir lies in another only where the outer one's jobs do not: in a directory of snapshots.
        base_dir = str(above) if str(above) in known else resolved(above)
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


def real_path(path: PathLike) -> Path:
    """Return the one spelling of a path that the store uses: absolute, with symbolic links resolved.

    Raises LineageParamSummaryPathError for an invalid path.
    """
    return Path(resolved(absolute_path(path)))


def absolute_path(path: PathLike) -> Path:
    """Return a path made absolute. Unlike `real_path`, this does not access the disk, which might not answer.

    Raises LineageParamSummaryPathError for an invalid path.
    """
    try:
        text = os.fspath(path)
    except TypeError as error:
        raise LineageParamSummaryPathError(f"{path!r} is no path; give a str or a pathlib.Path.") from error
    if not isinstance(text, str) or not text.strip() or not _can_be(text):
        raise LineageParamSummaryPathError(f"{path!r} is no path.")
    named = Path(os.path.expanduser(text))
    return named if named.is_absolute() else Path.cwd() / named


def place_of(path: PathLike, known: Container[str]) -> tuple[str, str] | None:
    """Return which of the `known` base dirs contains a path, and the train id of the path; None if none does.

    A symbolic link in the base dir is resolved if its target is in the base dir too. Raises as `real_path` does.
    """
    if (found := base_dir_above(absolute_path(path), known)) is None:
        return None
    base_dir, beneath = found
    real = Path(resolved(base_dir / beneath))
    beneath = real.relative_to(base_dir).as_posix() if real.is_relative_to(base_dir) else beneath
    return str(base_dir), "./" if beneath == "." else f"./{beneath}"


def _can_be(text: str) -> bool:
    """Whether Linux allows a file to have this path."""
    try:
        path = os.fsencode(text)
    except UnicodeEncodeError:
        return False
    longest = max(map(len, path.split(b"/")))
    return b"\0" not in path and len(path) <= LONGEST_BYTES and longest <= LONGEST_NAME_BYTES


def filesystem_type(path: Path, mountinfo: Path = MOUNTINFO) -> str | None:
    """Return the type of the filesystem of `path`, or of its nearest existing parent; None if it is not known."""
    try:
        mounts = mountinfo.read_bytes().split(b"\n")
    except OSError:
        return None
    real = os.fsencode(os.path.realpath(_nearest_existing(path)))
    best, kind = b"", None
    for left, _, right in (line.partition(b" - ") for line in mounts if line):
        mount_point = _ESCAPE.sub(lambda escape: bytes([int(escape[1], 8)]), left.split(b" ")[4])
        inside = real == mount_point or real.startswith(mount_point.rstrip(b"/") + b"/")
        if inside and len(mount_point) >= len(best):
            best, kind = mount_point, right.split(b" ")[0].decode("ascii", "backslashreplace")
    return kind


def is_network(kind: str | None) -> bool:
    """Return whether a filesystem type is a network one; FUSE counts as one, because anything may be behind it."""
    return kind is not None and (kind in NETWORK_FILESYSTEMS or kind == "fuse" or kind.startswith("fuse."))


def beside(path: Path, suffix: str) -> Path:
    """Return SQLite's "-wal" or "-shm" of a database: it is beside the file itself, if `path` is a symbolic link."""
    return Path(f"{os.path.realpath(path)}{suffix}")


def refuse_network_filesystem(path: Path, mountinfo: Path = MOUNTINFO) -> None:
    """Raise UnsafeStoreLocationError if `path` is on a network filesystem."""
    kind = filesystem_type(path, mountinfo)
    if is_network(kind):
        raise UnsafeStoreLocationError(
            f"The SQLite store {path} would be on a network filesystem ({kind}), where SQLite can lose or damage it.",
            hint="Put it on a local disk (LINEAGE_STORE_DATABASE_URL=sqlite:////var/lib/lineage-store/store.db), "
            "or use PostgreSQL when several hosts share the store.",
        )


def _nearest_existing(path: Path) -> Path:
    while not os.path.exists(path) and path != path.parent:
        path = path.parent
    return path


def stored_path(base_dir: Path) -> str:
    """Return the path of a base dir as the store has it."""
    return to_stored(str(base_dir))


def identity_of(path: Path) -> Identity | None:
    """Return the identity of the file that is at a path now; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
