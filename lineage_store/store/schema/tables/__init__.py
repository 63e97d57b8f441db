"""The tables, written to be read: every column says what it means, in the words of the glossary.

In: nothing. Out: one SQLAlchemy `MetaData`, from which migrations, documentation and statements are made; all that is
named here is imported from here.
Promises: whatever hangs on a job has keys that begin with the job, and is unique by nothing else, so that it can be
partitioned or distributed by job; log files and series are numbered within their job. Readers see rows of current
files.
Does not know: views (views/), how rows come (ingest) or are asked for (query).
"""

from __future__ import annotations

from lineage_store.store.schema.tables.columns import exists_on, metadata
from lineage_store.store.schema.tables.jobs import (
    CURRENT_FILE,
    STATISTICS,
    annotation,
    base_dir,
    log_file,
    of_file,
    tombstone,
    train_job,
)
from lineage_store.store.schema.tables.lineages import (
    dataset_graph,
    dataset_node,
    evaluation_metric,
    file_lineage,
    lineage,
    lineage_event,
    metric,
    metric_summary,
    user_info,
)
from lineage_store.store.schema.tables.operations import (
    ingest_cycle,
    ingest_lease,
    ingest_problem,
    ingest_total,
    notified,
    notifier,
)
from lineage_store.store.schema.tables.samples import (
    HALF_OF_IDS,
    HALF_USED,
    payload_sample,
    samples_of,
    scalar_bucket,
    scalar_sample,
    series,
)

__all__ = [
    "CURRENT_FILE",
    "HALF_OF_IDS",
    "HALF_USED",
    "STATISTICS",
    "annotation",
    "base_dir",
    "dataset_graph",
    "dataset_node",
    "evaluation_metric",
    "exists_on",
    "file_lineage",
    "ingest_cycle",
    "ingest_lease",
    "ingest_problem",
    "ingest_total",
    "lineage",
    "lineage_event",
    "log_file",
    "metadata",
    "metric",
    "metric_summary",
    "notified",
    "notifier",
    "of_file",
    "payload_sample",
    "samples_of",
    "scalar_bucket",
    "scalar_sample",
    "series",
    "tombstone",
    "train_job",
    "user_info",
]
