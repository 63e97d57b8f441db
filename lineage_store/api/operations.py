"""Methods for people who run a store: status, problems and retries, SQL, backups.

In: base dirs, paths, rules, as people write them. Out: frozen reports. Promises: the name and docstring of a method say
what it changes. Does not know SQL: `operations` and `query` do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lineage_store.api.removals import Removals
from lineage_store.errors import DatabaseUnavailableError, LineageParamSummaryPathError
from lineage_store.paths import PathLike, absolute_path, real_path
from lineage_store.store.catalog import refs
from lineage_store.store.opened import all_asked_again, asked_again, stored_id
from lineage_store.texts import to_stored

if TYPE_CHECKING:
    from lineage_store.findings import Finding
    from lineage_store.operations.health import Measures
    from lineage_store.operations.repair import Reread
    from lineage_store.operations.verify import FileVerdict
    from lineage_store.operations.why import Verdict
    from lineage_store.query.status import JobReport, StoreStatus
    from lineage_store.store.admin.obstacles import WriteAheadLog
    from lineage_store.store.admin.read_only_sql import Answer
    from lineage_store.store.database.standby import Replay


Row = Mapping[str, Any]
SQL_TIMEOUT_S = 60.0
"""How long a statement of the user may take until its first row, unless they say."""


@all_asked_again
class Operations(Removals):
    """A store with methods for its operator.

    Methods that compare the store with the disk, or report on ingest, ask the primary, because a standby may lag.
    """

    # --- status -----------------------------------------------------------------------------------------------------

    def status(self, base_dir: PathLike | None = None, *, problems: int = 10) -> StoreStatus:
        """Return lag, jobs by state, leader, last pass, the newest open problems, and jobs known twice.

        They are those of one base dir, or of all. Raises LineageParamSummaryPathError when the store does not know the
        base dir.
        """
        from lineage_store.query import status as statuses

        with self._reading(self._informed) as session:
            if base_dir is None:
                return statuses.read_status(session, problems=problems)
            place = refs.find(session, base_dir)
            return statuses.read_status(session, to_stored(str(place.path)), place.id, problems=problems)

    def findings(self, base_dir: PathLike | None = None, *, within_s: float = 60.0) -> Sequence[Finding]:
        """Return what is wrong with ingest, of one base dir or of all; empty when all is well.

        A base dir, of the store or of the settings, is well when an ingester leads it or has searched it in the last
        `within_s` seconds, and no daemon of this host fails to read it. Also reported are the reason why the store
        cannot be written, when nothing is read, and a standby that lags by more than `within_s` or does not answer.
        Raises LineageParamSummaryPathError when the store does not know the base dir.
        """
        from lineage_store.operations import health

        wanted = [absolute_path(named) for named in self.settings.base_dirs]
        try:
            path = None if base_dir is None else self._place(base_dir).path
            found = health.findings(self.engine, path, wanted, within_s=within_s)
        except DatabaseUnavailableError as error:
            if self._standby is None:
                raise
            url = self._primary.url.render_as_string(hide_password=False)
            path = None if base_dir is None else real_path(base_dir)
            found = health.findings_without_database(url, path, error)
        standby = self.standby(within_s=within_s)
        return [*found, standby.finding] if standby and standby.finding else found

    def measures(self, *, within_s: float = 60.0) -> Measures:
        """Return the status of the store as numbers for a monitor, also while the database does not answer.

        Its `findings` are those of the method `findings`.
        `lineage_store.operations.metrics.StoreCollector(store.measures)` serves them to a Prometheus registry.
        """
        from lineage_store.operations import health

        wanted = [absolute_path(named) for named in self.settings.base_dirs]
        found = health.measure(self._primary, wanted, within_s=within_s)
        standby = self.standby(within_s=within_s)
        more = [standby.finding] if standby and standby.finding else []
        return replace(found, findings=[*found.findings, *more], standby=standby)

    def standby(self, *, within_s: float = 60.0) -> Replay | None:
        """Return how far the standby of `read_database_url` lags, with a finding above `within_s`; None without one."""
        from lineage_store.store.database import standby as replay

        if self._standby is None:
            return None
        return replay.look(self._primary, self._standby.engine, within_s=within_s)

    def write_ahead_log(self) -> WriteAheadLog | None:
        """Return the size of the write-ahead log of a SQLite store, and whether it is too large; None on PostgreSQL."""
        from lineage_store.store.admin import obstacles

        return obstacles.look(self._primary)

    def job_report(
        self, base_dir: PathLike, train_id: str, *, parts: Collection[str] | None = None
    ) -> JobReport:
        """Return what the views show of one job. Raises TrainJobNotFoundError.

        `parts`: read only these attributes of the report besides `job`; None: all. Some jobs have very many series.
        """
        from lineage_store.query import jobs
        from lineage_store.query import status as statuses

        path = real_path(base_dir)
        with self._reading() as session:
            found = statuses.read_job(session, to_stored(str(path)), stored_id(train_id), parts)
        if found is None:
            raise jobs.no_such_job(train_id, path)
        return found

    def evaluation_rows(self, base_dir: PathLike, train_id: str) -> Sequence[Row]:
        """Return the rows of v_metric of a job, in the order of its evaluations. Raises TrainJobNotFoundError."""
        from lineage_store.query import status as statuses

        with self._job(base_dir, train_id) as (session, place, _):
            return statuses.read_evaluations(session, to_stored(str(place.path)), to_stored(train_id))

    def why(self, path: PathLike) -> Verdict:
        """Say why a file or job is or is not in the store. Raises LineageParamSummaryPathError for an invalid path."""
        from lineage_store.operations.why import why

        return why(self.engine, absolute_path(path), self.settings)

    def cycles(self, base_dir: PathLike | None = None, *, limit: int = 20) -> Sequence[Row]:
        """Return the rows of v_ingest_cycle for the last `limit` passes over each base dir (or one), newest first."""
        from lineage_store.query import status as statuses

        with self._reading() as session:
            places = refs.find_all(session, base_dir)
            found = [statuses.read_cycles(session, to_stored(str(place.path)), limit) for place in places]
        return [row for of_base_dir in found for row in of_base_dir]

    # --- problems and retries ---------------------------------------------------------------------------------------

    def problems(
        self,
        base_dir: PathLike | None = None,
        *,
        resolved: bool = False,
        limit: int | None = None,
        page: int = 0,
    ) -> Sequence[Finding]:
        """Return the open problems of ingest, of one base dir or of all, newest first; `resolved`: resolved ones too.

        One is about all places of a log file that have it. Of a job with very many problems some are listed, and one
        says how many are not (`problems`).

        `limit` and `page` as for `train_jobs`. Raises LineageParamSummaryPathError when the store does not know the
        base dir.
        """
        from lineage_store.query import status as statuses
        from lineage_store.store.database.db import Page

        part = Page(limit, page)
        with self._reading() as session:
            place = None if base_dir is None else refs.find(session, base_dir)
            path = None if place is None else to_stored(str(place.path))
            return statuses.read_problems(session, path, resolved=resolved, page=part)

    def problems_below(self, path: PathLike | None = None) -> Sequence[Finding]:
        """Return the open problems of a log file, or of a job or base dir with everything in it; None: all problems."""
        from lineage_store.query import status as statuses

        if path is None:
            return self.problems()
        with self._reading() as session:
            return statuses.read_problems_below(session, to_stored(str(real_path(path))))

    def some_problems(
        self, base_dir: PathLike | None = None, *, resolved: bool = False, most: int = 100
    ) -> Sequence[Finding]:
        """Return at most `most` of the problems that `problems` returns, newest first: of every job some.

        Raises LineageParamSummaryPathError when the store does not know the base dir.
        """
        from lineage_store.query import status as statuses

        with self._reading() as session:
            place = None if base_dir is None else refs.find(session, base_dir)
            path = None if place is None else to_stored(str(place.path))
            return statuses.read_some_problems(session, path, most, resolved=resolved)

    def retry(self, path: PathLike | None = None) -> Reread:
        """Retry log files with problems: one log file, or those of a job or base dir; None: of all base dirs.

        Files that lost bytes are read from the start. A daemon yields its lease meanwhile.

        Raises LineageParamSummaryPathError for a path outside the store's base dirs, LeaseHeldError while another
        ingester that is no daemon is running.
        """
        from lineage_store.operations import repair

        wanted = None if path is None else real_path(path)
        places = self._places(None)
        if wanted is not None:
            places = [place for place in places if place.path in (wanted, *wanted.parents)]
            if not places:
                raise LineageParamSummaryPathError(
                    f"{wanted} is not below a base dir of the store.", hint="`lineage-store why` explains it."
                )
        total = repair.Reread(0, 0)
        for place in places:
            within = None if wanted in (None, place.path) else wanted.relative_to(place.path).as_posix()
            only = None if within is None else repair.below(to_stored(within))
            total = total.plus(repair.retry(self.engine, place.path, place.id, self.settings, only))
        return total

    def reingest(self, base_dir: PathLike, train_id: str) -> Reread:
        """Read the log files of a job again from the first byte; readers see the old contents until that is done.

        Labels and remarks stay; a job that was removed comes back. Raises TrainJobNotFoundError,
        LineageParamSummaryPathError, LeaseHeldError.
        """
        from lineage_store.operations import repair

        place = self._place(base_dir)
        return repair.reingest(self.engine, place.path, place.id, stored_id(train_id), self.settings)

    def choose_best(self) -> int:
        """Choose the best result of each metric again by the setting `less_is_better`; return how many jobs changed.

        A daemon yields its lease meanwhile. Raises LeaseHeldError while an ingester that is no daemon is running.
        """
        from lineage_store.operations.repair import choose_best

        return choose_best(self.engine, self.settings)

    def verify(
        self, base_dir: PathLike | None = None, train_id: str | None = None, *, sample: int | None = None
    ) -> Iterator[FileVerdict]:
        """Read the log files of one job, of a base dir, or of all base dirs, and compare them with the store.

        `sample`: only so many files of each base dir, chosen at random. Raises LineageParamSummaryPathError when the
        store does not know the base dir.
        """
        from lineage_store.operations.verify import verify

        job = None if train_id is None else stored_id(train_id)
        for place in self._places(base_dir):
            yield from verify(self.engine, place.path, place.id, self.settings, train_id=job, sample=sample)

    # --- the database -----------------------------------------------------------------------------------------------

    @contextmanager
    def sql(self, statement: str, *, timeout_s: float = SQL_TIMEOUT_S) -> Iterator[Answer]:
        """Run one SQL statement that only reads; `.columns` and `.rows` of the answer are valid during the block.

        The first row may take `timeout_s`; there is no timeout for the rows that follow.
        """
        from lineage_store.store.admin import read_only_sql

        with ExitStack() as opened:

            @asked_again
            def begin() -> Answer:
                return opened.enter_context(
                    read_only_sql.run(self.read_engine, statement, timeout_s=timeout_s)
                )

            yield begin()

    def backup(
        self, file: PathLike, *, mode: int = 0o600, told: Callable[[str], None] = lambda _: None
    ) -> int:
        """Write a backup of the store from one snapshot, check it, replace an older one; return its size in bytes.

        `mode`: the file's permissions; on SQLite the file is a store, which with 0o444 all users can read. `told` is
        called with the progress on SQLite. On PostgreSQL the backup is an archive of `pg_dump -Fc`, which must be on
        the PATH. Raises LineageStoreError.
        """
        from lineage_store.operations.backup import backup

        return backup(self.engine, absolute_path(file), told, mode=mode)
