"""Replace a file atomically: write a new file beside it, then rename.

In: the name of the target. Out: the name of a file beside it, to be written by the caller. Promises: at the end of the
block the new file is completely on the disk, in the target's place and with the wanted permissions; after an error or a
kill the target is unchanged; files that killed processes have left are removed by the next call; what is no regular
file, such as a device, is never replaced.
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
    """Yield the file to be written. Raises OSError; LineageStoreError if `target` exists but is no regular file."""
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
    """Remove the unfinished files of processes that no longer run."""
    for path in target.parent.iterdir():
        if path.name.startswith(f".{target.name}:") and lives(_OF_SQLITE.sub("", path.name)) is False:
            with suppress(OSError):  # it may be another user's
                path.unlink()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
