"""The samples of a job: scalars from the database, payloads from the log files that the database points to."""

from lineage_store.query.samples.payloads import HistogramSummary, PayloadSample, payloads
from lineage_store.query.samples.recorded import Recorded, recorded_payloads, recorded_scalars
from lineage_store.query.samples.scalars import Scalars, scalars
from lineage_store.query.samples.series import tags

__all__ = [
    "HistogramSummary",
    "PayloadSample",
    "Recorded",
    "Scalars",
    "payloads",
    "recorded_payloads",
    "recorded_scalars",
    "scalars",
    "tags",
]
