"""lineage_store: stores what MindSpore trainings wrote into their log files in SQL, and answers questions about it.

Public names are imported when they are first used: `import lineage_store` alone is cheap, and never imports
MindSpore, Alembic or APScheduler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_store.api import LineageStore as LineageStore
    from lineage_store.api import filter_summary_lineage as filter_summary_lineage
    from lineage_store.api import get_summary_lineage as get_summary_lineage
    from lineage_store.collect import EvalLineage as EvalLineage
    from lineage_store.collect import SummaryCollector as SummaryCollector
    from lineage_store.collect import SummaryRecord as SummaryRecord
    from lineage_store.collect import TrainLineage as TrainLineage
    from lineage_store.errors import *  # noqa: F403

__version__ = "0.1.0"

_API = ("LineageStore", "filter_summary_lineage", "get_summary_lineage")
_COLLECT = ("EvalLineage", "SummaryCollector", "SummaryRecord", "TrainLineage")


def __getattr__(name: str) -> Any:
    errors = importlib.import_module("lineage_store.errors")
    if name in _API:
        return getattr(importlib.import_module("lineage_store.api"), name)
    if name in _COLLECT:
        return getattr(importlib.import_module("lineage_store.collect"), name)
    if name in errors.__all__:
        return getattr(errors, name)
    raise AttributeError(f"module 'lineage_store' has no attribute {name!r}")


def __dir__() -> list[str]:
    errors = importlib.import_module("lineage_store.errors")
    return sorted([*_API, *_COLLECT, *errors.__all__, "__version__"])
