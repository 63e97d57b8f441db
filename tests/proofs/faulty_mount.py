"""A filesystem that misreports as NFS does: a read-only view of a directory, served to the kernel through /dev/fuse.

In: a directory, a mount point, and a file of faults (JSON) that is read anew at every request:

    stale_s   sizes and times of a path are this old, until it is opened (what NFS calls close-to-open)
    estale    paths that fail with ESTALE, at any request
    eio       paths whose reads fail with EIO
    holes     {path: position}: from there on, reads return zeros
    hang      paths (or "" for the root) whose reads and listings do not return

Out: a mount for the length of a block. Paths are relative to the directory. Needs Linux, root and /dev/fuse, but no
library: the messages are those of linux/fuse.h, version 7.31.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from proofs.children import forked
from proofs.proof import SkippedError

_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _STATFS, _RELEASE = 1, 2, 3, 14, 15, 17, 18
_INIT, _OPENDIR, _READDIR, _RELEASEDIR, _INTERRUPT, _DESTROY, _BATCH_FORGET = 26, 27, 28, 29, 36, 38, 42
_SILENT = {_FORGET, _INTERRUPT, _BATCH_FORGET}
_REQUEST = struct.Struct("<IIQQIIII")
_ANSWER = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_ENTRY = struct.Struct("<QQQQII")
_DIRECT_IO = 1
_LONGEST_REQUEST = 1 << 17
_DETACH = 2
"""MNT_DETACH: also when somebody waits for an answer."""
_ROOT = 1


class Share:
    """A directory, and what a mount shows of it."""

    def __init__(self, home: Path) -> None:
        self.directory, self.mount, self._faults = home / "disk", home / "mount", home / "faults.json"
        for path in (self.directory, self.mount):
            path.mkdir()
        self.fail()

    def shown(self) -> AbstractContextManager[None]:
        """Mounts it for the length of a block. Raises SkippedError where that cannot be done."""
        return mounted(self.directory, self.mount, self._faults)

    def fail(self, **faults: Any) -> None:
        """Have these faults from now on, and no others."""
        new = self._faults.with_suffix(".new")
        new.write_text(json.dumps(faults))
        os.replace(new, self._faults)

    def path(self, path: Path) -> str:
        """A path in the directory as the faults name it."""
        return path.relative_to(self.directory).as_posix()


@contextmanager
def mounted(directory: Path, mount_point: Path, faults: Path) -> Iterator[None]:
    """Mount the view. Raises SkippedError where that cannot be done."""
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        raise SkippedError(f"no /dev/fuse ({error.strerror})") from error
    options = f"fd={device},rootmode=40755,user_id=0,group_id=0,default_permissions,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"faulty", os.fsencode(mount_point), b"fuse.faulty", 0, options.encode()):
        os.close(device)
        raise SkippedError(f"no FUSE mount ({os.strerror(ctypes.get_errno())})")
    try:
        with forked(partial(_serve, device, directory, faults)):
            os.close(device)
            yield
    finally:
        libc.umount2(os.fsencode(mount_point), _DETACH)


def _serve(device: int, directory: Path, faults: Path) -> None:
    """Answer until the mount is gone. What hangs is answered when it does not any more."""
    view, waiting = _View(directory, faults), list[bytes]()
    while True:
        if not select.select([device], [], [], 0.05 if waiting else None)[0]:
            waiting = [request for request in waiting if not _answer(device, view, request)]
            continue
        try:
            request = os.read(device, _LONGEST_REQUEST)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return  # unmounted
            if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                continue
            raise
        if not _answer(device, view, request):
            waiting.append(request)


def _answer(device: int, view: _View, request: bytes) -> bool:
    """Answer a request; False when it hangs."""
    _, operation, unique, node, *_ = _REQUEST.unpack_from(request)
    if operation in _SILENT:
        return True
    try:
        code, body = 0, view.answer(operation, node, request[_REQUEST.size :])
    except OSError as error:
        code, body = -(error.errno or errno.EIO), b""
    if body is not None:
        with suppress(FileNotFoundError):  # nobody waits for it any more
            os.write(device, _ANSWER.pack(_ANSWER.size + len(body), code, unique) + body)
    return body is not None


@dataclass
class _View:
    """What the kernel has asked for so far."""

    directory: Path
    faults: Path
    paths: dict[int, str] = field(default_factory=lambda: {_ROOT: ""})
    nodes: dict[str, int] = field(default_factory=lambda: {"": _ROOT})
    seen: dict[str, tuple[float, os.stat_result]] = field(default_factory=dict)
    """When the attributes of a path were last fetched, and which they were."""

    def answer(self, operation: int, node: int, body: bytes) -> bytes | None:
        """The answer to a request; None for not yet. Raises OSError."""
        if operation == _INIT:
            return struct.pack("<IIIIHHIII", 7, 31, 1 << 16, 0, 0, 0, 1 << 16, 1, 0) + bytes(32)
        path, faults = self.paths[node], _read(self.faults)
        if operation == _LOOKUP:
            path = f"{path}/{os.fsdecode(body.rstrip(bytes(1)))}".lstrip("/")
        if path in faults.get("estale", ()):
            raise OSError(errno.ESTALE, "stale")
        if path in faults.get("hang", ()) and operation in (_READ, _READDIR):
            return None
        return self._answer(operation, path, body, faults)

    def _answer(self, operation: int, path: str, body: bytes, faults: Mapping[str, Any]) -> bytes:
        if operation == _LOOKUP:
            return _ENTRY.pack(self._node(path), 0, 0, 0, 0, 0) + self._attributes(path, faults)
        if operation == _GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self._attributes(path, faults)
        if operation in (_OPEN, _OPENDIR):
            self.seen.pop(path, None)
            return struct.pack("<QII", 0, _DIRECT_IO if operation == _OPEN else 0, 0)
        if operation == _READ:
            return self._read(path, body, faults)
        if operation == _READDIR:
            return self._list(path, body)
        if operation == _STATFS:
            return struct.pack(
                "<QQQQQIIII", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0
            ) + bytes(24)
        if operation in (_RELEASE, _RELEASEDIR, _DESTROY):
            return b""
        raise OSError(errno.ENOSYS, "not here")

    def _node(self, path: str) -> int:
        os.lstat(self.directory / path)
        node = self.nodes.setdefault(path, len(self.nodes) + 1)
        self.paths[node] = path
        return node

    def _attributes(self, path: str, faults: Mapping[str, Any]) -> bytes:
        now = time.monotonic()
        since, found = self.seen.get(path, (-1e9, None))
        if found is None or now - since > faults.get("stale_s", 0):
            found = os.lstat(self.directory / path)
            self.seen[path] = now, found
        times = [
            divmod(nanoseconds, 10**9)
            for nanoseconds in (found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
        ]
        seconds, rest = zip(*times, strict=True)
        owner = found.st_mode, found.st_nlink, found.st_uid, found.st_gid
        blocks = -(-found.st_size // 512)
        return _ATTRIBUTES.pack(self._node(path), found.st_size, blocks, *seconds, *rest, *owner, 0, 4096, 0)

    def _read(self, path: str, body: bytes, faults: Mapping[str, Any]) -> bytes:
        _, position, length = struct.unpack_from("<QQI", body)
        if path in faults.get("eio", ()):
            raise OSError(errno.EIO, "no answer")
        with (self.directory / path).open("rb") as file:
            content = os.pread(file.fileno(), length, position)
        sound = max(0, faults.get("holes", {}).get(path, position + length) - position)
        return content[:sound] + bytes(len(content[sound:]))

    def _list(self, path: str, body: bytes) -> bytes:
        _, position, length = struct.unpack_from("<QQI", body)
        listed = b""
        for number, name in enumerate(sorted(os.listdir(self.directory / path)), 1):
            if number <= position:
                continue
            raw = os.fsencode(name)
            mode = os.lstat(self.directory / path / name).st_mode
            entry = struct.pack("<QQII", number + 1, number, len(raw), stat.S_IFMT(mode) >> 12) + raw
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > length:
                break
            listed += entry
        return listed


def _read(faults: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(faults.read_text() or "{}")
    return found
