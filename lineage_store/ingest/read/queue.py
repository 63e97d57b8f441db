"""The queue of log files to be read: which come next, and the batches that they make.

In: files to be read, and a reader. Out: batches, each read while the caller writes the one before it. Promises: a file
that fails the reader does not keep the other files from being read; files are read a chunk at a time in turn, so that
big files do not keep small ones waiting; a caller that stops iterating can go on later. With slow files read apart, a
batch is read in a share of `slow_reading_s`, unless one file alone takes longer; a job that took more than
`job_reading_s` lately waits for all that did not, and among such jobs, the one that took least is first. Does not know
the disk or the database: the caller does what a batch calls for.
"""

from __future__ import annotations

import heapq
import logging
import math
import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple

from lineage_store.config import Settings
from lineage_store.ingest.problems import MOST_FAILED_READS
from lineage_store.ingest.read.batch import Batch, Cost, fill
from lineage_store.ingest.read.log_reader import Compared
from lineage_store.program import Limit
from lineage_store.store.records import Advance, FileKey, KnownFile, NewFile
from lineage_store.texts import to_stored
from lineage_store.worker import Pending, Reader, ReaderStuckError, ReadingFailedError, Worker

log = logging.getLogger(__name__)

BUSY_PASS = 3
"""A pass lasts this many times as long, at most, when reader and writer wait for processors: on a busy machine it would
else end with each batch, and no batch be read while another is written."""
MANY_FILES = 1000
"""From this many files on, `reader_of` starts a reading process, which takes a third of a second to start."""
_TOGETHER_SHARE = 0.3
"""With `apart`, a batch ends when reading it has taken this share of `slow_reading_s` by itself."""


