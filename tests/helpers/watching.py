"""What the kernel reports as opened in a directory, by any process and in any way."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OPENED_OR_READ = 0x20 | 0x1
_LIBC = ctypes.CDLL(None, use_errno=True)
_HERE, _EXCHANGE = -100, 2


@contextmanager
def unopened(*directories: Path) -> Iterator[None]:
    """Fail if one of the directories, or a file in one, is opened or read during the block."""
    descriptor = _LIBC.inotify_init1(os.O_NONBLOCK)
    for directory in directories:
        assert _LIBC.inotify_add_watch(descriptor, os.fsencode(directory), _OPENED_OR_READ) > 0
    try:
        yield
        assert not _is_readable(descriptor), "it was opened"
    finally:
        os.close(descriptor)


def exchange(one: Path, other: Path) -> None:
    """Exchange two paths in one atomic step."""
    names = os.fsencode(one), os.fsencode(other)
    assert _LIBC.renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0, os.strerror(ctypes.get_errno())


def _is_readable(descriptor: int) -> bool:
    try:
        return bool(os.read(descriptor, 4096))
    except BlockingIOError:
        return False
