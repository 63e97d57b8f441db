"""Which base dirs and jobs the store knows.

In: base dirs, train ids, pages. Out: paths, frozen rows. Promises: `train_jobs` returns a page of jobs, a thousand
unless `limit` says otherwise. Does not know SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lineage_store.api import base_dirs
from lineage_store.api.opened import OpenedStore, check_text, stored_id
from lineage_store.api.paths import PathLike
from lineage_store.errors import LineageParamValueError
from lineage_store.states import JobState, Outcome
from lineage_store.store.database.conflicts import all_asked_again
from lineage_store.texts import from_stored

if TYPE_CHECKING:
    from lineage_store.query.contents import JobContents
    from lineage_store.query.jobs import TrainJob

LISTED_JOBS = 1_000


@all_asked_again
class Jobs(OpenedStore):
    """A store that lists what it knows."""

    def base_dirs(self) -> list[str]:
        """Return the paths of all base dirs of the store, sorted."""
        from lineage_store.store.catalog import registry

        with self._reading() as connection:
            return [from_stored(path) for _, path in registry.base_dirs(connection)]

    def base_dirs_with(self, train_id: str, *, removed: bool = False) -> list[str]:
        """Return the base dirs that have a job of this id; `removed`: also those from which it was removed."""
        from lineage_store.store.catalog import registry, tombstones

        stored = stored_id(train_id)
        with self._reading() as connection:
            return [
                from_stored(path)
                for number, path in registry.base_dirs(connection)
                if registry.job_id(connection, number, stored) is not None
                or (removed and tombstones.of_job(connection, number, stored) is not None)
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
    ) -> list[TrainJob]:
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
        from lineage_store.store.database.paging import Page

        part = Page(limit, page)
        for name, word, words in (("state", state, JobState), ("outcome", outcome, Outcome)):
            if word is None:
                continue
            check_text(name, word)
            if word not in set[str](words):
                raise LineageParamValueError(f"{name} = {word!r} is none of {', '.join(words)}.")
        with self._reading() as connection:
            ids = base_dirs.ids(connection, base_dir)
            named = None if train_ids is None else list(map(stored_id, train_ids))
            return jobs.train_jobs(
                connection,
                ids,
                state=state,
                outcome=outcome,
                train_ids=named,
                with_samples=with_samples,
                after=after,
                page=part,
            )

    def named_jobs(self, train_ids: Iterable[str]) -> list[TrainJob]:
        """Return the jobs of all base dirs that have one of these ids, in no order."""
        from lineage_store.query import jobs

        with self._reading() as connection:
            return jobs.named_jobs(connection, map(stored_id, train_ids))

    def count_jobs(self, base_dir: PathLike | None = None) -> int:
        """Return the number of jobs of a base dir, or of all."""
        from lineage_store.query import jobs

        with self._reading() as connection:
            return jobs.count_jobs(connection, base_dirs.ids(connection, base_dir))

    def job_contents(
        self, base_dir: PathLike, train_ids: Sequence[str], *, most_tags: int | None = None
    ) -> dict[str, JobContents]:
        """Return the numbers of log files and the tags of jobs, by train id, without jobs that the store lacks.

        `most_tags`: return no more tags of a plugin and job, but the last ones to appear; of graphs, one a file, all.
        """
        from lineage_store.query import contents

        for train_id in train_ids:
            stored_id(train_id)  # raises when it is no text
        with self._reading() as connection:
            place = base_dirs.find(connection, base_dir)
            return contents.job_contents(connection, place.id, train_ids, most_tags)
