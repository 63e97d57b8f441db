"""Answers for notebooks: jobs, evaluations and curves as tables that pandas, polars and Arrow take.

In: conditions, jobs, names. Out: `Table`. Promises: as `questions`: what is asked wrongly raises, and says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lineage_store.api.operations import Operations
from lineage_store.api.paths import PathLike
from lineage_store.api.questions import Questions, base_dir_ids, checked
from lineage_store.api.samples import Samples
from lineage_store.store.database.conflicts import all_asked_again

if TYPE_CHECKING:
    from lineage_store.query.table import Table


@all_asked_again
class Tables(Questions, Samples, Operations):
    """A store that answers with tables."""

    def jobs(
        self,
        condition: Mapping[str, Any] | None = None,
        *,
        columns: Sequence[str] | None = None,
        base_dir: PathLike | None = None,
        limit: int | None = None,
    ) -> Table:
        """The jobs that match, a row each: `.to_pandas()`, `.to_polars()`, `.to_arrow()`, `.rows`.

        Jobs of which no lineage was written (yet) are among them, unless the condition names an order.

        Args:
            condition: the documented search_condition, whose paging keys are ignored; None for all jobs.
            columns: `base_dir`, `summary_dir`, `state`, `tag`, `remark`, `host`, `first_started_at`,
                `last_started_at`, `last_event_at`, `updated_at`, fields, `metric/NAME`, `user_defined/NAME`. None for
                all of these, of names the hundred that most jobs have, where any of the jobs has a value.
            base_dir: None for all base dirs.
            limit: so many jobs at most; None for all.

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
            return job_table(connection, wanted, base_dir_ids(connection, base_dir), named, page.limit)
