"""What the write transactions of a pass take: files are looked at until there is enough for each.

In: files that call for a look, and what registers new ones, part by part. Out: batches, the next of which is read while
the caller writes the one it was given.
Promises: a batch is bounded in rows, bytes, files and time; a file that cannot be read costs nobody else; big files do
not keep small ones waiting, for each gives a chunk in turn. Does not write.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from operator import length_hint
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.findings import Finding
from lineage_store.ingest.problems import unreadable_file
from lineage_store.ingest.read import chunks
from lineage_store.ingest.read.chunks import Look
from lineage_store.ingest.read.log_reader import Rewritten, Wanted
from lineage_store.ingest.read.worker import Pending, Reader, ReaderStuckError, ReadingFailedError, Worker
from lineage_store.ingest.scan.discovery import path_of
from lineage_store.store.records import Advance, KnownFile, SampleColumns
from lineage_store.texts import to_stored

log = logging.getLogger(__name__)

MANY_FILES = 1000
"""So many are read in a process where nobody gives a reader: it takes a third of a second to start."""

READING_SHARE = 0.1
"""A batch ends after so much of what its reading may take: slow files are not to be taken for one that hangs."""


@dataclass(slots=True)
class Batch:
    """What was read for one transaction."""

    advances: list[Advance] = field(default_factory=list)
    samples: list[SampleColumns] = field(default_factory=list)
    rewritten: list[Rewritten] = field(default_factory=list)
    failures: list[tuple[KnownFile, Finding]] = field(default_factory=list)
    row_count: int = 0
    bytes_read: int = 0
    files_taken: int = 0
    """How many files were looked at, whether they had news or not."""
    struck: tuple[KnownFile, str] | None = None
    """A file whose reading failed the reader, and how."""

    def add(self, base_dir: Path, seen: Look) -> None:
        """Add what a look at some files showed."""
        self.advances += seen.advances
        self.samples += seen.samples
        self.rewritten += seen.rewritten
        self.failures += [
            (file, unreadable_file(path_of(base_dir, file.train_id, file.name), error))
            for file, error in seen.failures
            if file.state != "unreadable"
        ]
        self.row_count += sum(each.rows.sample_count + each.rows.event_count for each in seen.advances)
        self.bytes_read += sum(each.after.byte_offset - each.file.byte_offset for each in seen.advances)

    def is_full(self, settings: Settings) -> bool:
        """Whether it is enough for a transaction."""
        return self.row_count >= settings.batch_rows or self.bytes_read >= settings.batch_bytes


@dataclass(slots=True)
class Unregistered:
    """Files that the store does not know yet; they are registered part by part, while others are read."""

    count: int
    parts: Iterator[Sequence[KnownFile]]

    def next_part(self) -> Sequence[KnownFile]:
        """Some of them, as the store knows them from now on; none when all are registered."""
        part = next(self.parts, ())
        self.count = max(0, self.count - len(part)) if part else 0
        return part


class Batches:
    """The batches of a pass, in turn."""

    def __init__(
        self,
        base_dir: Path,
        files: Iterable[KnownFile],
        new: Unregistered,
        settings: Settings,
        now: datetime,
        reader: Reader | None = None,
    ) -> None:
        self._base_dir, self._settings, self._now = base_dir, settings, now
        self._reader = reader
        self._waiting, self._new = deque(files), new
        self._one_by_one = 0
        """So many files are to be read alone: reading them together failed the reader."""

    def add(self, file: KnownFile) -> None:
        """Have one file more looked at."""
        self._waiting.append(file)

    @property
    def files_waiting(self) -> int:
        """How many files call for a look yet."""
        return len(self._waiting) + self._new.count

    def __iter__(self) -> Iterator[Batch]:
        with ExitStack() as lifetime:
            reader = self._reader or lifetime.enter_context(_own_reader(self.files_waiting, self._settings))
            files, ahead = self._begin(reader)
            while ahead is not None:
                batch = self._finished(files, ahead)
                for _ in range(batch.files_taken):
                    self._waiting.popleft()
                self._waiting.extend(each.after for each in batch.advances if each.has_more)
                files, ahead = self._begin(reader)
                yield batch
                if ahead is None:  # the caller may have added some
                    files, ahead = self._begin(reader)

    def _begin(self, reader: Reader) -> tuple[list[KnownFile], Pending[Batch] | None]:
        """Have the next files read; which they are, and None if there are none. New ones are registered meanwhile."""
        if not self._waiting:
            self._waiting.extend(self._new.next_part())
        files = list(islice(self._waiting, 1 if self._one_by_one else self._settings.batch_files))
        if not files:
            return files, None
        pending = reader.submit(fill, self._base_dir, files, self._settings, self._now)
        self._waiting.extend(self._new.next_part())
        return files, pending

    def _finished(self, files: Sequence[KnownFile], pending: Pending[Batch]) -> Batch:
        try:
            batch = pending.result()
        except ReaderStuckError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a file does to its reader, the others are read
            if len(files) > 1:
                self._one_by_one = len(files)
                return Batch()
            batch = Batch(files_taken=1, struck=(files[0], _failure(files[0], error)))
        self._one_by_one = max(0, self._one_by_one - batch.files_taken)
        return batch


def _own_reader(files: int, settings: Settings) -> AbstractContextManager[Reader]:
    """A thread, or for many files a process.

    The arrays of big files leave Python's lock to the one who writes; small files are Python's own work.
    """
    if files >= MANY_FILES:
        worker = Worker(settings.reading_deadline_s, settings.reading_memory_bytes)
        try:
            worker.start(__name__)
        except (OSError, ReaderStuckError) as error:
            log.warning("no reading process, files are read in a thread", extra={"reason": str(error)})
        else:
            return closing(worker)
    return ThreadPoolExecutor(1, "read-ahead")


def _failure(file: KnownFile, error: Exception) -> str:
    if isinstance(error, ReadingFailedError):
        return str(error)
    log.error("reading failed", extra={"train_id": file.train_id, "file": file.name}, exc_info=error)
    return f"Reading failed with {type(error).__name__}: {to_stored(str(error))[:200]}."


def fill(base_dir: Path, files: Sequence[KnownFile], settings: Settings, now: datetime) -> Batch:
    """Look at files until the batch is full, its time is over, or all have been looked at."""
    batch, waiting = Batch(), iter(files)
    ends_at = time.monotonic() + READING_SHARE * settings.reading_deadline_s
    while length_hint(waiting) and not batch.is_full(settings):
        wanted = (Wanted(file, _grace_is_over(file, settings, now)) for file in _until(ends_at, waiting))
        batch.add(base_dir, chunks.look(base_dir, wanted, settings, now))
        if time.monotonic() >= ends_at:
            break
    batch.files_taken = len(files) - length_hint(waiting)
    return batch


def _until(ends_at: float, files: Iterator[KnownFile]) -> Iterator[KnownFile]:
    """One file in any case, and more until the time is over; what is not given out is left in `files`."""
    for file in files:
        yield file
        if time.monotonic() >= ends_at:
            return


def _grace_is_over(file: KnownFile, settings: Settings, now: datetime) -> bool:
    since = file.suspect_since
    return since is not None and (now - since).total_seconds() >= settings.suspect_grace_s
