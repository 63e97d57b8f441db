"""The types of arguments and results of `LineageStore`: for annotations, and to make an argument (`CleanUp`)."""

from __future__ import annotations

from lineage_store.finding_kinds import Severity as Severity
from lineage_store.findings import Finding as Finding
from lineage_store.ingest.daemon.status_file import DaemonStatus as DaemonStatus
from lineage_store.ingest.report import IngestReport as IngestReport
from lineage_store.ingest.report import Progress as Progress
from lineage_store.ingest.scan.survey import IngestPlan as IngestPlan
from lineage_store.operations.health import Measures as Measures
from lineage_store.operations.removal import CleanUp as CleanUp
from lineage_store.operations.removal import ExpiredJob as ExpiredJob
from lineage_store.operations.removal import LongSeries as LongSeries
from lineage_store.operations.removal import RemovableJob as RemovableJob
from lineage_store.operations.removal import Removal as Removal
from lineage_store.operations.removal import RemovalPlan as RemovalPlan
from lineage_store.operations.removal import RemovedJob as RemovedJob
from lineage_store.operations.removal import Restored as Restored
from lineage_store.operations.removal import ThinTotal as ThinTotal
from lineage_store.operations.removal import Total as Total
from lineage_store.operations.removal import total as total
from lineage_store.operations.repair import Reread as Reread
from lineage_store.operations.verify import FileVerdict as FileVerdict
from lineage_store.operations.why import Verdict as Verdict
from lineage_store.query.changes import Change as Change
from lineage_store.query.changes import ChangeKind as ChangeKind
from lineage_store.query.changes import Changes as Changes
from lineage_store.query.export.exporting import ExportedFile as ExportedFile
from lineage_store.query.export.exporting import ExportProgress as ExportProgress
from lineage_store.query.export.exporting import ExportReport as ExportReport
from lineage_store.query.jobs import Columns as Columns
from lineage_store.query.jobs import JobPage as JobPage
from lineage_store.query.jobs import JobRow as JobRow
from lineage_store.query.samples import Curve as Curve
from lineage_store.query.samples import PayloadSample as PayloadSample
from lineage_store.query.samples import PayloadSource as PayloadSource
from lineage_store.query.samples import Recorded as Recorded
from lineage_store.query.status import Backlog as Backlog
from lineage_store.query.status import JobContents as JobContents
from lineage_store.query.status import JobReport as JobReport
from lineage_store.query.status import StoreStatus as StoreStatus
from lineage_store.query.table import Table as Table
from lineage_store.store.admin.obstacles import WriteAheadLog as WriteAheadLog
from lineage_store.store.admin.read_only_sql import Answer as Answer
from lineage_store.store.database.standby import Replay as Replay
from lineage_store.store.writes.removal import Holdings as Holdings