class FileQueue:
    """The files of a base dir that wait to be read. Files may be added during the iteration, which yields batches.

    Args:
        slow_files: where slow files are read; with it, reading time is shared fairly among jobs. None: files are read
            in the order in which they were added, and wait for slow ones.
    """

    def __init__(
        self, base_dir: Path, settings: Settings, reader: Reader, slow_files: SlowFiles | None = None
    ) -> None:
        self._base_dir, self._settings = base_dir, settings
        self._reader, self._slow_files = reader, slow_files
        self._turns = Turns(settings, fair=slow_files is not None)
        self._new: list[tuple[int, int, NewFile]] = []
        """A heap of (rank, order of arrival, file): new files, of which little is kept until their turn comes near."""
        self._came = count()
        self._under_way: tuple[list[QueuedFile], Pending[Batch]] | None = None
        """The files of the batch that is being read."""
        self._one_by_one = 0
        """How many files to read one by one, because reading them together failed the reader."""
        self._now, self._limit = datetime.now(UTC), Limit(math.inf)
        self.events = 0
        """How many events were read since the caller set this to 0."""
        self.jobs_with_copies: set[int] = set()
        """Ids of jobs in which files may have changed places since they were read ahead."""
        self.compared: list[Compared] = []
        """Copies that were compared, and whose originals are still being read."""
        self._first: dict[FilePath, tuple[Advance, bool]] = {}
        """Files of which the first part was read, and whether slowly; the rest waits until that part is written."""

    def begin_pass(self, now: datetime, seconds: float) -> Limit:
        """Set the time of the database's clock; return the limit of the pass, until which batches are read ahead.

        Args:
            seconds: how long the pass may take by itself: reading and writing together.
        """
        reader = self._reader.tasks if isinstance(self._reader, Worker) else []
        self._now, self._limit = now, Limit(seconds, BUSY_PASS * seconds, [None, *reader])
        return self._limit

    def add(self, files: Iterable[KnownFile]) -> None:
        """Queue registered files, except for those that wait or are being read."""
        self.add_changed((file, file.size_bytes - file.byte_offset) for file in files)

    def add_changed(self, changed: Iterable[tuple[KnownFile, int]]) -> None:
        """Queue the known files of a survey, with how many bytes there are to read, as `add` does."""
        for file, pending_bytes in changed:
            if file in self:
                continue
            if self._slow_files and file.failed_reads:
                self._turns.admit(file)
                self._slow_files.add(file)
            else:
                self._turns.add(file, pending_bytes)

    def add_new(self, files: Iterable[NewFile]) -> None:
        """Queue new files, which have just been registered, until they are looked up."""
        for file in files:
            self._turns.admit(file)
            rank = self._turns.rank_of_new(file.size_bytes)
            heapq.heappush(self._new, (rank, next(self._came), file))

    def next_new(self, most: int) -> list[NewFile]:
        """Return up to `most` new files to look up now; none if `2 * most` others wait before them."""
        few = self.files_waiting - len(self._new) < 2 * most
        new = [heapq.heappop(self._new) for _ in range(min(most, len(self._new)))] if few else []
        return [file for _, _, file in new]

    def add_looked_up(self, files: Iterable[KnownFile]) -> None:
        """Queue new files that were looked up."""
        for file in files:
            self._turns.add(file, file.size_bytes - file.byte_offset)

    def withdraw(self, files: Iterable[KnownFile]) -> None:
        """Remove files from the queue."""
        gone = list(files)
        for file in gone:
            self._first.pop(path_of_file(file), None)
        self._turns.remove(gone)

    def go_on(self, batch: Batch) -> None:
        """Queue the files of a written batch of which only the first part was read."""
        for each in batch.advances:
            advance, slow = self._first.pop(path_of_file(each.file), (None, False))
            if advance is not None:
                self._wait_again(advance, slow=slow)

    def __contains__(self, file: KnownFile) -> bool:
        """Whether a file waits or is being read."""
        return path_of_file(file) in self._turns

    @property
    def is_busy(self) -> bool:
        """Whether the iteration may yield a batch, now or later."""
        return self.files_waiting > 0 or (self._slow_files is not None and self._slow_files.is_busy)

    @property
    def files_waiting(self) -> int:
        """How many files wait or are being read, except for slow files."""
        being_read = len(self._under_way[0]) if self._under_way else 0
        return len(self._turns) + len(self._new) + being_read

    def __iter__(self) -> Iterator[Batch]:
        while True:
            if self._slow_files:
                yield from self._slow_file_read(self._slow_files)
                self._slow_files.begin(self._base_dir, self._now)
            self._begin()
            if self._under_way is None:
                return
            batch = self._finished(*self._under_way)
            if self._limit.left_s() > 0:  # else files that grew meanwhile would wait for this batch
                self._begin()
            yield batch

    def _begin(self) -> None:
        """Begin to read the next files, unless some are being read."""
        files = (
            [] if self._under_way else self._turns.take(1 if self._one_by_one else self._settings.batch_files)
        )
        if files:
            share = _TOGETHER_SHARE * self._settings.slow_reading_s if self._slow_files else None
            most = [each.most_bytes for each in files]
            known = [each.file for each in files]
            pending = self._reader.submit(fill, self._base_dir, known, self._settings, self._now, most, share)
            self._under_way = files, pending

    def _finished(self, files: list[QueuedFile], pending: Pending[Batch]) -> Batch:
        """Wait for the batch that is being read and return it.

        If several files fail the reader together, return an empty batch and read them one by one. Raises
        ReaderStuckError when the reading process neither answers nor ends; the files stay in the queue.
        """
        self._under_way = None
        try:
            batch = pending.result()
        except ReaderStuckError:
            self._turns.put_back(files)
            raise
        except Exception as error:  # noqa: BLE001 - whatever a file does to its reader, the others are read
            if len(files) > 1:
                self._turns.put_back(files)
                self._one_by_one = len(files)
                return Batch()
            batch = self._failed(files[0].file, error)
        self._one_by_one = max(0, self._one_by_one - batch.files_taken)
        self._turns.put_back(files[batch.files_taken :])
        self._turns.done(each.file for each in files[: batch.files_taken] if not self._is_slow(each.file))
        return self._taken(batch)

    def _failed(self, file: KnownFile, error: Exception) -> Batch:
        """Return the batch for a file that failed the reader; it is a slow file if it crashed or hung the process."""
        if self._slow_files is None or not isinstance(error, ReadingFailedError):
            failed = (file, failure_of(error, file.train_id, file.name))
            return Batch(files_taken=1, failed_read=failed)
        self._slow_files.add(file)
        return Batch(files_taken=1, costs={file.train_id: Cost(0, self._settings.slow_reading_s)})

    def _slow_file_read(self, slow_files: SlowFiles) -> Iterator[Batch]:
        if (found := slow_files.finished()) is not None:
            file, batch, took_s = found
            if not self._is_slow(file):
                self._turns.done([file])
            yield self._taken(batch, slow=took_s > self._settings.slow_reading_s)

    def _is_slow(self, file: KnownFile) -> bool:
        return self._slow_files is not None and file in self._slow_files

    def _taken(self, batch: Batch, *, slow: bool = False) -> Batch:
        for train_id, cost in batch.costs.items():
            self._turns.charge(train_id, cost)
        left_alone = {file.key for file, _ in batch.heavily_damaged}
        for each in batch.advances:
            if each.has_more and each.file.key not in left_alone:
                if each.file.byte_offset:
                    self._wait_again(each, slow=slow)
                else:
                    self._turns.admit(each.file)
                    self._first[path_of_file(each.file)] = each, slow
            self.events += each.rows.event_count
        return batch

    def _wait_again(self, advance: Advance, *, slow: bool) -> None:
        file = advance.after
        if slow and self._slow_files:
            self._turns.admit(file)
            self._slow_files.add(file)
        else:
            self._turns.add(file, file.size_bytes - file.byte_offset)


