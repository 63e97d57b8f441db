"""Reading of files that took too long or failed the reader: one at a time, in a process of its own beside the others.

In: such files. Out: the batch of each when it has been read; a file that fails here too gives a batch with a failed
read, and is tried again after a rest that grows with each failure. Promises: no call waits for a file, though `begin`
may wait for the process to start. Does not know how the other files are read.
"""

from __future__ import annotations

import logging
import os
import time
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lineage_store.config import Settings
from lineage_store.ingest.problems import MOST_FAILED_READS
from lineage_store.ingest.read.batch import Batch, fill
from lineage_store.own_time import Limit
from lineage_store.store.records import FileKey, KnownFile
from lineage_store.texts import to_stored
from lineage_store.worker import Pending, ReaderStuckError, ReadingFailedError, Worker

log = logging.getLogger(__name__)

_RESTS = 10
"""A file that failed rests this many times as long as it took, times its failures in a row."""
_NICENESS = 10
"""The process must not take the processor from the one that reads the others."""


class _Begun(NamedTuple):
    file: KnownFile
    pending: Pending[Batch]
    limit: Limit


class Apart:
    """The files that are read apart."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._worker = Worker(settings.reading_deadline_s, settings.reading_memory_bytes)
        self._waiting: dict[FileKey, tuple[float, KnownFile]] = {}
        """Each with the time (monotonic) until which it rests."""
        self._begun: _Begun | None = None

    def add(self, file: KnownFile, rests_s: float = 0.0) -> None:
        """Have a file read apart, after `rests_s` seconds at the earliest."""
        self._waiting[file.key] = time.monotonic() + rests_s, file

    def begin(self, base_dir: Path, now: datetime) -> None:
        """Begin to read the next file, unless one is being read or all rest. Without files, end the process.

        Raises ReaderStuckError when the process does not end.
        """
        if self._begun is not None:
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
            log.warning("no process to read files apart", extra={"reason": str(error)})
            self.add(file, rests_s=self._settings.reading_deadline_s)
            return
        self._begun = _Begun(file, pending, self._worker.limit())

    def finished(self) -> tuple[KnownFile, Batch, float] | None:
        """Return the file that has been read, its batch and what it took by itself (own_time.py), if there is one."""
        if self._begun is None:
            return None
        file, pending, limit = self._begun
        is_done, took_s = self._worker.is_done, limit.own_s()
        if not is_done and limit.left_s() > 0:
            return None
        self._begun = None
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
        return bool(self._waiting) or self._begun is not None

    def __contains__(self, file: KnownFile) -> bool:
        """Whether the file waits here."""
        return file.key in self._waiting

    def close(self) -> None:
        """End the process and forget the files. Raises ReaderStuckError when it does not end."""
        self._waiting, self._begun = {}, None
        self._worker.close()


def failure_of(error: Exception, train_id: str, name: str) -> str:
    """Return why reading a log file failed. Log an error that the call raised, with its traceback."""
    if isinstance(error, ReadingFailedError):
        return str(error)
    log.error("reading failed", extra={"train_id": train_id, "file": name}, exc_info=error)
    return f"Reading failed with {type(error).__name__}: {to_stored(str(error))[:200]}."
