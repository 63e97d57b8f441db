"""The samples of a job: scalars from the database, payloads from the log files that the database points to."""

from lineage_store.query.samples.payloads import HistogramSummary, PayloadSample, payloads
from lineage_store.query.samples.scalars import Scalars, scalars
from lineage_store.query.samples.series import tags

__all__ = ["HistogramSummary", "PayloadSample", "Scalars", "payloads", "scalars", "tags"]