def reader_of(files: int, settings: Settings) -> AbstractContextManager[Reader]:
    """Return a reader for a number of files: a process from MANY_FILES on, else a thread.

    Decoding many small files is work in Python, for which a thread would compete with the writing thread for the GIL;
    decoding big files is work of numpy, which releases the GIL.
    """
    if files >= MANY_FILES:
        worker = Worker(settings.reading_deadline_s, settings.reading_memory_bytes)
        try:
            worker.start(fill.__module__)
        except (OSError, ReaderStuckError) as error:
            log.warning(
                "reading process unavailable, files are read in a thread", extra={"reason": str(error)}
            )
        else:
            return closing(worker)
    return ThreadPoolExecutor(1, "read-ahead")


# ---- The order in which files are read: small growth first, and jobs that took more than their share of the time last

TURN_S = 0.25
"""How long one turn of a file should take, in seconds."""
_LATELY_S = 60.0
_UNKNOWN_BYTES = 1 << 18
"""How much is read at once of a job whose pace is unknown: the slowest content that we know takes TURN_S for this."""
_LEAST_BYTES = 1 << 16
_MOST_JOBS = 10_000
"""How many jobs' costs are kept."""
_ONE_RANK = (0, 0)

FilePath = tuple[str, str]
"""The job and the name of a file."""


class QueuedFile(NamedTuple):
    """A file that waits, in the order of its turn."""

    rank: tuple[int, int]
    number: int
    file: KnownFile
    most_bytes: int
    """How much of the file to read at once."""


class Turns:
    """The files that wait. Without `fair`, they are read in the order in which they came, a chunk at a time."""

    def __init__(self, settings: Settings, *, fair: bool) -> None:
        self._settings, self._fair = settings, fair
        self._heap: list[QueuedFile] = []
        self._paths: set[FilePath] = set()
        self._number = count()
        self._taken: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By train id: the seconds that the job took lately, and when (monotonic) that was noted."""
        self._pace: dict[str, float] = {}
        """By train id: seconds per byte."""

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, path: FilePath) -> bool:
        """Whether a file waits or is being read."""
        return path in self._paths

    def add(self, file: KnownFile, pending_bytes: int) -> None:
        """Queue a file that has `pending_bytes` to be read."""
        self._paths.add(path_of_file(file))
        rank, most = _ONE_RANK, self._settings.chunk_bytes
        if self._fair:
            rank, most = self._rank(file.train_id, pending_bytes), self._most_bytes(file.train_id)
        heapq.heappush(self._heap, QueuedFile(rank, next(self._number), file, most))

    def admit(self, *files: KnownFile | NewFile) -> None:
        """Note files that wait elsewhere, so that they count as waiting."""
        self._paths.update(map(path_of_file, files))

    def take(self, most: int) -> list[QueuedFile]:
        """Take up to `most` files, all of the first one's rank, so that small growth does not wait for large."""
        taken: list[QueuedFile] = []
        while self._heap and len(taken) < most and (not taken or self._heap[0].rank == taken[0].rank):
            taken.append(heapq.heappop(self._heap))
        return taken

    def put_back(self, files: Iterable[QueuedFile]) -> None:
        """Put files that were taken and not read back in their places."""
        for each in files:
            heapq.heappush(self._heap, each)

    def done(self, files: Iterable[KnownFile]) -> None:
        """Note that files were read, and no longer wait."""
        self._paths.difference_update(map(path_of_file, files))

    def remove(self, files: Iterable[KnownFile]) -> None:
        """Remove files from the queue."""
        gone = set(map(path_of_file, files))
        self._paths -= gone
        self._heap = [each for each in self._heap if path_of_file(each.file) not in gone]
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


