"""The history of passes: a row of `ingest_cycle` for each recorded pass, and for each part of a long one.

In: a lease, and the counts of a pass meanwhile and when it ends. Out: rows, which tell how reading goes while it goes
on; the oldest rows are deleted. Does not know which passes are worth a row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from lineage_store.extreme_numbers import LARGEST_INTEGER
from lineage_store.ingest.counts import Counts
from lineage_store.ingest.lease import writing_under
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import database_time, reading
from lineage_store.store.leases import Lease
from lineage_store.store.writes import cycles

PART_S = 10.0
"""A pass that takes longer leaves a row each time that so much has passed."""


class Record:
    """The rows of one pass."""

    def __init__(self, engine: Engine, lease: Lease, history: int) -> None:
        self._engine, self._lease, self._history = engine, lease, history
        with reading(engine) as connection:
            self._started = database_time(connection)
        self._part_ends, self._recorded = time.monotonic() + PART_S, Counts()
        self._outcome: Counts | None = None

    def so_far(self, counts: Counts) -> None:
        """Note what the pass has read; adds a row if the part has been long enough."""
        if time.monotonic() >= self._part_ends:
            self._write(counts)
            self._part_ends = time.monotonic() + PART_S

    def finish(self, counts: Counts) -> None:
        """Note what the pass has read in all; the row is added when the block of `record_cycle` ends."""
        self._outcome = counts

    def close(self) -> None:
        """Add the row of what is not recorded yet, if the pass was finished."""
        if self._outcome is not None:
            self._write(self._outcome)

    def _write(self, so_far: Counts) -> None:
        counts, lease = so_far.since(self._recorded), self._lease
        with writing_under(self._engine, lease) as (connection, now):
            left = registry.unfinished(connection, lease.base_dir_id)
            row = {
                "base_dir_id": lease.base_dir_id,
                "started_at": self._started,
                "finished_at": now,
                "holder": lease.holder,
                "files_found": counts.files_found,
                "files_read": counts.files_read,
                "bytes_read": min(counts.bytes_read, LARGEST_INTEGER),
                "events": counts.events,
                "samples": counts.samples,
                "pending_bytes": left.pending_bytes,
                "waiting_files": left.waiting_files,
                "waiting_bytes": left.waiting_bytes,
                "problems": left.problems,
            }
            history, took_s = self._history, counts.batches_s
            cycles.write_cycle(connection, row, history, batches=counts.batches, batches_s=took_s)
        self._started, self._recorded = now, so_far


@contextmanager
def record_cycle(engine: Engine, lease: Lease, history: int) -> Iterator[Record]:
    """Record the pass that the block makes: the block notes its counts.

    A block that fails, or does not finish the record, leaves no row but those of its parts.
    """
    record = Record(engine, lease, history)
    yield record
    record.close()
