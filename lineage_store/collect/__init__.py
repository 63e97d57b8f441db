"""Write the values and lineage of a training into log files: SummaryRecord, and callbacks that use it.

In: values, networks and run contexts of a training. Out: log files as MindSpore 2.10 writes them, which MindInsight,
MindStudio and lineage_store read. Promises: names are imported when they are first used; importing this package imports
neither MindSpore nor the store; SummaryRecord and collect_environment work without MindSpore. Does not know the store.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_store.collect.callbacks import SummaryStep as SummaryStep
    from lineage_store.collect.collector import SummaryCollector as SummaryCollector
    from lineage_store.collect.environment import collect_environment as collect_environment
    from lineage_store.collect.lineage_callbacks import EvalLineage as EvalLineage
    from lineage_store.collect.lineage_callbacks import TrainLineage as TrainLineage
    from lineage_store.collect.record import SummaryRecord as SummaryRecord

_HOMES = {
    "SummaryRecord": "record",
    "SummaryCollector": "collector",
    "TrainLineage": "lineage_callbacks",
    "EvalLineage": "lineage_callbacks",
    "SummaryStep": "callbacks",
    "collect_environment": "environment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mindspore":
            raise
        message = (
            f"{name} is a callback of MindSpore's, which is not installed here; SummaryRecord works without."
        )
        raise ImportError(message, name=error.name) from error


def __dir__() -> list[str]:
    return sorted(_HOMES)
