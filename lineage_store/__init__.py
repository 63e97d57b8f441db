"""lineage_store: stores what MindSpore trainings wrote into their log files in SQL, and answers questions about it.

Public names are imported when they are first used: `import lineage_store` alone is cheap, and never imports
MindSpore, Alembic or APScheduler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lineage_store.api import LineageStore, filter_summary_lineage, get_summary_lineage
    from lineage_store.collect import EvalLineage, SummaryCollector, SummaryRecord, TrainLineage
    from lineage_store.errors import (
        AlteredStoreError,
        BookmarkMovedError,
        Cause,
        ClockDisagreesError,
        ConfigError,
        DatabaseUnavailableError,
        ExitCode,
        InvalidTagError,
        LeaseHeldError,
        LeaseLostError,
        LineageFileNotFoundError,
        LineageGetModelFileError,
        LineageLogError,
        LineageParamMissingError,
        LineageParamRaiseExceptionError,
        LineageParamRunContextError,
        LineageParamSummaryPathError,
        LineageParamSummaryRecordError,
        LineageParamTypeError,
        LineageParamValueError,
        LineageQuerySummaryDataError,
        LineageSearchConditionParamError,
        LineageStoreError,
        LogDirectoryError,
        MindInsightException,
        NotAStoreError,
        PayloadTooCostlyError,
        PayloadUnavailableError,
        PermissionDeniedError,
        ReadOnlyStoreError,
        RecorderInUseError,
        RequestRefusedError,
        SampleNotFoundError,
        SchemaTooNewError,
        SchemaTooOldError,
        TrainJobNotFoundError,
        UnfinishedCopyError,
        UnknownFormatError,
        UnsafeStoreLocationError,
    )

__version__ = "0.1.0"
__all__ = [
    "AlteredStoreError",
    "BookmarkMovedError",
    "Cause",
    "ClockDisagreesError",
    "ConfigError",
    "DatabaseUnavailableError",
    "EvalLineage",
    "ExitCode",
    "InvalidTagError",
    "LeaseHeldError",
    "LeaseLostError",
    "LineageFileNotFoundError",
    "LineageGetModelFileError",
    "LineageLogError",
    "LineageParamMissingError",
    "LineageParamRaiseExceptionError",
    "LineageParamRunContextError",
    "LineageParamSummaryPathError",
    "LineageParamSummaryRecordError",
    "LineageParamTypeError",
    "LineageParamValueError",
    "LineageQuerySummaryDataError",
    "LineageSearchConditionParamError",
    "LineageStore",
    "LineageStoreError",
    "LogDirectoryError",
    "MindInsightException",
    "NotAStoreError",
    "PayloadTooCostlyError",
    "PayloadUnavailableError",
    "PermissionDeniedError",
    "ReadOnlyStoreError",
    "RecorderInUseError",
    "RequestRefusedError",
    "SampleNotFoundError",
    "SchemaTooNewError",
    "SchemaTooOldError",
    "SummaryCollector",
    "SummaryRecord",
    "TrainJobNotFoundError",
    "TrainLineage",
    "UnfinishedCopyError",
    "UnknownFormatError",
    "UnsafeStoreLocationError",
    "__version__",
    "filter_summary_lineage",
    "get_summary_lineage",
]

_HOMES = dict.fromkeys(("LineageStore", "filter_summary_lineage", "get_summary_lineage"), "api")
_HOMES |= dict.fromkeys(("EvalLineage", "SummaryCollector", "SummaryRecord", "TrainLineage"), "collect")
"""The packages of public names that are no errors."""

if not TYPE_CHECKING:  # a type checker knows the names above, and refuses others

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'lineage_store' has no attribute {name!r}")
        return getattr(importlib.import_module(f"lineage_store.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return __all__
