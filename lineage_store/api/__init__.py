"""The Python API: `LineageStore`, MindInsight's two functions, and functions that need no open store.

In: paths, conditions, tags. Out: plain dicts in MindInsight's shapes, frozen rows, numpy arrays, tables.
Promises: a wrong argument raises an error of errors.py that says what to do, and changes nothing; MindInsight's two
functions read new lineage first. The command line and the server use the store only through this package.
"""

from __future__ import annotations

from lineage_store.api.mindinsight import (
    answer_of,
    filter_summary_lineage,
    get_summary_lineage,
    refreshed_page,
)
from lineage_store.api.store import LineageStore, find_job
from lineage_store.paths import PathLike, place_of, real_path
from lineage_store.query.condition_text import combined, counts_from_now, read_removal
from lineage_store.store.database.cancelling import Cancellation
from lineage_store.store.opened import asked_again

__all__ = [
    "Cancellation",
    "LineageStore",
    "PathLike",
    "answer_of",
    "asked_again",
    "combined",
    "counts_from_now",
    "filter_summary_lineage",
    "find_job",
    "get_summary_lineage",
    "place_of",
    "read_removal",
    "real_path",
    "refreshed_page",
]
