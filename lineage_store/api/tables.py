"""Answers for notebooks: jobs, evaluations and curves as tables, which convert to pandas, polars and Arrow.

In: conditions, jobs, names. Out: `Table`. Promises: an invalid condition, job or name raises an error that says what to
do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Unpack

from lineage_store.api import base_dirs
from lineage_store.api.jobs import Jobs
from lineage_store.api.opened import check_text, find_job
from lineage_store.api.operations import Operations
from lineage_store.api.paths import PathLike
from lineage_store.api.places import find_each, find_one
from lineage_store.api.questions import Questions, checked
from lineage_store.api.samples import Chosen, Samples
from lineage_store.errors import LineageParamValueError, SampleNotFoundError, TrainJobNotFoundError
from lineage_store.store.database.conflicts import all_asked_again

if TYPE_CHECKING:
    from lineage_store.api.places import JobLike, JobsLike
    from lineage_store.query.table import Table


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
        from lineage_store.query.job_tables import job_table
        from lineage_store.store.database.paging import Page

        wanted, page = checked(condition, base_dir), Page(limit)
        named = [columns] if isinstance(columns, str) else columns
        with self._reading() as connection:
            return job_table(connection, wanted, base_dirs.ids(connection, base_dir), named, page.limit)

    # A job is given by its directory, by its id ./name if one base dir has it, as (base dir, id), or as a TrainJob.
    # Several jobs are a list of these, or a table from `jobs`, also after its conversion to pandas, polars or Arrow.

    def evaluations(self, job: JobLike, metric: str | None = None) -> Table:
        """Return the results of every evaluation of a job, in order: a row for each metric, with number and time.

        Raises TrainJobNotFoundError, SampleNotFoundError: there is no such job, or no such metric (with the closest).
        """
        from lineage_store.query.job_tables import evaluation_table

        if metric is not None:
            check_text("metric", metric)
        place = find_one(self, job)
        with self._job(*place) as (connection, _, _):
            return evaluation_table(connection, place, metric)

    def compare(self, jobs: JobsLike, *, alike: bool = False) -> Table:
        """Return in what jobs differ: a row for each field, metric and user-defined value, a column for each job.

        Args:
            jobs: two or more.
            alike: also return the rows in which all jobs are equal.

        Raises:
            LineageParamValueError: there are fewer than two jobs.
            TrainJobNotFoundError, LineageFileNotFoundError: there is no such job, or it has no lineage.
        """
        from lineage_store.query.job_tables import comparison

        places = find_each(self, jobs)
        if len(places) < 2:
            raise LineageParamValueError("Name at least two jobs to compare.")
        with self._reading() as connection:
            found = {}
            for place in places:
                base_dir, _ = find_job(connection, *place)
                found[place] = base_dir.id
            return comparison(connection, found, alike=alike)

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
        from lineage_store.query.job_tables import curve_table

        places, found = find_each(self, jobs), []
        ignored = (TrainJobNotFoundError, SampleNotFoundError) if skip_unknown else ()
        with self._reading() as connection:
            for place in places:
                with suppress(*ignored):
                    _, job_id = find_job(connection, *place)
                    found.append((place, samples.scalars(connection, job_id, tag, **chosen)))
        return curve_table(found)
