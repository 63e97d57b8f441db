"""Log files that lie deeper than a search goes, or less deep than jobs do: to say so, never to read them.

In: a directory, or what was found in it. Out: a few directories further down; whether it is a job's own. Promises: an
end, however large the tree; nothing behind symbolic links, nothing about what cannot be listed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from itertools import islice
from pathlib import Path

from lineage_store.eventlog import formats
from lineage_store.finding_kinds import KINDS
from lineage_store.texts import to_stored

SHOWN = 3
MOST_DIRECTORIES = 20_000
ONE_JOB = KINDS["one_job"].what


def is_one_job(train_ids: Collection[str]) -> bool:
    """Whether all log files of a base dir lie in the directory itself: it is a job's directory, most likely."""
    return set(train_ids) == {"./"}


def holds_log_files(directory: Path, *, recursive: bool) -> bool:
    """Whether a search would find any: a look that ends with the first. Links are not followed."""
    for path, below, names in os.walk(directory):
        if any(formats.recognise(name) and _is_file(os.path.join(path, name)) for name in names):
            return True
        if not recursive and path != str(directory):
            below.clear()
    return False


def _is_file(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def deeper_jobs(directory: Path, levels: int) -> list[str]:
    """Directories more than `levels` below `directory` that hold log files, as stored text relative to it.

    At most three, after a look at 20,000 directories at most.
    """
    hits: list[str] = []
    for path, _, names in islice(os.walk(directory), MOST_DIRECTORIES):
        below = os.path.relpath(path, directory)
        depth = 0 if below == os.curdir else below.count(os.sep) + 1
        if depth > levels and any(map(formats.recognise, names)):
            hits.append(to_stored(below))
        if len(hits) == SHOWN:
            break
    return hits
