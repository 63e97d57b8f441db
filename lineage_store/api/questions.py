"""Questions about trainings: which match a condition, the lineage of one, names and values; labels and remarks.

In: conditions, base dirs, train ids. Out: plain dicts in MindInsight's shapes, frozen rows. Promises: an invalid
condition raises before anything is read. Does not know SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lineage_store.api import base_dirs
from lineage_store.api.opened import OpenedStore, check_text, find_job, stored_id
from lineage_store.api.paths import PathLike, real_path
from lineage_store.errors import DatabaseUnavailableError, LineageParamValueError
from lineage_store.fields import LARGEST_LABEL, LONGEST_REMARK
from lineage_store.store.database.conflicts import all_asked_again
from lineage_store.texts import to_stored

if TYPE_CHECKING:
    from lineage_store.query.search.columns import JobColumns
    from lineage_store.query.search.explain import Explanation
    from lineage_store.query.search.tree import SearchCondition


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
        from lineage_store.query.search import page

        wanted = checked(condition, base_dir)
        with self._reading() as connection:
            return page.filter_lineage(connection, wanted, base_dirs.ids(connection, base_dir), count=count)

    def iter_lineage(
        self, condition: Mapping[str, Any] | None = None, *, base_dir: PathLike | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the object of every matching job, in order; paging keys of the condition are ignored.

        No transaction is open while the caller works, so it may take its time. Which jobs match, and their order, is
        determined at the first step, and kept in sixteen bytes per job. Their data is read 500 jobs at a time, in its
        state at that moment; jobs that were removed by then are left out.
        """
        from lineage_store.query.search import listing

        wanted, engine = checked(condition, base_dir), self.read_engine  # the same one throughout
        with self._reading(engine) as connection:
            ids = base_dirs.ids(connection, base_dir)
        yield from listing.iter_lineage(partial(self._reading, engine), wanted, ids)

    def job_columns(
        self,
        condition: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
        *,
        base_dir: PathLike | None = None,
        most: int | None = 100_000,
        every: bool = False,
    ) -> JobColumns:
        """Return the first `most` matching jobs (None: all) as columns, of one snapshot: for tables and plots of many.

        Args:
            condition: the documented search_condition; paging keys are ignored.
            names: the names of the value columns: fields, `metric/NAME`, `metric_best/NAME`, `metric_first/NAME`,
                `user_defined/NAME`.
            every: also return jobs that have no lineage (yet), unless the condition has an order.

        Raises:
            LineageSearchConditionParamError: the condition or a name is refused.
            LineageParamTypeError, LineageParamValueError: `most` is no whole number from 1, nor None.
            LineageParamSummaryPathError: the store does not know the base dir.
        """
        from lineage_store.query.search.columns import job_columns
        from lineage_store.query.search.subjects import read_subject
        from lineage_store.store.database.paging import check_count

        if most is not None:
            check_count("most", most)
        wanted, asked = checked(condition, base_dir), {name: read_subject(name) for name in names}
        with self._reading() as connection:
            return job_columns(
                connection, wanted, base_dirs.ids(connection, base_dir), asked, most, every=every
            )

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
        from lineage_store.query import job_lineage

        stored_id(train_id)  # raises when it is no text
        with self._reading() as connection:
            place = base_dirs.find(connection, base_dir)
            return job_lineage.get_lineage(connection, str(place.path), place.id, train_id, keys)

    def explain(
        self,
        condition: Mapping[str, Any] | None = None,
        *,
        base_dir: PathLike | None = None,
        count: bool = True,
    ) -> Explanation:
        """Return the SQL that `filter_lineage` runs, with parameters and the database's plans; print it to read it."""
        from lineage_store.query.search.explain import explain

        wanted = checked(condition, base_dir)
        with self._reading() as connection:
            return explain(connection, wanted, base_dirs.ids(connection, base_dir), count=count)

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
        from lineage_store.query.names import require
        from lineage_store.query.search.subjects import read_subject
        from lineage_store.query.search.tree import named_by

        wanted = checked(condition, base_dir)
        asked = [*named_by(wanted), *map(read_subject, names)]
        with self._reading() as connection:
            require(connection, asked)

    def names(self) -> dict[str, list[str]]:
        """Return the names of metrics and user-defined values by prefix, the most frequent first.

        The prefixes are `metric`, `metric_best`, `metric_first` and `user_defined`, without the slash.
        """
        from lineage_store.query.names import all_names

        with self._reading() as connection:
            return dict(all_names(connection))

    def known_values(self, name: str, part: str = "", *, most: int = 100) -> list[tuple[Any, int]]:
        """Return the values of a field, `metric/NAME` or `user_defined/NAME`, each with the number of jobs.

        The `most` most frequent are returned, in this order. Of texts, only those that contain `part` are returned; the
        case of A to Z does not matter.

        Raises:
            LineageSearchConditionParamError: there is no such field.
            LineageParamTypeError, LineageParamValueError: `part` is no text, or `most` no whole number from 1.
        """
        from lineage_store.query.known_values import known_values
        from lineage_store.query.search.subjects import read_subject
        from lineage_store.store.database.paging import check_count

        check_count("most", most)
        check_text("part", part)
        subject = read_subject(name)
        with self._reading() as connection:
            return known_values(connection, subject, part, most)

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
        from lineage_store.store.database import engine as engines
        from lineage_store.store.writes import remarks

        engines.require_writable(self._primary)
        changes = _annotation(tag, remark)
        try:
            with self._reading(self.engine) as connection:
                place, _ = find_job(connection, base_dir, train_id)
            with self._named_failures(), engines.writing(self.engine) as connection:
                now = engines.database_time(connection)
                remarks.annotate(connection, place.id, to_stored(train_id), changes, now)
        except DatabaseUnavailableError as error:
            if self._standby is not None:
                more = f"Labels and remarks are written there; questions are answered by {self._standby}."
                error.hint = f"{error.hint or ''} {more}".lstrip()
            raise


def checked(condition: Mapping[str, Any] | None, base_dir: PathLike | None) -> SearchCondition:
    """Parse a search_condition; absolute paths in it must be below the base dir."""
    from lineage_store.query.search.condition import parse

    return parse(condition, base_dir=None if base_dir is None else str(real_path(base_dir)))


def _annotation(tag: int | None, remark: str | None) -> dict[str, Any]:
    from lineage_store.store.database.paging import check_count

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
