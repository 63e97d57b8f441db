"""The order in which files are read: small growth first, and jobs that took more than their share of the time last.

In: files that wait, and what reading them cost. Out: the next files, and how many bytes of each to read at once.
Promises: a job that took more than `job_reading_s` lately waits for all that did not; among such jobs, the one that
took least is first; files of equal rank are read in turn; the costs of at most 10,000 jobs are kept. Does not know the
disk or the database.
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from lineage_store.config import Settings
from lineage_store.store.records import KnownFile, NewFile

TURN_S = 0.25
"""How long one turn of a file should take, in seconds."""
_LATELY_S = 60.0
_UNKNOWN_BYTES = 1 << 18
"""How much is read at once of a job whose pace is unknown: the slowest content that we know takes TURN_S for this."""
_LEAST_BYTES = 1 << 16
_MOST_JOBS = 10_000
"""How many jobs' costs are kept."""
_ONE_RANK = (0, 0)

Place = tuple[str, str]
"""The job and the name of a file."""


class Waiting(NamedTuple):
    """A file that waits, in the order of its turn."""

    rank: tuple[int, int]
    number: int
    file: KnownFile
    most_bytes: int
    """How much of the file to read at once."""


class Cost(NamedTuple):
    """How much was read of a job, and how long that took."""

    bytes: int = 0
    seconds: float = 0.0

    def plus(self, more_bytes: int, more_s: float) -> Cost:
        return Cost(self.bytes + more_bytes, self.seconds + more_s)


class Turns:
    """The files that wait. Without `fair`, they are read in the order in which they came, a chunk at a time."""

    def __init__(self, settings: Settings, *, fair: bool) -> None:
        self._settings, self._fair = settings, fair
        self._heap: list[Waiting] = []
        self._paths: set[Place] = set()
        self._number = count()
        self._taken: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By train id: the seconds that the job took lately, and when (monotonic) that was noted."""
        self._pace: dict[str, float] = {}
        """By train id: seconds per byte."""

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, path: Place) -> bool:
        """Whether a file waits or is being read."""
        return path in self._paths

    def add(self, file: KnownFile, pending_bytes: int) -> None:
        """Queue a file that has `pending_bytes` to be read."""
        self._paths.add(path_of(file))
        rank, most = _ONE_RANK, self._settings.chunk_bytes
        if self._fair:
            rank, most = self._rank(file.train_id, pending_bytes), self._most_bytes(file.train_id)
        heapq.heappush(self._heap, Waiting(rank, next(self._number), file, most))

    def admit(self, *files: KnownFile | NewFile) -> None:
        """Note files that wait elsewhere, so that they count as waiting."""
        self._paths.update(map(path_of, files))

    def take(self, most: int) -> list[Waiting]:
        """Take up to `most` files, all of the first one's rank, so that small growth does not wait for large."""
        taken: list[Waiting] = []
        while self._heap and len(taken) < most and (not taken or self._heap[0].rank == taken[0].rank):
            taken.append(heapq.heappop(self._heap))
        return taken

    def put_back(self, files: Iterable[Waiting]) -> None:
        """Put files that were taken and not read back in their places."""
        for each in files:
            heapq.heappush(self._heap, each)

    def done(self, files: Iterable[KnownFile]) -> None:
        """Note that files were read, and no longer wait."""
        self._paths.difference_update(map(path_of, files))

    def remove(self, files: Iterable[KnownFile]) -> None:
        """Remove files from the queue."""
        gone = set(map(path_of, files))
        self._paths -= gone
        self._heap = [each for each in self._heap if path_of(each.file) not in gone]
        heapq.heapify(self._heap)

    def charge(self, train_id: str, cost: Cost) -> None:
        """Note what reading a job cost."""
        if not self._fair:
            return
        self._taken[train_id] = self._lately(train_id) + cost.seconds, time.monotonic()
        self._taken.move_to_end(train_id)
        if cost.bytes >= _LEAST_BYTES:
            self._pace[train_id] = cost.seconds / cost.bytes
        while len(self._taken) > _MOST_JOBS:
            forgotten, _ = self._taken.popitem(last=False)
            self._pace.pop(forgotten, None)

    def _lately(self, train_id: str) -> float:
        """The seconds that a job took lately, which count less with time and nothing after _LATELY_S."""
        seconds, at = self._taken.get(train_id, (0.0, 0.0))
        return seconds * max(0.0, 1 - (time.monotonic() - at) / _LATELY_S)

    def rank_of_new(self, size_bytes: int) -> int:
        """The rank by which a new file of this size is registered."""
        return _rank_of(size_bytes) if self._fair else 0

    def _rank(self, train_id: str, pending_bytes: int) -> tuple[int, int]:
        lately_s = self._lately(train_id)
        if lately_s > self._settings.job_reading_s:
            return 1, int(lately_s)
        return 0, _rank_of(pending_bytes)

    def _most_bytes(self, train_id: str) -> int:
        pace = self._pace.get(train_id)
        most = _UNKNOWN_BYTES if pace is None else int(TURN_S / max(pace, 1e-12))
        return min(max(most, _LEAST_BYTES), self._settings.chunk_bytes)


def _rank_of(pending_bytes: int) -> int:
    """Each doubling from 1 KiB on is a further rank: most jobs grow by about 1 KiB between two polls."""
    return (pending_bytes >> 10).bit_length()


def path_of(file: KnownFile | NewFile) -> Place:
    """What all generations of a file have in common."""
    return file.train_id, file.name


def share_out(costs: dict[str, Cost], sizes: Sequence[tuple[str, int]], seconds: float) -> None:
    """Add to the jobs' costs the seconds that reading chunks together took, in proportion to their bytes.

    Args:
        sizes: the train id and the number of bytes of each chunk.
    """
    whole = sum(size for _, size in sizes) or 1
    for train_id, size in sizes:
        costs[train_id] = costs.get(train_id, Cost()).plus(size, seconds * size / whole)
