"""`LineageStore`: an open store, the façade of ingest, query and operations.

Does not know SQL nor log formats: it opens transactions and calls ingest, query and operations. Importing this class
loads neither SQLAlchemy nor NumPy: methods import what they call, so that a program waits only for what it uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lineage_store.api.changes import Following
from lineage_store.api.exports import Exports
from lineage_store.api.metrics import metrics_at
from lineage_store.api.paths import PathLike, absolute_path, real_path
from lineage_store.api.tables import Tables

if TYPE_CHECKING:
    from lineage_store.config import Settings
    from lineage_store.ingest.plan import IngestPlan
    from lineage_store.ingest.report import IngestReport, Progress


class LineageStore(Tables, Following, Exports):
    """A lineage store: a SQLite file or a PostgreSQL database.

    Args:
        url: database URL. None: the setting `database_url` (environment, configuration file), else a SQLite file in
            the user's state directory. The hot standby of the setting `read_database_url` answers questions if it has
            everything that this store has written, or if the primary does not answer.
        settings: all settings, in place of those from environment and configuration file.
        create: whether to make a store in a missing or empty database; otherwise that is an error.
        read_only: never write, create or upgrade anything, neither in the database nor in a file (except the two files
            that SQLite itself puts beside its database). A role that may only read suffices, and so does a PostgreSQL
            standby. Methods that write raise ReadOnlyStoreError.

    Threads may share a store; it opens `pool_size` connections at most.

    Raises:
        ConfigError, UnsafeStoreLocationError: the URL or a setting cannot be used.
        SchemaTooOldError, SchemaTooNewError, NotAStoreError: the database does not fit this version.
        PermissionDeniedError: the role or user may not read the database.
        DatabaseUnavailableError: the database is unreachable or locked, or there is no such file. With a standby, the
            store opens, and methods that need the primary raise this.
    """

    def ingest(
        self,
        base_dir: PathLike,
        *,
        progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> IngestReport:
        """Bring one base dir up to date: read the new contents of its log files.

        Args:
            base_dir: the directory of the job directories.
            progress: called after every transaction.
            should_stop: called between transactions; True ends early, and everything read so far stays stored.

        Raises:
            LineageParamSummaryPathError: `base_dir` is no directory, cannot be listed, or overlaps with a base dir of
                the store.
            LeaseHeldError: a daemon (which does this work) or another ingester leads this base dir.
            ReadOnlyStoreError: the store is open for reading only.
            DatabaseUnavailableError: the database failed; call again, nothing is lost or duplicated.
            LineageStoreError: the disk of the base dir does not answer; call again when it does.
        """
        from lineage_store.ingest import refresh

        path = real_path(base_dir)
        with self._named_failures():
            return refresh.ingest(
                self.engine, path, self.settings, progress=progress, should_stop=should_stop
            )

    def plan(self, base_dir: PathLike) -> IngestPlan:
        """Return what `ingest` would do, without doing it."""
        from lineage_store.ingest.plan import plan

        return plan(self.engine, real_path(base_dir), self.settings)

    def run_daemon(
        self,
        base_dirs: Sequence[PathLike] = (),
        *,
        stop: threading.Event | None = None,
        reload: Callable[[], Settings] | None = None,
    ) -> None:
        """Follow base dirs (none given: those of the settings) until SIGTERM, SIGINT or `stop`; then return.

        On SIGHUP, the settings become those that `reload` returns; if it raises ConfigError, the error is logged and
        the old settings stay. With the setting `metrics_port`, `http://127.0.0.1:PORT/metrics` serves metrics to
        Prometheus; with `notify_url` or `notify_command`, events are sent there.

        Raises ConfigError when there is no base dir to follow, or the port cannot be used. Ends the whole process with
        exit code 7 when a base dir makes no progress for `progress_deadline_s`: run it in a process of its own, under a
        supervisor that restarts it.
        """
        from lineage_store.ingest.daemon import scheduler
        from lineage_store.ingest.daemon.crew import Wanted
        from lineage_store.operations.notify.notifier import notifying
        from lineage_store.operations.notify.plan import plan_of

        def wanted(settings: Settings) -> Wanted:
            return Wanted(tuple(map(absolute_path, base_dirs or settings.base_dirs)), settings)

        unsafe = self.settings.allow_network_filesystem
        with (
            metrics_at(self.settings.metrics_port, self.measures),
            notifying(self.engine, plan_of(self.settings), allow_network_filesystem=unsafe) as notifier,
        ):

            def again(reload: Callable[[], Settings]) -> Wanted:
                settings = reload()
                found, plan = wanted(settings), plan_of(settings)
                notifier.use(plan)
                return found

            scheduler.run(
                self.engine, wanted(self.settings), stop, partial(again, reload) if reload else None
            )
