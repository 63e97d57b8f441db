"""The types of arguments and results of `LineageStore`: for annotations, and to make an argument (`CleanUp`)."""

from __future__ import annotations

from lineage_store.finding_kinds import Severity
from lineage_store.findings import Finding
from lineage_store.ingest.daemon.status_file import DaemonStatus
from lineage_store.ingest.plan import IngestPlan
from lineage_store.ingest.report import IngestReport, Progress
from lineage_store.operations.measures import Measures
from lineage_store.operations.policies import ExpiredJob, LongSeries, ThinTotal
from lineage_store.operations.remove import CleanUp, RemovableJob, RemovedJob, Total, total
from lineage_store.operations.reread import Reread
from lineage_store.operations.verify.verifying import FileVerdict
from lineage_store.operations.why import Verdict
from lineage_store.query.changes import Change, ChangeKind, Changes
from lineage_store.query.contents import JobContents
from lineage_store.query.export.directory import ExportedFile
from lineage_store.query.export.exporting import ExportProgress, ExportReport
from lineage_store.query.jobs import TrainJob
from lineage_store.query.samples import Curve, PayloadSample, Recorded
from lineage_store.query.search.columns import JobColumns
from lineage_store.query.status import JobReport, StoreStatus
from lineage_store.query.table import Table
from lineage_store.store.admin.read_only_sql import Answer
from lineage_store.store.admin.replay import Replay
from lineage_store.store.admin.wal import WriteAheadLog
from lineage_store.store.writes.forgetting import Holdings

__all__ = [
    "Answer",
    "Change",
    "ChangeKind",
    "Changes",
    "CleanUp",
    "Curve",
    "DaemonStatus",
    "ExpiredJob",
    "ExportProgress",
    "ExportReport",
    "ExportedFile",
    "FileVerdict",
    "Finding",
    "Holdings",
    "IngestPlan",
    "IngestReport",
    "JobColumns",
    "JobContents",
    "JobReport",
    "LongSeries",
    "Measures",
    "PayloadSample",
    "Progress",
    "Recorded",
    "RemovableJob",
    "RemovedJob",
    "Replay",
    "Reread",
    "Severity",
    "StoreStatus",
    "Table",
    "ThinTotal",
    "Total",
    "TrainJob",
    "Verdict",
    "WriteAheadLog",
    "total",
]
