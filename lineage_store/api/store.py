"""`LineageStore`: an open store, the façade of ingest, query and operations.

Does not know SQL nor log formats: it opens transactions and calls ingest, query and operations. Importing this class
loads neither SQLAlchemy nor NumPy: methods import what they call, so that a program waits only for what it uses.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from lineage_store.api.changes import Following
from lineage_store.api.exports import Exports
from lineage_store.api.job import Chosen, Samples
from lineage_store.api.metrics import metrics_at
from lineage_store.api.operations import Operations
from lineage_store.errors import (
    DatabaseUnavailableError,
    LineageParamValueError,
    SampleNotFoundError,
    TrainJobNotFoundError,
)
from lineage_store.fields import LARGEST_LABEL, LONGEST_REMARK
from lineage_store.paths import PathLike, absolute_path, real_path
from lineage_store.states import JobState, Outcome
from lineage_store.store.catalog import refs
from lineage_store.store.catalog.refs import find_each, find_one
from lineage_store.store.database.session import Session
from lineage_store.store.opened import OpenedStore, all_asked_again, find_job, stored_id
from lineage_store.texts import check_text, from_stored, to_stored

if TYPE_CHECKING:
    from lineage_store.config import Settings
    from lineage_store.ingest.report import IngestReport, Progress
    from lineage_store.ingest.scan.survey import IngestPlan
    from lineage_store.query.condition import SearchCondition
    from lineage_store.query.job_sql import Want
    from lineage_store.query.jobs import Columns, Explanation, JobPage, JobRow
    from lineage_store.query.status import JobContents
    from lineage_store.query.table import Table
    from lineage_store.store.catalog.refs import JobLike, JobsLike


# ---- Questions about trainings: which match a condition, the lineage of one, names and values; labels and remarks
# In: conditions, base dirs, train ids. Out: plain dicts in MindInsight's shapes, frozen rows. Promises: an invalid
# condition raises before anything is read. Does not know SQL.


@all_asked_again
class Questions(OpenedStore):
    """A store that answers questions about trainings."""

    def filter_lineage(
        self,
        condition: Mapping[str, Any] | None = None,
        *,
        base_dir: PathLike | None = None,
        count: bool = True,
    ) -> dict[str, Any]:
        """Return the lineage of the matching jobs, in MindInsight's shape: `{"customized", "object", "count"}`.

        Args:
            condition: the documented search_condition; None for all jobs.
            base_dir: None for all base dirs; if there are several, each object then names its own as `base_dir`.
            count: False leaves `count` None unless it follows from the page: among very many jobs, counting the matches
                takes much longer than finding a page.

        Raises:
            LineageSearchConditionParamError: the condition is refused; the message says why and what is allowed.
            LineageParamSummaryPathError: the store does not know the base dir.
        """
        from lineage_store.query import mindinsight_shapes

        wanted = checked(condition, base_dir)
        found = self._page(wanted, mindinsight_shapes.want_of(wanted), base_dir, count=count)
        return mindinsight_shapes.answer(found, wanted)

    def job_page(
        self,
        condition: Mapping[str, Any] | None = None,
        names: Iterable[str] = (),
        *,
        base_dir: PathLike | None = None,
        count: bool = True,
    ) -> JobPage:
        """Return a page of the matching jobs as rows: all that the store knows of a job, and its lineage.

        Args:
            condition, base_dir, count: as for `filter_lineage`; `lineage_type` without `dataset` leaves out the graph.
            names: the names of further values, as for `job_columns`, such as `metric_best/NAME`.

        Raises: as `filter_lineage`; LineageSearchConditionParamError when a name is refused.
        """
        wanted = checked(condition, base_dir)
        return self._page(wanted, want_rows(wanted, names), base_dir, count=count)

    def _page(
        self, wanted: SearchCondition, want: Want, base_dir: PathLike | None, *, count: bool
    ) -> JobPage:
        from lineage_store.query import jobs

        with self._reading() as session:
            return jobs.page(session, wanted, want, _ids_of(session, base_dir), count=count)

    def iter_lineage(
        self, condition: Mapping[str, Any] | None = None, *, base_dir: PathLike | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the object of every matching job, in order; paging keys of the condition are ignored.

        No transaction is open while the caller works, so it may take its time. Which jobs match, and their order, is
        determined at the first step, and kept in sixteen bytes per job. Their data is read 500 jobs at a time, in its
        state at that moment; jobs that were removed by then are left out.
        """
        from lineage_store.query import jobs, mindinsight_shapes

        wanted, engine = checked(condition, base_dir), self.read_engine  # the same one throughout
        with self._reading(engine) as session:
            ids = _ids_of(session, base_dir)
        for part in jobs.each(
            partial(self._reading, engine), wanted, mindinsight_shapes.want_of(wanted), ids
        ):
            yield from mindinsight_shapes.objects(part, wanted)

    def job_columns(
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

        Args:
            condition: the documented search_condition; paging keys are ignored.
            names: the names of the value columns: fields, `metric/NAME`, `metric_best/NAME`, `metric_first/NAME`,
                `user_defined/NAME`.
            every: also return jobs that have no lineage (yet), unless the condition has an order.
            own: False leaves the columns empty that are about the job itself, from `state` to `last_event_at`; `names`
                may name single ones.

        Raises:
            LineageSearchConditionParamError: the condition or a name is refused.
            LineageParamTypeError, LineageParamValueError: `most` is no whole number from 1, nor None.
            LineageParamSummaryPathError: the store does not know the base dir.
        """
        from lineage_store.query import jobs
        from lineage_store.query.condition_dict import read_subject
        from lineage_store.query.job_sql import Want
        from lineage_store.store.database.db import check_count

        if most is not None:
            check_count("most", most)
        wanted = checked(condition, base_dir)
        want = Want(own=own, names=tuple((name, read_subject(name)) for name in names))
        with self._reading() as session:
            ids = _ids_of(session, base_dir)
            return jobs.columns(session, wanted, want, ids, most=most, every=every)

    def get_lineage(
        self, base_dir: PathLike, train_id: str, keys: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return one job's lineage in the shape of MindInsight 0.7.

        Args:
            keys: some of hyper_parameters, algorithm, train_dataset, valid_dataset, model, metric, dataset_graph,
                user_defined; None for all but the last.

        Raises:
            TrainJobNotFoundError: the store knows no such job.
            LineageParamSummaryPathError: the store does not know the base dir.
            LineageFileNotFoundError: the job has no lineage.
            LineageParamTypeError, LineageParamValueError: `keys` is no list of these names, or the id is no text.
        """
        from lineage_store.query import jobs, mindinsight_shapes

        stored_id(train_id)  # raises when it is no text
        shown = mindinsight_shapes.read_keys(keys)
        with self._job(base_dir, train_id) as (session, place, job_id):
            row = jobs.one(session, job_id, mindinsight_shapes.want_of_keys(shown))
        return mindinsight_shapes.one_job(row, os.path.normpath(place.path / train_id), shown)

    def explain(
        self,
        condition: Mapping[str, Any] | None = None,
        *,
        base_dir: PathLike | None = None,
        count: bool = True,
    ) -> Explanation:
        """Return the SQL that `filter_lineage` runs, with parameters and the database's plans; print it to read it."""
        from lineage_store.query import jobs, mindinsight_shapes

        wanted = checked(condition, base_dir)
        want = mindinsight_shapes.want_of(wanted)
        with self._reading() as session:
            return jobs.explain(session, wanted, want, _ids_of(session, base_dir), count=count)

    def require_names(
        self,
        condition: Mapping[str, Any] | None = None,
        names: Iterable[str] = (),
        *,
        base_dir: PathLike | None = None,
    ) -> None:
        """Raise an error for metrics and user-defined values that no job of the store has, such as misspelt ones.

        `filter_lineage` treats them as missing values, as MindInsight does. Call this first if a person typed them.

        Args:
            condition: a search_condition; names of its comparisons and its order are checked.
            names: further names to check, such as `metric/accuracy`; fields are allowed.

        Raises:
            LineageSearchConditionParamError: no job has one of them; the message names the closest.
        """
        from lineage_store.query.condition import named_by
        from lineage_store.query.condition_dict import read_subject
        from lineage_store.query.vocabulary import require

        wanted = checked(condition, base_dir)
        asked = [*named_by(wanted), *map(read_subject, names)]
        with self._reading() as session:
            require(session, asked)

    def names(self) -> dict[str, list[str]]:
        """Return the names of metrics and user-defined values by prefix, the most frequent first.

        The prefixes are `metric`, `metric_best`, `metric_first` and `user_defined`, without the slash.
        """
        from lineage_store.query.vocabulary import all_names

        with self._reading() as session:
            return dict(all_names(session))

    def known_values(self, name: str, part: str = "", *, most: int = 100) -> list[tuple[Any, int]]:
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
        with self._reading() as session:
            return known_values(session, subject, part, most)

    def annotate(
        self, base_dir: PathLike, train_id: str, *, tag: int | None = None, remark: str | None = None
    ) -> None:
        """Set the label (0 to 10) or the remark (up to 128 characters) of a job; None leaves the old one.

        When this returns, they are on the disk.

        Raises:
            LineageParamTypeError, LineageParamValueError: a value is not allowed, or neither is given.
            TrainJobNotFoundError: the store knows no such job.
            LineageParamSummaryPathError: the store does not know the base dir.
            ReadOnlyStoreError: the store is open for reading only.
            DatabaseUnavailableError: the primary cannot be written to now, even if a standby answers questions.
        """
        from lineage_store.store.database import db
        from lineage_store.store.writes import jobs as remarks

        db.require_writable(self._primary)
        changes = _annotation(tag, remark)
        try:
            with self._reading(self.engine) as session:
                place, _ = find_job(session, base_dir, train_id)
            with self._named_failures(), db.writing(self.engine) as session:
                now = session.now()
                remarks.annotate(session, place.id, to_stored(train_id), changes, now)
        except DatabaseUnavailableError as error:
            if self._standby is not None:
                more = f"Labels and remarks are written there; questions are answered by {self._standby}."
                error.hint = f"{error.hint or ''} {more}".lstrip()
            raise


def checked(condition: Mapping[str, Any] | None, base_dir: PathLike | None) -> SearchCondition:
    """Parse a search_condition; absolute paths in it must be below the base dir."""
    from lineage_store.query.condition_dict import parse

    return parse(condition, base_dir=None if base_dir is None else str(real_path(base_dir)))


def want_rows(condition: SearchCondition, names: Iterable[str]) -> Want:
    """Return what `job_page` shows of the jobs that match a condition, with these further values."""
    from lineage_store.query.condition_dict import read_subject
    from lineage_store.query.job_sql import Want

    subjects = tuple((name, read_subject(name)) for name in dict.fromkeys(names))
    return Want(own=True, lineage=True, dataset=condition.shows_dataset, names=subjects)


def _ids_of(session: Session, base_dir: PathLike | None) -> list[int] | None:
    """Return the id of the base dir at a path as a list of one, or None for None, which means all."""
    return None if base_dir is None else [refs.find(session, base_dir).id]


def _annotation(tag: int | None, remark: str | None) -> dict[str, Any]:
    from lineage_store.store.database.db import check_count

    if tag is None and remark is None:
        raise LineageParamValueError("Neither a tag nor a remark is given.")
    if tag is not None:
        check_count("tag", tag, least=0, most=LARGEST_LABEL)
    if remark is not None:
        check_text("remark", remark)
    if remark is not None and len(remark) > LONGEST_REMARK:
        raise LineageParamValueError(
            f"The remark has {len(remark)} characters; {LONGEST_REMARK} are allowed."
        )
    given = {"tag": tag, "remark": None if remark is None else to_stored(remark)}
    return {name: value for name, value in given.items() if value is not None}


# ---- Which base dirs and jobs the store knows
# In: base dirs, train ids, pages. Out: paths, frozen rows. Promises: `train_jobs` returns a page of jobs, a thousand
# unless `limit` says otherwise. Does not know SQL.


LISTED_JOBS = 1_000


@all_asked_again
class Jobs(OpenedStore):
    """A store that lists what it knows."""

    def base_dirs(self) -> list[str]:
        """Return the paths of all base dirs of the store, sorted."""
        from lineage_store.store.catalog import registry

        with self._reading() as session:
            return [from_stored(path) for _, path in registry.base_dirs(session)]

    def base_dirs_with(self, train_id: str, *, removed: bool = False) -> list[str]:
        """Return the base dirs that have a job of this id; `removed`: also those from which it was removed."""
        from lineage_store.store.catalog import registry

        stored = stored_id(train_id)
        with self._reading() as session:
            return [
                from_stored(path)
                for number, path in registry.base_dirs(session)
                if registry.job_id(session, number, stored) is not None
                or (removed and registry.of_job(session, number, stored) is not None)
            ]

    def train_jobs(
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

        Raises:
            LineageParamTypeError, LineageParamValueError: an argument is invalid.
            LineageParamSummaryPathError: the store does not know the base dir.
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
        with self._reading() as session:
            ids = _ids_of(session, base_dir)
            named = None if train_ids is None else list(map(stored_id, train_ids))
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

    def count_jobs(self, base_dir: PathLike | None = None) -> int:
        """Return the number of jobs of a base dir, or of all."""
        from lineage_store.query import jobs

        with self._reading() as session:
            return jobs.count_jobs(session, _ids_of(session, base_dir))

    def job_contents(
        self, base_dir: PathLike, train_ids: Sequence[str], *, most_tags: int | None = None
    ) -> dict[str, JobContents]:
        """Return the numbers of log files and the tags of jobs, by train id, without jobs that the store lacks.

        `most_tags`: return no more tags of a plugin and job, but the last ones to appear; of graphs, one a file, all.
        """
        from lineage_store.query import status

        for train_id in train_ids:
            stored_id(train_id)  # raises when it is no text
        with self._reading() as session:
            place = refs.find(session, base_dir)
            return status.job_contents(session, place.id, train_ids, most_tags)


# ---- Answers for notebooks: jobs, evaluations and curves as tables, which convert to pandas, polars and Arrow
# In: conditions, jobs, names. Out: `Table`. Promises: an invalid condition, job or name raises an error that says
# what to do.


@all_asked_again
class Tables(Questions, Jobs, Samples, Operations):
    """A store that returns tables."""

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
        with self._reading() as session:
            return job_table(session, wanted, _ids_of(session, base_dir), named, page.limit)

    # A job is given by its directory, by its id ./name if one base dir has it, as (base dir, id), or as a JobRow.
    # Several jobs are a list of these, or a table from `jobs`, also after its conversion to pandas, polars or Arrow.

    def evaluations(self, job: JobLike, metric: str | None = None) -> Table:
        """Return the results of every evaluation of a job, in order: a row for each metric, with number and time.

        Raises TrainJobNotFoundError, SampleNotFoundError: there is no such job, or no such metric (with the closest).
        """
        from lineage_store.query.comparison import evaluation_table

        if metric is not None:
            check_text("metric", metric)
        place = find_one(self, job)
        with self._job(*place) as (session, _, _):
            return evaluation_table(session, place, metric)

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

        places = find_each(self, jobs)
        if len(places) < 2:
            raise LineageParamValueError("Name at least two jobs to compare.")
        with self._reading() as session:
            job_ids = [find_job(session, *place)[1] for place in places]
            return comparison(session, job_ids, alike=alike)

    def curves(
        self, jobs: JobsLike, tag: str, *, skip_unknown: bool = False, **chosen: Unpack[Chosen]
    ) -> Table:
        """Return every step of a scalar of several jobs as one long table: base_dir, summary_dir, step, wall_at, value.

        Args:
            start, stop, device: as for `scalars`.
            skip_unknown: leave out unknown jobs, and jobs that have no such tag, instead of raising.

        Raises:
            TrainJobNotFoundError: there is no such job.
            SampleNotFoundError: there is no such tag; the error names close ones.
        """
        from lineage_store.query import samples
        from lineage_store.query.comparison import curve_table

        places, found = find_each(self, jobs), []
        ignored = (TrainJobNotFoundError, SampleNotFoundError) if skip_unknown else ()
        with self._reading() as session:
            for place in places:
                with suppress(*ignored):
                    _, job_id = find_job(session, *place)
                    found.append((place, samples.scalars(session, job_id, tag, **chosen)))
        return curve_table(found)


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
        from lineage_store.ingest import pipeline

        path = real_path(base_dir)
        with self._named_failures():
            return pipeline.ingest(
                self.engine, path, self.settings, progress=progress, should_stop=should_stop
            )

    def plan(self, base_dir: PathLike) -> IngestPlan:
        """Return what `ingest` would do, without doing it."""
        from lineage_store.ingest.scan.survey import plan_ingest

        return plan_ingest(self.engine, real_path(base_dir), self.settings)

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
        from lineage_store.operations.notifications import notifying

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

            scheduler.run_daemon(
                self.engine, wanted(self.settings), stop, partial(again, reload) if reload else None
            )
