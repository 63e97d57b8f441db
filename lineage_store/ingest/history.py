"""The history of passes: a row of `ingest_cycle` for each recorded pass.

In: a lease, and the counts of a pass when it ends. Out: a row; the oldest rows are deleted. Does not know which passes
are worth a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from lineage_store.extreme_numbers import LARGEST_INTEGER
from lineage_store.ingest.counts import Counts
from lineage_store.ingest.lease import writing_under
from lineage_store.store.catalog import registry
from lineage_store.store.database.engine import database_time, reading
from lineage_store.store.leases import Lease
from lineage_store.store.writes import cycles


@contextmanager
def record_cycle(engine: Engine, lease: Lease, history: int) -> Iterator[Callable[[Counts], None]]:
    """Record the pass that the block makes: the block calls the function it is given with the counts.

    A block that fails, or does not call it, leaves no row.
    """
    with reading(engine) as connection:
        started = database_time(connection)
    outcome: list[Counts] = []
    yield outcome.append
    for counts in outcome:
        with writing_under(engine, lease) as (connection, now):
            left = registry.unfinished(connection, lease.base_dir_id)
            row = {
                "base_dir_id": lease.base_dir_id,
                "started_at": started,
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
            cycles.write_cycle(connection, row, history, batches=counts.batches, batches_s=counts.batches_s)
