"""The samples of a job: scalars are read from the database, payloads from the log files to which it points."""

from lineage_store.eventlog.payload_files import PayloadSource
from lineage_store.query.samples.buckets import Curve, curves
from lineage_store.query.samples.payloads import (
    Choose,
    HistogramSummary,
    PayloadSample,
    Recorded,
    count_payloads,
    payloads,
    recorded_payloads,
    recorded_scalars,
)
from lineage_store.query.samples.scalars import (
    Scalars,
    Series,
    find_scalars,
    scalars,
    step_bounds,
    tags,
)

__all__ = [
    "Choose",
    "Curve",
    "HistogramSummary",
    "PayloadSample",
    "PayloadSource",
    "Recorded",
    "Scalars",
    "Series",
    "count_payloads",
    "curves",
    "find_scalars",
    "payloads",
    "recorded_payloads",
    "recorded_scalars",
    "scalars",
    "step_bounds",
    "tags",
]
