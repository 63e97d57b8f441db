"""What has changed between the disk and the store. Pure.

In: the files found and the files known, both sorted by path. Out: one change per path. Promises: files are compared by
their paths; whether a file is still the same one is decided by digests of its first bytes (fingerprint) and of those
before the bookmark (anchor), never by times or inodes (an equal stamp only spares opening a file that was looked at).
Does not know the database or the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from lineage_store.ingest.scan.discovery import FoundFile
from lineage_store.states import FileState
from lineage_store.store.records import KnownFile

BY_PATH = attrgetter("train_id", "name")
"""The order of both lists."""
_UNSEEN = (FileState.MISSING, FileState.UNREADABLE)


class Change(Enum):
    """How a path compares; the values are the words for it."""

    NEW = "new"
    LOOK = "changed or not read to the end"
    """Open the file: it changed, or is not read to its end, or its stamp cannot be trusted."""
    UNCHANGED = "unchanged"
    MISSING = "no longer on disk"


class PathChange(NamedTuple):
    """One path's change, with the file found there and the file known, as far as there are any."""

    change: Change
    found: FoundFile | None
    known: KnownFile | None

    @property
    def file(self) -> FoundFile | KnownFile:
        """The file found or, if there is none, the file known."""
        file = self.found or self.known
        assert file is not None
        return file


def diff(
    found: Iterable[FoundFile], known: Iterable[KnownFile], *, distrust: bool = False
) -> Iterator[PathChange]:
    """Compare files that come in the order of their paths, without holding either list in memory.

    Args:
        distrust: look at every file that is still written, whatever its stamp says (network filesystems).
    """
    both: Iterable[FoundFile | KnownFile] = merge(found, known, key=BY_PATH)
    for _, of_path in groupby(both, key=BY_PATH):
        file, match = None, None
        for each in of_path:
            if isinstance(each, FoundFile):
                file = each
            else:
                match = each
        if file is not None:
            yield PathChange(_change(file, match, distrust), file, match)
        elif match is not None and match.state != FileState.MISSING:
            yield PathChange(Change.MISSING, None, match)


def _change(found: FoundFile, known: KnownFile | None, distrust: bool) -> Change:
    if known is None:
        return Change.NEW
    if known.state == FileState.POISONED:
        return Change.UNCHANGED  # until a user asks for another try
    looked_at = known.stat_stamp == found.sight.stat_stamp and known.state not in _UNSEEN
    waits = known.suspect_since is not None or not (known.current or known.copy_of is not None)
    if looked_at and not waits and not (distrust and not known.closed):
        return Change.UNCHANGED
    return Change.LOOK


def is_rewritten(known: KnownFile, size_bytes: int, fingerprint: str | None, anchor: str | None) -> bool:
    """Whether the bytes before the bookmark are no longer those that were read.

    Args:
        fingerprint, anchor: digests of the file's present bytes, over the byte ranges of those in `known`.
    """
    if known.byte_offset == 0:
        return False
    return size_bytes < known.byte_offset or fingerprint != known.fingerprint or anchor != known.anchor
