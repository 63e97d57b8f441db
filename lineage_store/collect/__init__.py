"""Write what a training does into log files: SummaryRecord, the callbacks over it, and nothing of the store.

In: values, networks and run contexts of a training. Out: log files as MindSpore 2.10 writes them, which MindInsight,
MindStudio and lineage_store read. Names are imported when they are first used. Promises: importing this package
imports neither MindSpore nor the store, and SummaryRecord works without MindSpore.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_store.collect.collector import SummaryCollector as SummaryCollector
    from lineage_store.collect.lineage import EvalLineage as EvalLineage
    from lineage_store.collect.lineage import TrainLineage as TrainLineage
    from lineage_store.collect.record import SummaryRecord as SummaryRecord

_HOMES = {
    "SummaryRecord": "record",
    "SummaryCollector": "collector",
    "TrainLineage": "lineage",
    "EvalLineage": "lineage",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
