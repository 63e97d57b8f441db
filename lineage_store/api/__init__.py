"""The Python API: `LineageStore`, MindInsight's two functions, and functions that need no open store.

In: paths, conditions, tags. Out: plain dicts in MindInsight's shapes, frozen rows, numpy arrays, tables.
Promises: a wrong argument raises an error of errors.py that says what to do, and changes nothing; MindInsight's two
functions read new lineage first. The command line and the server use the store only through this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_store.api.job import Job
from lineage_store.api.mindinsight import (
    answer_of,
    filter_summary_lineage,
    get_summary_lineage,
    known_base_dirs,
    refreshed_page,
)
from lineage_store.api.store import LineageStore
from lineage_store.paths import PathLike
from lineage_store.query.condition_text import combined, counts_from_now, read_removal
from lineage_store.store.catalog.refs import JobUrl, no_such_key
from lineage_store.store.opened import asked_again

if TYPE_CHECKING:
    from lineage_store.store.database.db import Cancellation

__all__ = [
    "Cancellation",
    "Job",
    "JobUrl",
    "LineageStore",
    "PathLike",
    "answer_of",
    "asked_again",
    "combined",
    "counts_from_now",
    "filter_summary_lineage",
    "get_summary_lineage",
    "known_base_dirs",
    "no_such_key",
    "read_removal",
    "refreshed_page",
]


if (
    not TYPE_CHECKING
):  # SQLAlchemy is loaded by whoever wants to cancel a question, not by each import of the store

    def __getattr__(name: str) -> object:
        if name != "Cancellation":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from lineage_store.store.database.db import Cancellation

        return Cancellation
