"""`LineageStore`: an open store with its nouns, of which `Lineage` is here.

Does not know SQL nor log formats: a method has the public documentation, and calls ingest, query or operations.
Importing this class loads neither SQLAlchemy nor NumPy: methods import what they call, so that a program waits only for
what it uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar, Unpack

from lineage_store.errors import (
    LineageParamValueError,
    LineageSearchConditionParamError,
    SampleNotFoundError,
    TrainJobNotFoundError,
)
from lineage_store.paths import PathLike, absolute_path, real_path
from lineage_store.query.export.file_formats import FORMATS
from lineage_store.states import JobState, Outcome
from lineage_store.store.catalog import refs
from lineage_store.store.catalog.refs import stored_id
from lineage_store.store.opened import Opened, asked_again
from lineage_store.texts import check_text, shown

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from lineage_store.api.job import Chosen, Job
    from lineage_store.config import Settings
    from lineage_store.ingest.report import IngestReport, Progress
    from lineage_store.ingest.scan.survey import IngestPlan
    from lineage_store.operations.base_dirs import BaseDirs
    from lineage_store.operations.health import Health
    from lineage_store.operations.removal import Removal
    from lineage_store.operations.repair import Repair
    from lineage_store.query import samples
    from lineage_store.query.changes import Changes
    from lineage_store.query.condition import SearchCondition
    from lineage_store.query.export.exporting import ExportProgress, ExportReport
    from lineage_store.query.job_sql import Want
    from lineage_store.query.jobs import Columns, Explanation, JobPage, JobRow
    from lineage_store.query.status import JobContents
    from lineage_store.query.table import Table
    from lineage_store.store.admin.read_only_sql import Answer
    from lineage_store.store.catalog.refs import JobLike, JobsLike
    from lineage_store.store.database.sql import Session

T = TypeVar("T")
EXPORT_FORMATS = tuple(FORMATS)
LISTED_JOBS = 1_000
MOST_POINTS = 100_000
SQL_TIMEOUT_S = 60.0
"""How long a statement of the user may take until its first row, unless they say."""


class LineageStore:
    """A lineage store: a SQLite file or a PostgreSQL database. Threads may share it.

    Args:
        url: database URL. None: the setting `database_url` (environment, configuration file), else a SQLite file in
            the user's state directory. The hot standby of the setting `read_database_url` answers questions if it has
            everything that this store has written, or if the primary does not answer.
        settings: all settings, in place of those from environment and configuration file.
        create: whether to make a store in a missing or empty database; otherwise that is an error.
        read_only: never write, create or upgrade anything, neither in the database nor in a file (except the two files
            that SQLite itself puts beside its database). A role that may only read suffices, and so does a PostgreSQL
            standby. Methods that write raise ReadOnlyStoreError.

    It opens `pool_size` connections at most. What it can do is spread over its nouns: `lineage`, `base_dirs`,
    `changes`, `health`, `repair` and `removal`. Any of their methods, and of this class, may raise
    LineageQuerySummaryDataError when the database fails; its subclass DatabaseUnavailableError says why.

    Raises:
        ConfigError, UnsafeStoreLocationError: the URL or a setting cannot be used.
        SchemaTooOldError, SchemaTooNewError, NotAStoreError: the database does not fit this version.
        PermissionDeniedError: the role or user may not read the database.
        DatabaseUnavailableError: the database is unreachable or locked, or there is no such file. With a standby, the
            store opens, and methods that need the primary raise this.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> None:
        self.opened = Opened(url, settings=settings, create=create, read_only=read_only)
        """Its settings, its URL without a password, its connections, and `snapshot()`."""

    def close(self) -> None:
        """Close the database connections; a connection in use by another thread closes when that thread is done."""
        self.opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LineageStore({self.opened.url!r})"

    @property
    def engine(self) -> Engine:
        """The primary's SQLAlchemy engine, for SQL of your own; the views are the contract, the tables are not.

        Raises if its schema does not fit, or if it does not answer the first check of that.
        """
        return self.opened.engine

    # --- nouns ------------------------------------------------------------------------------------------------------

    @property
    def lineage(self) -> Lineage:
        """The lineage of jobs: in MindInsight's shapes, as columns, or as pages of jobs."""
        return Lineage(self.opened)

    @property
    def base_dirs(self) -> BaseDirs:
        """The base dirs: list, forget or move them."""
        from lineage_store.operations.base_dirs import BaseDirs

        return BaseDirs(self.opened)

    @property
    def removal(self) -> Removal:
        """Which jobs leave the store, by rules or by the policies of the settings, and how they come back."""
        from lineage_store.operations.removal import Removal

        return Removal(self.opened)

    @property
    def repair(self) -> Repair:
        """Problems of log files and jobs: list, explain, verify, and read again."""
        from lineage_store.operations.repair import Repair

        return Repair(self.opened)

    @property
    def health(self) -> Health:
        """How the store and its ingest stand."""
        from lineage_store.operations.health import Health

        return Health(self.opened)

    @property
    def changes(self) -> Changes:
        """What changes in the store, from token to token."""
        from lineage_store.query.changes import Changes

        return Changes(self.opened)

    # --- questions about jobs ---------------------------------------------------------------------------------------

    def jobs(
        self,
        condition: Mapping[str, Any] | None = None,
        *,
        columns: Sequence[str] | None = None,
        base_dir: PathLike | None = None,
        limit: int | None = None,
    ) -> Table:
        """Return the matching jobs, one per row: `.to_pandas()`, `.to_polars()`, `.to_arrow()`, `.rows`.

        Jobs without lineage are included, unless the condition has an order.

        Args:
            condition: the documented search_condition, whose paging keys are ignored; None for all jobs.
            columns: `base_dir`, `summary_dir`, `state`, `outcome`, `tag`, `remark`, `host`, `first_started_at`,
                `last_started_at`, `last_event_at`, `updated_at`, fields, `metric/NAME`, `metric_best/NAME`,
                `metric_first/NAME`, `user_defined/NAME`. None: the columns of every job, MindInsight's fields, and
                those of the hundred most frequent metrics and of the hundred most frequent user-defined values of
                which a returned job has a value.
            base_dir: None for all base dirs.
            limit: the most jobs; None for all.

        Raises:
            LineageSearchConditionParamError, LineageParamValueError: the condition is refused, there is no such
                column, or no job has such a metric or user-defined value; the message names the closest.
            LineageParamSummaryPathError: the store does not know the base dir.
        """
        from lineage_store.query.comparison import job_table
        from lineage_store.store.database.db import Page

        wanted, page = checked(condition, base_dir), Page(limit)
        named = [columns] if isinstance(columns, str) else columns
        return self.opened.ask(
            lambda session: job_table(session, wanted, refs.ids(session, base_dir), named, page.limit)
        )

    def explain(
        self,
        condition: Mapping[str, Any] | None = None,
        *,
        base_dir: PathLike | None = None,
        count: bool = True,
    ) -> Explanation:
        """Return the SQL that `lineage.filter` runs, with parameters and the database's plans; print it to read it."""
        from lineage_store.query import jobs, mindinsight_shapes

        wanted = checked(condition, base_dir)
        want = mindinsight_shapes.want_of(wanted)
        return self.opened.ask(
            lambda session: jobs.explain(session, wanted, want, refs.ids(session, base_dir), count=count)
        )

    def names(self) -> dict[str, list[str]]:
        """Return the names of metrics and user-defined values by prefix, the most frequent first.

        The prefixes are `metric`, `metric_best`, `metric_first` and `user_defined`, without the slash.
        """
        from lineage_store.query.vocabulary import all_names

        return dict(self.opened.ask(all_names))

    def values(self, name: str, part: str = "", *, most: int = 100) -> list[tuple[Any, int]]:
        """Return the values of a field, `metric/NAME` or `user_defined/NAME`, each with the number of jobs.

        The `most` most frequent are returned, in this order. Of texts, only those that contain `part` are returned; the
        case of A to Z does not matter.

        Raises:
            LineageSearchConditionParamError: there is no such field.
            LineageParamTypeError, LineageParamValueError: `part` is no text, or `most` no whole number from 1.
        """
        from lineage_store.query.condition_dict import read_subject
        from lineage_store.query.vocabulary import known_values
        from lineage_store.store.database.db import check_count

        check_count("most", most)
        check_text("part", part)
        subject = read_subject(name)
        return self.opened.ask(lambda session: known_values(session, subject, part, most))

    def job(self, job: JobLike, *, base_dir: PathLike | None = None, removed: bool = False) -> Job:
        """Return a job, with methods that tell what the store knows of it; the first of them looks it up.

        A job is given by its directory, by its id ./name if one base dir has it, as (base dir, id), or as a row of
        `lineage.jobs`. What the store has by this text is found without the disk. Several jobs, for other methods, are
        a list of these, or a table from `jobs`, also after its conversion to pandas, polars or Arrow.

        Args:
            base_dir: where the job is, if it is given by its id.
            removed: also find a job that was removed from the store: `why` and `reingest` know what to do with it.

        The methods raise:
            TrainJobNotFoundError: the store knows no such job.
            LineageParamSummaryPathError: the store does not know the base dir, or several of them have such a job.
            LineageParamTypeError: this is nothing that names a job.
        """
        from lineage_store.api.job import Job

        return Job(self, job, base_dir, removed=removed)

    def compare(self, jobs: JobsLike, *, alike: bool = False) -> Table:
        """Return in what jobs differ: a row for each field, metric and user-defined value, a column for each job.

        Args:
            jobs: two or more.
            alike: also return the rows in which all jobs are equal.

        Raises:
            LineageParamValueError: there are fewer than two jobs.
            TrainJobNotFoundError, LineageFileNotFoundError: there is no such job, or it has no lineage.
        """
        from lineage_store.query.comparison import comparison

        def answer(session: Session) -> Table:
            found = refs.jobs(session, jobs)
            if len(found) < 2:
                raise LineageParamValueError("Name at least two jobs to compare.")
            return comparison(session, [ref.job_id for ref in found], alike=alike)

        return self.opened.ask(answer)

    def curves(
        self, jobs: JobsLike, tag: str, *, skip_unknown: bool = False, **chosen: Unpack[Chosen]
    ) -> Table:
        """Return every step of a scalar of several jobs as one long table: base_dir, summary_dir, step, wall_at, value.

        Args:
            start, stop, device: as for `Job.scalars`.
            skip_unknown: leave out unknown jobs, and jobs that have no such tag, instead of raising.

        Raises:
            TrainJobNotFoundError: there is no such job.
            SampleNotFoundError: there is no such tag; the error names close ones.
        """
        from lineage_store.query import samples
        from lineage_store.query.comparison import curve_table

        ignored = (TrainJobNotFoundError, SampleNotFoundError) if skip_unknown else ()

        def answer(session: Session) -> Table:
            found = []
            if skip_unknown:
                known = refs.known_among(session, refs.listed_jobs(jobs))
                wanted = list(dict.fromkeys(ref for ref in known if ref is not None))
            else:
                wanted = refs.jobs(session, jobs)
            for ref, name in zip(wanted, refs.job_names(session, wanted), strict=True):
                with suppress(*ignored):
                    found.append((name.place, samples.scalars(session, ref.job_id, tag, **chosen)))
            return curve_table(found)

        return self.opened.ask(answer)

    def buckets(
        self,
        tags: Sequence[tuple[JobLike, str]],
        *,
        start: int | None = None,
        stop: int | None = None,
        device: int | None = None,
        points: int = 1000,
        superseded: bool = False,
        skip_unknown: bool = False,
    ) -> list[samples.Curve]:
        """Return scalars for a screen: the curves of some tags on one grid of steps, without losing any spike.

        Args:
            tags: the job and the tag of each.
            start, stop, device: as for `Job.scalars`; but each device has a curve of its own.
            points: the most buckets of a curve, 2 to 100,000; a curve of up to twice as many samples is not divided
                into buckets.
            superseded: also return the samples that a restart wrote again, as curves of their own.
            skip_unknown: leave out unknown jobs and tags, instead of raising.

        Raises:
            LineageParamValueError: `points` is out of bounds.
            TrainJobNotFoundError: there is no such job.
            SampleNotFoundError: there is no such tag; the error names close ones.
        """
        from lineage_store.query import samples

        if not isinstance(points, int) or not 2 <= points <= MOST_POINTS:
            raise LineageParamValueError(
                f"points = {shown(points)} must be a whole number from 2 to {MOST_POINTS}."
            )
        first, end = samples.step_bounds(start, stop)
        given, names = [job for job, _ in tags], [tag for _, tag in tags]

        def answer(session: Session) -> list[samples.Curve]:
            known = refs.known_among(session, given) if skip_unknown else refs.each_job(session, given)
            wanted = [
                None if ref is None else (ref.job_id, tag) for ref, tag in zip(known, names, strict=True)
            ]
            found = samples.find_scalars(session, wanted, device, skip_unknown=skip_unknown)
            return samples.curves(session, found, first, end, points=points, superseded=superseded)

        return self.opened.ask(answer)

    @contextmanager
    def sql(self, statement: str, *, timeout_s: float = SQL_TIMEOUT_S) -> Iterator[Answer]:
        """Run one SQL statement that only reads; `.columns` and `.rows` of the answer are valid during the block.

        The first row may take `timeout_s`; there is no timeout for the rows that follow.
        """
        from lineage_store.store.admin import read_only_sql

        with ExitStack() as stack:

            @asked_again
            def begin() -> Answer:
                return stack.enter_context(
                    read_only_sql.run_statement(self.opened.read_engine, statement, timeout_s=timeout_s)
                )

            yield begin()

    def export(
        self,
        what: str | None = None,
        *,
        to: PathLike | BinaryIO,
        format: str = "parquet",  # noqa: A002 - what everybody calls it
        since: int | PathLike | None = None,
        timeout_s: float = SQL_TIMEOUT_S,
        progress: Callable[[ExportProgress], None] = lambda _: None,
    ) -> ExportReport:
        """Write views, or the answer to a statement, as files.

        Args:
            what: a view, or an SQL statement that only reads; None: all views, from one snapshot.
            to: a new or empty directory, which has a manifest.json once the export is complete; or a binary stream,
                which takes one view or statement, or the run events.
            format: parquet or arrow (with the extra `export`), csv, jsonl; openlineage: run events of jobs.
            since: a revision, or the directory or manifest.json of an earlier export: views about jobs and run events
                are restricted to jobs that changed behind it; other views are written whole.
            timeout_s: how long a statement may take until its first row.
            progress: called after every batch of rows.

        Raises:
            LineageParamTypeError, LineageParamValueError: there is no such view or format, the directory is not empty,
                or `since` is neither a revision nor an export.
            LineageStoreError: pyarrow is missing, or a statement's column holds values of several types.
            LineageQuerySummaryDataError: the database refuses the statement, or fails.
        """
        from lineage_store.query.export import exporting

        answers = partial(self.sql, timeout_s=timeout_s)
        return exporting.export(self.opened, answers, what, to, format, since, progress)

    # --- filling and keeping the store ------------------------------------------------------------------------------

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
            LeaseHeldError: a daemon (which does this work) or another ingester holds the lease of this base dir.
            ReadOnlyStoreError: the store is open for reading only.
            DatabaseUnavailableError: the database failed; call again, nothing is lost or duplicated.
            LineageStoreError: the disk of the base dir does not answer; call again when it does.
        """
        from lineage_store.ingest import pipeline

        path, settings = real_path(base_dir), self.opened.settings
        with self.opened.named_failures():
            return pipeline.ingest(self.engine, path, settings, progress=progress, should_stop=should_stop)

    def plan(self, base_dir: PathLike) -> IngestPlan:
        """Return what `ingest` would do, without doing it."""
        from lineage_store.ingest.scan.survey import plan_ingest

        return plan_ingest(self.engine, real_path(base_dir), self.opened.settings)

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
        from lineage_store.ingest.daemon.scheduler import Wanted
        from lineage_store.operations.delivery import plan_of
        from lineage_store.operations.health import metrics_at
        from lineage_store.operations.notifications import notifying

        def wanted(settings: Settings) -> Wanted:
            return Wanted(tuple(map(absolute_path, base_dirs or settings.base_dirs)), settings)

        given = self.opened.settings
        unsafe = given.allow_network_filesystem
        with (
            metrics_at(given.metrics_port, self.health.measures),
            notifying(self.engine, plan_of(given), allow_network_filesystem=unsafe) as notifier,
        ):

            def again(reload: Callable[[], Settings]) -> Wanted:
                settings = reload()
                found, plan = wanted(settings), plan_of(settings)
                notifier.use(plan)
                return found

            scheduler.run_daemon(self.engine, wanted(given), stop, partial(again, reload) if reload else None)

    def backup(
        self, file: PathLike, *, mode: int = 0o600, progress: Callable[[str], None] = lambda _: None
    ) -> int:
        """Write a backup of the store from one snapshot, check it, replace an older one; return its size in bytes.

        `mode`: the file's permissions; on SQLite the file is a store, which with 0o444 all users can read, and
        `progress` is called with such as "42%". On PostgreSQL the backup is an archive of `pg_dump -Fc`, which must be
        on the PATH. Raises LineageStoreError.
        """
        from lineage_store.operations.backup import backup

        return backup(self.engine, absolute_path(file), progress, mode=mode)


class Lineage:
    """The lineage of the jobs of a store: `store.lineage`.

    `condition` is the documented search_condition, None for all jobs. `base_dir` is one that the store knows, or None
    for all; otherwise LineageParamSummaryPathError is raised. A refused condition raises
    LineageSearchConditionParamError, whose message says why and what is allowed.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def filter(
        self,
        condition: Mapping[str, Any] | None = None,
        *,
        base_dir: PathLike | None = None,
        count: bool = True,
    ) -> dict[str, Any]:
        """Return the lineage of the matching jobs, in MindInsight's shape: `{"customized", "object", "count"}`.

        If there are several base dirs, and none is asked, each object names its own as `base_dir`.

        `count`: False leaves `count` None unless it follows from the page: among very many jobs, counting the matches
        takes much longer than finding a page.
        """
        from lineage_store.query import mindinsight_shapes

        wanted = checked(condition, base_dir)
        found = self.ask_page(wanted, mindinsight_shapes.want_of(wanted), base_dir, count=count)
        return mindinsight_shapes.answer(found, wanted)

    def page(
        self,
        condition: Mapping[str, Any] | None = None,
        names: Iterable[str] = (),
        *,
        base_dir: PathLike | None = None,
        count: bool = True,
    ) -> JobPage:
        """Return a page of the matching jobs as rows: all that the store knows of a job, and its lineage.

        Args:
            condition, base_dir, count: as for `filter`; `lineage_type` without `dataset` leaves out the graph.
            names: the names of further values, as for `columns`, such as `metric_best/NAME`.

        Raises LineageSearchConditionParamError when a name is refused.
        """
        wanted = checked(condition, base_dir)
        return self.ask_page(wanted, want_rows(wanted, names), base_dir, count=count)

    def ask_page(
        self, wanted: SearchCondition, want: Want, base_dir: PathLike | None, *, count: bool
    ) -> JobPage:
        """Return the page of a parsed condition, with what is wanted of each job."""
        from lineage_store.query import jobs

        return self._of(base_dir, lambda session, ids: jobs.page(session, wanted, want, ids, count=count))

    def iterate(
        self, condition: Mapping[str, Any] | None = None, *, base_dir: PathLike | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the object of every matching job, in order; paging keys of the condition are ignored.

        No transaction is open while the caller works, so it may take its time. Which jobs match, and their order, is
        determined at the first step, and kept in sixteen bytes per job. Their data is read 500 jobs at a time, in its
        state at that moment; jobs that were removed by then are left out.
        """
        from lineage_store.query import jobs, mindinsight_shapes

        wanted, engine = checked(condition, base_dir), self._opened.read_engine  # the same one throughout
        ids = self._opened.ask(lambda session: refs.ids(session, base_dir), engine)
        want = mindinsight_shapes.want_of(wanted)
        for part in jobs.each(partial(self._opened.read, engine), wanted, want, ids):
            yield from mindinsight_shapes.objects(part, wanted)

    def columns(
        self,
        condition: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
        *,
        base_dir: PathLike | None = None,
        most: int | None = 100_000,
        every: bool = False,
        own: bool = True,
    ) -> Columns:
        """Return the first `most` matching jobs (None: all) as columns, of one snapshot: for tables and plots of many.

        Paging keys of the condition are ignored.

        Args:
            names: the names of the value columns: fields, `metric/NAME`, `metric_best/NAME`, `metric_first/NAME`,
                `user_defined/NAME`.
            every: also return jobs that have no lineage (yet), unless the condition has an order.
            own: False leaves the columns empty that are about the job itself, from `state` to `last_event_at`; `names`
                may name single ones.

        Raises:
            LineageSearchConditionParamError: a name is refused.
            LineageParamTypeError, LineageParamValueError: `most` is no whole number from 1, nor None.
        """
        from lineage_store.query import jobs
        from lineage_store.query.condition_dict import read_subject
        from lineage_store.query.job_sql import Want
        from lineage_store.store.database.db import check_count

        if most is not None:
            check_count("most", most)
        wanted = checked(condition, base_dir)
        want = Want(own=own, names=tuple((name, read_subject(name)) for name in names))
        return self._of(
            base_dir,
            lambda session, ids: jobs.columns(session, wanted, want, ids, most=most, every=every),
        )

    def require_names(
        self,
        condition: Mapping[str, Any] | None = None,
        names: Iterable[str] = (),
        *,
        base_dir: PathLike | None = None,
    ) -> None:
        """Raise an error for metrics and user-defined values that no job of the store has, such as misspelt ones.

        `filter` treats them as missing values, as MindInsight does. Call this first if a person typed them. Checked are
        the names of the condition's comparisons and its order, and `names`, such as `metric/accuracy` or a field.

        Raises LineageSearchConditionParamError when no job has one of them; the message names the closest.
        """
        from lineage_store.query.condition import names_asked
        from lineage_store.query.condition_dict import read_subject
        from lineage_store.query.vocabulary import require_known

        wanted = checked(condition, base_dir)
        asked = [*names_asked(wanted), *map(read_subject, names)]
        self._opened.ask(lambda session: require_known(session, asked))

    def jobs(
        self,
        base_dir: PathLike | None = None,
        *,
        state: str | None = None,
        outcome: str | None = None,
        train_ids: Iterable[str] | None = None,
        with_samples: bool = False,
        limit: int = LISTED_JOBS,
        page: int = 0,
        after: str | None = None,
    ) -> list[JobRow]:
        """Return a page of the jobs of a base dir, or of all, most recently updated first.

        A reader who goes from page to page by `after` gets each job once, unless the job changes meanwhile: then it
        moves to the beginning of the list.

        Args:
            state: only jobs in this state: reading, live, stalled, finished or missing.
            outcome: only jobs with this outcome: completed, failed or interrupted.
            train_ids: only jobs with one of these ids.
            with_samples: only jobs that recorded scalars, histograms, images and the like.
            limit: the number of jobs in a page.
            page: the number of the page, from 0; finding a page takes as long as reading all pages before it.
            after: the `cursor` of the last job of the page before; finds the next page at once.

        Raises LineageParamTypeError, LineageParamValueError for an invalid argument.
        """
        from lineage_store.query import jobs
        from lineage_store.store.database.db import Page

        part = Page(limit, page)
        for name, word, words in (("state", state, JobState), ("outcome", outcome, Outcome)):
            if word is None:
                continue
            check_text(name, word)
            if word not in set[str](words):
                raise LineageParamValueError(f"{name} = {word!r} is none of {', '.join(words)}.")
        named = None if train_ids is None else list(map(stored_id, train_ids))

        def answer(session: Session, ids: list[int] | None) -> list[JobRow]:
            return jobs.newest(
                session,
                ids,
                state=state,
                outcome=outcome,
                train_ids=named,
                with_samples=with_samples,
                after=after,
                page=part,
            )

        return self._of(base_dir, answer)

    def count(self, base_dir: PathLike | None = None) -> int:
        """Return the number of jobs of a base dir, or of all."""
        from lineage_store.query.jobs import count_jobs

        return self._of(base_dir, count_jobs)

    def contents(
        self, base_dir: PathLike, train_ids: Sequence[str], *, most_tags: int | None = None
    ) -> dict[str, JobContents]:
        """Return the numbers of log files and the tags of jobs, by train id, without jobs that the store lacks.

        `most_tags`: return no more tags of a plugin and job, but the last ones to appear; of graphs, one a file, all.
        """
        from lineage_store.query.status import job_contents

        for train_id in train_ids:
            stored_id(train_id)  # raises when it is no text

        def answer(session: Session) -> dict[str, JobContents]:
            place = refs.base_dir(session, base_dir)
            known = refs.known_among(session, [refs.JobName(place, train_id) for train_id in train_ids])
            names = {ref.job_id: name for ref, name in zip(known, train_ids, strict=True) if ref}
            return job_contents(session, names, most_tags)

        return self._opened.ask(answer)

    def _of(self, base_dir: PathLike | None, question: Callable[[Session, list[int] | None], T]) -> T:
        """Ask a question about the base dirs of these ids; None: about all."""
        return self._opened.ask(lambda session: question(session, refs.ids(session, base_dir)))


def checked(condition: Mapping[str, Any] | None, base_dir: PathLike | None) -> SearchCondition:
    """Parse a search_condition; absolute paths in it must be below the base dir, as written or with links resolved."""
    from lineage_store.query.condition_dict import parse

    written = None if base_dir is None else refs.as_written(base_dir)
    if base_dir is None or written is None:
        return parse(condition, base_dir=None if base_dir is None else str(real_path(base_dir)))
    try:
        return parse(condition, base_dir=str(written))
    except LineageSearchConditionParamError:
        if (path := real_path(base_dir)) == written:
            raise
        return parse(condition, base_dir=str(path))


def want_rows(condition: SearchCondition, names: Iterable[str]) -> Want:
    """Return what `Lineage.page` shows of the jobs that match a condition, with these further values."""
    from lineage_store.query.condition_dict import read_subject
    from lineage_store.query.job_sql import Want

    subjects = tuple((name, read_subject(name)) for name in dict.fromkeys(names))
    return Want(own=True, lineage=True, dataset=condition.shows_dataset, names=subjects)
