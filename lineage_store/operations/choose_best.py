"""Choose the best results of jobs again, after the setting `less_is_better` was changed.

In: an engine, settings. Out: the number of jobs whose best result is another now. Promises: log files are not read;
only jobs whose best result changes are written, in batches, and listed as changed; after an interruption, running it
again does the rest.
"""

from __future__ import annotations

from sqlalchemy import Engine

from lineage_store.config import Settings
from lineage_store.fields import less_is_better
from lineage_store.ingest.lease import hold_lease
from lineage_store.store import leases
from lineage_store.store.catalog import bests, registry
from lineage_store.store.database.engine import reading, writing
from lineage_store.store.writes import revisions
from lineage_store.store.writes.summaries import rewrite_summaries

JOBS_AT_A_TIME = 500


def choose_best(engine: Engine, settings: Settings) -> int:
    """Update every job whose best results are not as the settings say; return their number.

    Raises LeaseHeldError if an ingester other than a daemon leads a base dir.
    """
    is_less = less_is_better(settings.less_is_better)
    with reading(engine) as connection:
        metrics = [metric for metric, _ in bests.chosen_otherwise(connection, is_less)]
        places = registry.base_dirs(connection) if metrics else []
    count = 0
    for base_dir_id, _ in places:
        with hold_lease(engine, base_dir_id, settings.lease_s, mode="once", before_daemons=True) as lease:
            with reading(engine) as connection:
                jobs = sorted(bests.jobs_chosen_otherwise(connection, base_dir_id, metrics, is_less))
            for first in range(0, len(jobs), JOBS_AT_A_TIME):
                some = jobs[first : first + JOBS_AT_A_TIME]
                with writing(engine) as connection:
                    leases.confirm(connection, lease)
                    rewrite_summaries(connection, some, is_less)
                    revisions.stamp(connection, base_dir_id, some)
            count += len(jobs)
    return count
