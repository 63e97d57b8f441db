"""Log files that lie deeper than a search goes, or less deep than jobs do: to report them, never to read them. And the
names of directories into which no search goes.

In: a directory, or the train ids found in it. Out: a few directories further down that hold log files; whether the
directory is a single job's. Promises: follows no symbolic links; skips what cannot be listed; `deeper_jobs` looks at a
bounded number of directories.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from lineage_store.beneath import OpenBaseDir, opened
from lineage_store.eventlog import formats
from lineage_store.finding_kinds import KINDS
from lineage_store.texts import to_stored

LONGEST_TRAIN_ID_BYTES = 1000
"""Longer ids do not fit into a database index; their directories are reported, not ingested."""
SHOWN = 3
MOST_DIRECTORIES = 20_000
ONE_JOB = KINDS["one_job"].what
SNAPSHOTS = "directory of snapshots or of deleted files, by its name"
"""The reason for ignoring a directory in which file systems and tools keep what was there once."""
_SNAPSHOTS = re.compile(
    r"\.snapshots?|[~#]snapshot|\.zfs|\.ckpt_snapshots?|\.stversions|\.~tmp~|\.ipynb_checkpoints|@eadir"
    r"|\.trash(?:es|-\d+)?|@?#?\.?recycle|@recently-snapshot|\$recycle\.bin|system volume information|lost\+found",
    re.IGNORECASE,
)


def is_snapshots(name: str) -> bool:
    """Whether a directory of this name holds snapshots or deleted files: jobs only if it is made a base dir."""
    return _SNAPSHOTS.fullmatch(name) is not None


def in_snapshots(parts: Iterable[str]) -> bool:
    """Whether a path below a base dir, given by its parts, leads through a directory of snapshots or deleted files."""
    return any(map(is_snapshots, parts))


def is_one_job(train_ids: Collection[str]) -> bool:
    """Whether all log files of a base dir lie in the directory itself, which then most likely is a job's directory."""
    return set(train_ids) == {"./"}


def holds_log_files(base_dir: Path, levels: int | None, start: str = ".") -> bool:
    """Whether `start` or a directory down to `levels` (None: any number) below it holds a log file."""
    return any(holds for _, holds in _directories(base_dir, start, levels))


def deeper_jobs(base_dir: Path, levels: int, start: str = ".") -> list[str]:
    """Return up to three directories that hold log files more than `levels` below `start`.

    They are stored text, relative to `start`. Looks at 20,000 directories at most.
    """
    seen = islice(_directories(base_dir, start), MOST_DIRECTORIES)
    hits = (path.removeprefix("./") for path, holds in seen if holds and path.count("/") > levels)
    return [to_stored(path) for path in islice(hits, SHOWN)]


def _directories(base_dir: Path, start: str = ".", levels: int | None = None) -> Iterator[tuple[str, bool]]:
    """The directories in and below `start`, each with whether it holds log files; skips what cannot be listed."""
    waiting = ["."]
    with suppress(OSError), opened(base_dir) as root:
        while waiting:
            path = waiting.pop()
            try:
                below, holds = _content(root, f"{start}/{path}")
            except OSError:
                continue
            yield path, holds
            if levels is None or path.count("/") < levels:
                waiting += (each for name in below if len(each := f"{path}/{name}") <= LONGEST_TRAIN_ID_BYTES)


def _content(root: OpenBaseDir, path: str) -> tuple[list[str], bool]:
    """The names of the directories in a directory, and whether it holds log files."""
    below, holds = [], False
    with root.directory(path) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if not is_snapshots(entry.name):
                    below.append(entry.name)
            elif not holds and formats.recognise(entry.name):
                holds = entry.is_file(follow_symlinks=False)
    return below, holds
