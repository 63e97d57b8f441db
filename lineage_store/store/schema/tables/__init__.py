"""The tables: every column has a comment that says what it means, in the words of the glossary.

In: nothing. Out: one SQLAlchemy `MetaData`, from which migrations, documentation and statements are made. Import all
tables from here.
Promises: the primary key and the unique constraints of every table whose rows belong to a job begin with the job, so
that the table can be partitioned or distributed by job; log files and series are numbered within their job.
Does not know views (views/), nor how rows are written (ingest) or read (query).
"""

from __future__ import annotations

from lineage_store.store.schema.tables.jobs import (
    ANNOTATED,
    CURRENT_FILE,
    SAID,
    STATISTICS,
    annotation,
    base_dir,
    log_file,
    of_file,
    removal,
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
    SAMPLE_TABLES,
    SAMPLES_OF,
    payload_sample,
    scalar_bucket,
    scalar_sample,
    series,
)
from lineage_store.store.schema.tables.shared import exists_on, in_file, in_series, metadata
