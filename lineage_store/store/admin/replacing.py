"""A file that is written beside another and takes its place at once.

In: the file's name. Out: the name of a file beside it, to be filled. Promises: at the end of the block it is on the
disk in the other's place, whole, with the permissions that were asked for; where something fails, or the process is
killed, the other is as it was.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path, mode: int) -> Iterator[Path]:
    """The file to be filled. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(descriptor)
    try:
        yield Path(name)
        os.chmod(name, mode)
        _flush(name)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _flush(str(target.parent))


def _flush(name: str) -> None:
    descriptor = os.open(name, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
