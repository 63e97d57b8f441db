"""Removal of jobs from the store: they are taken out of readers' sight first, then their rows are deleted in steps.

In: an engine, leases, jobs. Out: tombstones in place of the jobs. Promises: every transaction is bounded and confirms a
lease; if the process ends in between, readers see nothing of the jobs, and the next removal deletes the rest. Does not
know why jobs are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from sqlalchemy import Engine

from lineage_store.ingest.lease import writing_under
from lineage_store.store import leases
from lineage_store.store.admin import partitioning
from lineage_store.store.catalog.policies import Expired
from lineage_store.store.leases import Lease
from lineage_store.store.writes import forgetting, removal

JOBS_AT_A_TIME, NAMED_AT_A_TIME = 200, 10_000
"""How many jobs one transaction takes out of sight, and how many one query for jobs to be removed returns at most."""


def take_out_of_sight(engine: Engine, lead: Lease, leaving: Lease, named: Sequence[Expired]) -> list[Expired]:
    """Take those of the `named` jobs out of sight that have not changed since they were named; return them.

    Args:
        lead: the lease of the base dir or of one shard; jobs of other shards are left alone.
        leaving: the lease of the base dir that holds what is being removed.

    Raises LeaseLostError.
    """
    mine = [job for job in named if lead.shards.hold(job.train_id)]
    with writing_under(engine, lead) as (connection, now):
        leases.confirm(connection, leaving)
        return removal.begin_unchanged(connection, lead.base_dir_id, leaving.base_dir_id, mine, now)


def remove_rows(
    engine: Engine,
    leaving: Lease,
    rows_at_a_time: int,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    rest: Callable[[float], None] = lambda _: None,
) -> None:
    """Delete the rows of what is leaving, and drop the partitions that are then empty. Raises LeaseLostError.

    Args:
        rest: called after each step with the number of seconds that the step took.
    """
    more = True
    while more:
        if should_stop():
            return
        began = monotonic()
        with writing_under(engine, leaving) as (connection, _):
            more = forgetting.remove_part(connection, leaving.base_dir_id, rows_at_a_time)
        rest(monotonic() - began)
    partitioning.drop_vacated(engine)
