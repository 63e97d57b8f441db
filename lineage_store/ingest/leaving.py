"""Jobs leave the store: out of sight in short transactions, then their rows in bounded steps.

In: an engine, leases, jobs that policies name. Out: nothing of them but tombstones. Promises: every transaction
confirms a lease; whoever is ended in between leaves nothing that readers see, and what is left goes with the next
removal. Does not know why jobs go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from sqlalchemy import Engine

from lineage_store.store import leases
from lineage_store.store.admin import partitioning
from lineage_store.store.catalog.policies import Expired
from lineage_store.store.database.engine import writing
from lineage_store.store.leases import Lease
from lineage_store.store.writes import forgetting, removal

JOBS_AT_A_TIME, NAMED_AT_A_TIME = 200, 10_000
"""Of a transaction; and of a question which jobs are to go, which may take long."""


def take_out_of_sight(engine: Engine, lead: Lease, leaving: Lease, named: Sequence[Expired]) -> list[Expired]:
    """Take those jobs of a base dir out of sight that have not changed since they were named; which these are.

    By the leases of the base dir, or of the jobs' shard, and of the one that holds what is leaving. Raises
    LeaseLostError.
    """
    mine = [job for job in named if lead.shards.hold(job.train_id)]
    with writing(engine) as connection:
        now = leases.confirm(connection, lead)
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
    """Remove the rows of what is leaving, and the partitions that it has vacated. Raises LeaseLostError.

    `rest` is told after each step how many seconds it took.
    """
    more = True
    while more:
        if should_stop():
            return
        began = monotonic()
        with writing(engine) as connection:
            leases.confirm(connection, leaving)
            more = forgetting.remove_part(connection, leaving.base_dir_id, rows_at_a_time)
        rest(monotonic() - began)
    partitioning.drop_vacated(engine)
