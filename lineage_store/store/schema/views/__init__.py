"""The views that analysts rely on, in the order in which they are created and documented."""

from __future__ import annotations

from lineage_store.store.schema.views.ingest import INGEST_VIEWS
from lineage_store.store.schema.views.jobs import JOB_VIEWS
from lineage_store.store.schema.views.metrics import METRIC_VIEWS
from lineage_store.store.schema.views.model import View
from lineage_store.store.schema.views.samples import SAMPLE_VIEWS

VIEWS: tuple[View, ...] = JOB_VIEWS + METRIC_VIEWS + SAMPLE_VIEWS + INGEST_VIEWS
