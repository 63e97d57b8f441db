"""The batches of a pass, in turn, each read while the caller writes the one before it.

In: files to be read, and a reader. Out: batches. Promises: a file that fails the reader costs nobody else; big files do
not keep small ones waiting, for each gives a chunk in turn. Does not write: what a batch calls for is the caller's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from datetime import datetime
from itertools import islice
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.ingest.read.batch import Batch, fill
from lineage_store.ingest.read.worker import Pending, Reader, ReaderStuckError, ReadingFailedError, Worker
from lineage_store.store.records import KnownFile
from lineage_store.texts import to_stored

log = logging.getLogger(__name__)

MANY_FILES = 1000
"""So many are read in a process where nobody gives a reader: it takes a third of a second to start."""


class Batches:
    """The batches of a pass. Files may be added while they are gone through."""

    def __init__(
        self, base_dir: Path, files: Iterable[KnownFile], settings: Settings, now: datetime, reader: Reader
    ) -> None:
        self._base_dir, self._settings, self._now = base_dir, settings, now
        self._reader = reader
        self._waiting = deque(files)
        self._one_by_one = 0
        """So many files are to be read alone: reading them together failed the reader."""

    def add(self, *files: KnownFile) -> None:
        """Have more files read."""
        self._waiting.extend(files)

    @property
    def files_waiting(self) -> int:
        """How many files are to be read yet."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Batch]:
        files, ahead = self._begin()
        while ahead is not None:
            batch = self._finished(files, ahead)
            for _ in range(batch.files_taken):
                self._waiting.popleft()
            self._waiting.extend(each.after for each in batch.advances if each.has_more)
            files, ahead = self._begin()
            yield batch
            if ahead is None:  # the caller may have added some
                files, ahead = self._begin()

    def _begin(self) -> tuple[list[KnownFile], Pending[Batch] | None]:
        """Have the next files read; which they are, and None if there are none."""
        files = list(islice(self._waiting, 1 if self._one_by_one else self._settings.batch_files))
        if not files:
            return files, None
        return files, self._reader.submit(fill, self._base_dir, files, self._settings, self._now)

    def _finished(self, files: Sequence[KnownFile], pending: Pending[Batch]) -> Batch:
        try:
            batch = pending.result()
        except ReaderStuckError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a file does to its reader, the others are read
            if len(files) > 1:
                self._one_by_one = len(files)
                return Batch()
            batch = Batch(files_taken=1, failed_read=(files[0], _failure(files[0], error)))
        self._one_by_one = max(0, self._one_by_one - batch.files_taken)
        return batch


def reader_of(files: int, settings: Settings) -> AbstractContextManager[Reader]:
    """What reads so many files: a thread, or for many a process.

    The arrays of big files leave Python's lock to the one who writes; small files are Python's own work.
    """
    if files >= MANY_FILES:
        worker = Worker(settings.reading_deadline_s, settings.reading_memory_bytes)
        try:
            worker.start(fill.__module__)
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
