"""Where a SQLite file may be: on a local filesystem only; and where SQLite puts its other files.

In: a path. Out: the type of the filesystem that it is on, or an error that says why not and what to do. Promises: mount
points with any bytes in their names are read correctly. Why: SQLite's write-ahead log needs memory that the processes
of one host share; over NFS and the like it loses writes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from lineage_store.errors import UnsafeStoreLocationError

# fmt: off
NETWORK_FILESYSTEMS = frozenset({
    "nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "lustre", "ceph", "glusterfs", "beegfs", "gpfs", "wekafs",
    "panfs", "afs", "9p", "ncpfs", "orangefs",
})
# fmt: on
MOUNTINFO = Path("/proc/self/mountinfo")
"""One line per mount; in names, blanks, line ends and backslashes are written in octal, all other bytes as they are."""
_ESCAPE = re.compile(rb"\\([0-7]{3})")


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
