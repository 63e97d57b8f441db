"""The Python API: `LineageStore`, and MindInsight's two functions.

In: paths, conditions, tags. Out: plain dicts in MindInsight's shapes, frozen rows, numpy arrays.
Promises: what is asked wrongly raises an error of errors.py that says what to do, and changes nothing; methods of the
store never touch log files except `ingest`, the daemon and the reading of payloads; the two functions refresh lineage
first. Knows no SQL and no log format: it opens transactions and calls ingest and query.
"""

from __future__ import annotations

from lineage_store.api.paths import PathLike, real_path
from lineage_store.api.seeds import filter_summary_lineage, get_summary_lineage
from lineage_store.api.store import LineageStore

__all__ = ["LineageStore", "PathLike", "filter_summary_lineage", "get_summary_lineage", "real_path"]
