"""What one write transaction takes: files are looked at until there is enough for it.

In: a queue of files that call for a look. Out: a batch. Promises: it is bounded in rows, bytes and files; a file that
cannot be read costs nobody else. Does not write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path

from lineage_store.config import Settings
from lineage_store.ingest import advancing
from lineage_store.ingest.advancing import Look, Rewritten, Wanted
from lineage_store.ingest.discovery import path_of
from lineage_store.ingest.failures import unreadable_file
from lineage_store.store.batch import Advance, KnownFile, Problem, SampleColumns


@dataclass(slots=True)
class Batch:
    """What was read for one transaction."""

    advances: list[Advance] = field(default_factory=list)
    samples: list[SampleColumns] = field(default_factory=list)
    rewritten: list[Rewritten] = field(default_factory=list)
    failures: list[tuple[KnownFile, Problem]] = field(default_factory=list)
    row_count: int = 0
    bytes_read: int = 0

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
        self.row_count += sum(
            advance.rows.sample_count + advance.rows.event_count for advance in seen.advances
        )
        self.bytes_read += sum(advance.rows.end - advance.file.byte_offset for advance in seen.advances)

    def room(self, settings: Settings) -> int:
        """For how many more files there is room."""
        full = self.row_count >= settings.batch_rows or self.bytes_read >= settings.batch_bytes
        return 0 if full else settings.batch_files - len(self.advances)


def fill(base_dir: Path, waiting: deque[KnownFile], settings: Settings, now: datetime) -> Batch:
    """Look at files, and take them off the queue, until the batch is full or none waits."""
    batch = Batch()
    while waiting and (room := batch.room(settings)) > 0:
        files = islice(_taken(waiting, settings, now), room)
        batch.add(base_dir, advancing.look(base_dir, files, settings))
    return batch


def _taken(waiting: deque[KnownFile], settings: Settings, now: datetime) -> Iterator[Wanted]:
    while waiting:
        file = waiting.popleft()
        since = file.suspect_since
        yield Wanted(file, since is not None and (now - since).total_seconds() >= settings.suspect_grace_s)
