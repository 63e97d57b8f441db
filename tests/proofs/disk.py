"""A disk whose power can be cut: an ext4 in a file, on a loop device, to test what a database makes of that.

In: a path for the file. Out: a mount for the length of a block, and the power cut, which discards what was not synced,
and the order of writes. Does not know databases.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
"""EXT4_IOC_SHUTDOWN and its strictest way."""
_BYTES = 64 << 20


def why_none(disk: Path) -> str:
    """Why no power can be cut here; empty when it can."""
    try:
        make(disk)
        with mounted(disk):
            return ""
    except FileNotFoundError as error:
        return f"no {error.filename}"
    except subprocess.CalledProcessError as error:
        return f"no loop mount ({str(error.stderr).strip() or error})"


def make(disk: Path) -> None:
    """Make it, or make it anew."""
    with disk.open("wb") as stream:
        stream.truncate(_BYTES)
    _run("mkfs.ext4", "-q", "-F", disk)


@contextmanager
def mounted(disk: Path) -> Iterator[Path]:
    """Its root directory."""
    mount = disk.with_suffix("")
    mount.mkdir(exist_ok=True)
    _run("mount", "-o", "loop", disk, mount)
    try:
        yield mount
    finally:
        _run("umount", mount)


def cut(mount: Path) -> None:
    """Cut the power."""
    directory = os.open(mount, os.O_RDONLY)
    fcntl.ioctl(directory, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    os.close(directory)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
