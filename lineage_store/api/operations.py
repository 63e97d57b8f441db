"""What those who run a store ask of it: how it stands, what is wrong and how to mend it, what may go.

In: an open LineageStore. Out: frozen reports. Promises: names and paths are as people write them; what an operation
changes is said by its name and its docstring. Stands beside `api`, which is for those who ask about trainings.
"""

from __future__ import annotations

from lineage_store.api.base_dirs import base_dirs_with
from lineage_store.api.cleaning import (
    CleanUp,
    RemovableJob,
    RemovedJob,
    Total,
    removable_jobs,
    remove_jobs,
    removed_jobs,
    restore_job,
    total,
)
from lineage_store.api.health import concerns, concerns_without_database, daemons
from lineage_store.api.repair import cycles, problems, problems_below, reingest, retry
from lineage_store.api.state import forget, holdings, job_report, publish, sql, status, why, write_ahead_log
from lineage_store.api.verifying import verify

__all__ = [
    "CleanUp",
    "RemovableJob",
    "RemovedJob",
    "Total",
    "base_dirs_with",
    "concerns",
    "concerns_without_database",
    "cycles",
    "daemons",
    "forget",
    "holdings",
    "job_report",
    "problems",
    "problems_below",
    "publish",
    "reingest",
    "removable_jobs",
    "remove_jobs",
    "removed_jobs",
    "restore_job",
    "retry",
    "sql",
    "status",
    "total",
    "verify",
    "why",
    "write_ahead_log",
]