def path_of_file(file: KnownFile | NewFile) -> FilePath:
    """What all generations of a file have in common."""
    return file.train_id, file.name


# ---- Slow files: those that took too long or failed the reader, read one at a time by a process beside the others

_RESTS = 10
"""A file that failed rests this many times as long as it took, times its failures in a row."""
_NICENESS = 10
"""The process must not take the processor from the one that reads the others."""


class SlowFiles:
    """The slow files of a base dir. No call waits for one, though `begin` may wait for the process to start.

    A file that fails here too is retried after a rest that grows with each failure.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._worker = Worker(settings.reading_deadline_s, settings.reading_memory_bytes)
        self._waiting: dict[FileKey, tuple[float, KnownFile]] = {}
        """Each with the time (monotonic) until which it rests."""
        self._under_way: tuple[KnownFile, Pending[Batch], Limit] | None = None

    def add(self, file: KnownFile, rests_s: float = 0.0) -> None:
        """Have a file read, after `rests_s` seconds at the earliest."""
        self._waiting[file.key] = time.monotonic() + rests_s, file

    def begin(self, base_dir: Path, now: datetime) -> None:
        """Begin to read the next file, unless one is being read or all rest. Without files, end the process.

        Raises ReaderStuckError when the process does not end.
        """
        if self._under_way is not None:
            return
        if not self._waiting:
            self._worker.close()
            return
        rests_until, file = min(self._waiting.values(), key=lambda waiting: waiting[0])
        if rests_until > time.monotonic():
            return
        del self._waiting[file.key]
        try:
            if not self._worker.is_running:
                self._worker.start(fill.__module__)
                self._worker.submit(os.nice, _NICENESS).result()
            pending = self._worker.submit(fill, base_dir, [file], self._settings, now)
        except (OSError, ReaderStuckError) as error:
            log.warning("slow-file reader unavailable", extra={"reason": str(error)})
            self.add(file, rests_s=self._settings.reading_deadline_s)
            return
        self._under_way = file, pending, self._worker.limit()

    def finished(self) -> tuple[KnownFile, Batch, float] | None:
        """Return the file that has been read, its batch and what it took by itself (program.py), if there is one."""
        if self._under_way is None:
            return None
        file, pending, limit = self._under_way
        is_done, took_s = self._worker.is_done, limit.own_s()
        if not is_done and limit.left_s() > 0:
            return None
        self._under_way = None
        try:
            batch = pending.result() if is_done else self._worker.expire()
        except Exception as error:  # noqa: BLE001 - whatever a file does to its reader, the others are read
            batch = Batch(files_taken=1, failed_read=(file, failure_of(error, file.train_id, file.name)))
            failed = file._replace(failed_reads=file.failed_reads + 1)
            if failed.failed_reads < MOST_FAILED_READS:
                self.add(failed, rests_s=_RESTS * took_s * failed.failed_reads)
        return file, batch, took_s

    @property
    def is_busy(self) -> bool:
        """Whether a file waits or is being read."""
        return bool(self._waiting) or self._under_way is not None

    def __contains__(self, file: KnownFile) -> bool:
        """Whether the file waits here."""
        return file.key in self._waiting

    def close(self) -> None:
        """End the process and forget the files. Raises ReaderStuckError when it does not end."""
        self._waiting, self._under_way = {}, None
        self._worker.close()


def failure_of(error: Exception, train_id: str, name: str) -> str:
    """Return why reading a log file failed. Log an error that the call raised, with its traceback."""
    if isinstance(error, ReadingFailedError):
        return str(error)
    log.error("reading failed", extra={"train_id": train_id, "file": name}, exc_info=error)
    return f"Reading failed with {type(error).__name__}: {to_stored(str(error))[:200]}."
