"""A file that is written beside another and takes its place at once.

In: the file's name. Out: the name of a file beside it, to be filled. Promises: at the end of the block it is on the
disk in the other's place, whole, with the permissions that were asked for; where something fails, or the process is
killed, the other is as it was; what a killed one leaves beside it goes with the next one; a device, which root could
replace too, is none to be replaced.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lineage_store.errors import LineageStoreError
from lineage_store.store.holders import holder_name, lives

_OF_SQLITE = re.compile(r"-(journal|wal|shm)$")


@contextmanager
def replacing(target: Path, mode: int) -> Iterator[Path]:
    """The file to be filled. Raises OSError, LineageStoreError for what is there and no regular file."""
    if os.path.exists(target) and not os.path.isfile(target):
        raise LineageStoreError(
            f"{target} cannot be written: it is no regular file.", hint="Name a new file, or an older one."
        )
    _remove_left(target)
    beside = target.with_name(f".{target.name}:{holder_name().partition(':')[2]}")
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield beside
        os.chmod(beside, mode)
        _flush(beside)
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _flush(target.parent)


def _remove_left(target: Path) -> None:
    """Remove what processes that are gone have begun."""
    for path in target.parent.iterdir():
        if path.name.startswith(f".{target.name}:") and lives(_OF_SQLITE.sub("", path.name)) is False:
            with suppress(OSError):  # of another user, perhaps
                path.unlink()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
