"""`LineageStore`: one store, opened.

Knows no SQL and no log format: it opens transactions and calls ingest and query. What reads log files or samples, and
NumPy with it, is imported when it is first asked for: whoever only asks questions does not wait for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from lineage_store import config
from lineage_store.api.paths import PathLike, absolute_path, real_path
from lineage_store.config import Settings
from lineage_store.errors import (
    LineageParamSummaryPathError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageQuerySummaryDataError,
    TrainJobNotFoundError,
)
from lineage_store.ingest import base_dirs
from lineage_store.query import job_lineage, jobs
from lineage_store.query.jobs import TrainJob
from lineage_store.query.search import listing, page
from lineage_store.query.search.condition import parse, read_subject
from lineage_store.query.search.explain import Explanation, explain
from lineage_store.query.search.names import named_by, require
from lineage_store.query.search.tree import SearchCondition
from lineage_store.store.catalog import registry
from lineage_store.store.database import engine as engines
from lineage_store.store.database.default_location import default_url
from lineage_store.store.schema import upgrade
from lineage_store.store.writes import remarks
from lineage_store.texts import from_stored, to_stored

if TYPE_CHECKING:
    from lineage_store.ingest.plan import IngestPlan
    from lineage_store.ingest.report import IngestReport, Progress
    from lineage_store.query import samples

log = logging.getLogger(__name__)

LARGEST_LABEL = 10
LONGEST_REMARK = 128


class Chosen(TypedDict, total=False):
    """Which samples: from step `start` up to but not including `stop`, of one device; None is no bound."""

    start: int | None
    stop: int | None
    device: int | None


class LineageStore:
    """A lineage store: a SQLite file or a PostgreSQL database.

    Args:
        url: database URL. None: the setting `database_url` (environment, configuration file), else a SQLite file in
            the user's state directory.
        settings: all settings at once, instead of those from environment and configuration file.
        create: whether a missing or empty database becomes a store; where not, that is an error.

    Raises:
        ConfigError, UnsafeStoreLocationError: the URL or a setting cannot be used.
        SchemaTooOldError, SchemaTooNewError, NotAStoreError: the database does not fit this version.
        DatabaseUnavailableError: it is unreachable or locked, or there is no such file.
    """

    def __init__(
        self, url: str | None = None, *, settings: Settings | None = None, create: bool = True
    ) -> None:
        self.settings = settings or config.load().settings
        given = url or self.settings.database_url
        url = given or default_url()
        unsafe = self.settings.allow_network_filesystem
        self._engine = engines.open_engine(url, allow_network_filesystem=unsafe)
        self.url = engines.safe_url(self._engine.url)
        try:
            if create and upgrade.is_empty(self._engine):
                upgrade.upgrade(url, allow_network_filesystem=unsafe)
                if not given:
                    log.warning("The lineage store is %s.", engines.sqlite_path(url))
            upgrade.check(self._engine)
        except BaseException:
            self.close()  # a store that was refused holds nothing open
            raise

    def close(self) -> None:
        """Close the database connections."""
        self._engine.dispose()

    def __enter__(self) -> LineageStore:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LineageStore({self.url!r})"

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, for SQL of your own; the views are the contract, the tables are not."""
        return self._engine

    # --- ingest ---------------------------------------------------------------------------------------------------

    def ingest(
        self,
        base_dir: PathLike,
        *,
        progress: Callable[[Progress], None] | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> IngestReport:
        """Bring one base dir up to date: read what its log files have gained.

        Args:
            base_dir: the directory of the job directories.
            progress: called after every transaction.
            should_stop: asked between transactions; True ends early with everything so far stored.

        Raises:
            LineageParamSummaryPathError: no directory, not listable, or overlapping with a base dir of the store.
            LeaseHeldError: a daemon leads this base dir (and does this work).
            DatabaseUnavailableError: the database failed; call again, nothing is lost or doubled.
        """
        from lineage_store.ingest import refresh

        path = real_path(base_dir)
        with self._named_failures():
            return refresh.ingest(
                self._engine, path, self.settings, progress=progress, should_stop=should_stop
            )

    def plan(self, base_dir: PathLike) -> IngestPlan:
        """What `ingest` would do, without doing it."""
        from lineage_store.ingest.plan import plan

        return plan(self._engine, real_path(base_dir), self.settings)

    def run_daemon(self, base_dirs: Sequence[PathLike] = (), *, stop: threading.Event | None = None) -> None:
        """Follow base dirs (none given: those of the settings) until SIGTERM, SIGINT or `stop`; then return.

        Raises ConfigError when there is no base dir to follow. Ends the whole process, with exit code 7, when a base
        dir makes no progress for `progress_deadline_s`: it needs a process of its own, and someone who starts it anew.
        """
        from lineage_store.ingest.daemon import scheduler

        paths = [absolute_path(path) for path in base_dirs or self.settings.base_dirs]
        scheduler.run(self._engine, paths, self.settings, stop)

    # --- lineage --------------------------------------------------------------------------------------------------

    def filter_lineage(
        self,
        condition: Mapping[str, Any] | None = None,
        *,
        base_dir: PathLike | None = None,
        count: bool = True,
    ) -> dict[str, Any]:
        """The lineage of the jobs that match, in MindInsight's shape: `{"customized", "object", "count"}`.

        Args:
            condition: the documented search_condition; None for all.
            base_dir: None for all base dirs; where there are several, each object then says which (`base_dir`).
            count: False leaves `count` None where the page does not tell it: of very many jobs, counting those that
                match takes much longer than finding a page of them.

        Raises:
            LineageSearchConditionParamError: the condition is refused; the message says why and what is allowed.
            LineageParamSummaryPathError: the store does not know the base dir.
        """
        path, wanted = _question(condition, base_dir)
        if not count and (answer := self._glance(wanted, path)):
            return answer
        with self._reading() as connection:
            return page.filter_lineage(connection, wanted, self._ids(connection, path), count=count)

    def _glance(self, wanted: SearchCondition, path: Path | None) -> dict[str, Any] | None:
        stored = None if path is None else base_dirs.stored_path(path)
        with self._named_failures(), engines.glancing(self._engine) as connection:
            return page.glance(connection, wanted, stored)

    def iter_lineage(
        self, condition: Mapping[str, Any] | None = None, *, base_dir: PathLike | None = None
    ) -> Iterator[dict[str, Any]]:
        """Every object that matches, in order, without limit; paging keys are ignored.

        Take as long as you like over each: no transaction is open meanwhile. Which jobs match, and their order, is as
        of the first moment, and kept, sixteen bytes a job. What is shown of them is read 500 jobs at a time, each time
        as it is then; jobs that were removed by then are left out.
        """
        path, wanted = _question(condition, base_dir)
        with self._reading() as connection:
            ids = self._ids(connection, path)
        yield from listing.iter_lineage(self._reading, wanted, ids)

    def get_lineage(
        self, base_dir: PathLike, train_id: str, keys: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """One job's lineage in the shape of MindInsight 0.7.

        Args:
            keys: which of hyper_parameters, algorithm, train_dataset, valid_dataset, model, metric, dataset_graph,
                user_defined; None for all but the last.

        Raises:
            TrainJobNotFoundError: the store knows no such job.
            LineageFileNotFoundError: the job has no lineage.
            LineageParamTypeError, LineageParamValueError: `keys` is no list of those names.
        """
        path = real_path(base_dir)
        with self._reading() as connection:
            return job_lineage.get_lineage(connection, str(path), self._id(connection, path), train_id, keys)

    def explain(
        self, condition: Mapping[str, Any] | None = None, *, base_dir: PathLike | None = None
    ) -> Explanation:
        """The SQL that `filter_lineage` runs, with its parameters and the database's plan; prints well."""
        path, wanted = _question(condition, base_dir)
        with self._reading() as connection:
            return explain(connection, wanted, self._ids(connection, path))

    def require_names(
        self,
        condition: Mapping[str, Any] | None = None,
        names: Iterable[str] = (),
        *,
        base_dir: PathLike | None = None,
    ) -> None:
        """Refuse metrics and user-defined values that no job of the store has, as misspelt ones.

        `filter_lineage` takes them as missing, as MindInsight does; ask here first where people type.

        Args:
            condition: a search_condition, what it sorts by included.
            names: further ones, such as `metric/accuracy`.

        Raises:
            LineageSearchConditionParamError: no job has one of them; the message names the closest.
        """
        _, wanted = _question(condition, base_dir)
        asked = [*named_by(wanted), *map(read_subject, names)]
        with self._reading() as connection:
            require(connection, asked)

    def annotate(
        self, base_dir: PathLike, train_id: str, *, tag: int | None = None, remark: str | None = None
    ) -> None:
        """Put a label (0 to 10) or a remark (up to 128 characters) on a job, for good; None leaves it as it is.

        When this returns, they are on the disk.

        Raises:
            LineageParamValueError: outside those bounds, or neither is given.
            TrainJobNotFoundError: the store knows no such job.
        """
        changes = _annotation(tag, remark)
        path = real_path(base_dir)
        with self._reading() as connection:
            base_dir_id = self._id(connection, path)
            self._job_id(connection, base_dir_id, path, train_id)
        with self._named_failures(), engines.writing(self._engine) as connection:
            now = engines.database_time(connection)
            remarks.annotate(connection, base_dir_id, to_stored(train_id), changes, now)

    # --- jobs and samples -----------------------------------------------------------------------------------------

    def base_dirs(self) -> list[str]:
        """The base dirs that the store knows."""
        with self._reading() as connection:
            return [from_stored(path) for _, path in registry.base_dirs(connection)]

    def train_jobs(self, base_dir: PathLike | None = None) -> list[TrainJob]:
        """The jobs of a base dir, or of all, most recently updated first."""
        with self._reading() as connection:
            path = None if base_dir is None else real_path(base_dir)
            return jobs.train_jobs(connection, self._ids(connection, path))

    def tags(self, base_dir: PathLike, train_id: str) -> dict[str, list[str]]:
        """The tags of a job by plugin (scalar, histogram, image, tensor, graph, landscape)."""
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (connection, _, job_id):
            return samples.tags(connection, job_id)

    def scalars(
        self,
        base_dir: PathLike,
        train_id: str,
        tag: str,
        *,
        start: int | None = None,
        stop: int | None = None,
        device: int | None = None,
    ) -> samples.Scalars:
        """Every step of a scalar, from step `start` up to but not including `stop`.

        Returns:
            `.steps` int64[n] ascending, `.wall_times` float64[n] in unix seconds, `.values` float64[n] (NaN and
            infinities as written); `.to_pandas()`, `.to_arrow()`. What a restart wrote again replaces what was
            superseded. Several devices interleave by step unless `device` names one.

        Raises:
            TrainJobNotFoundError, SampleNotFoundError: no such job or tag; the message names close ones.
        """
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (connection, _, job_id):
            return samples.scalars(connection, job_id, tag, start=start, stop=stop, device=device)

    # Payloads: what is listed is metadata; `.read()` of each reads the log file, and raises PayloadUnavailableError
    # when that is gone or has changed. `start`, `stop` and `device` choose as for scalars.

    def histograms(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The histograms of a tag; `.read()` gives buckets as arrays."""
        return self._payloads("histogram", base_dir, train_id, tag, chosen)

    def images(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The images of a tag; `.read()` gives the PNG bytes with height and width."""
        return self._payloads("image", base_dir, train_id, tag, chosen)

    def tensors(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The tensors of a tag; `.read()` gives a numpy array."""
        return self._payloads("tensor", base_dir, train_id, tag, chosen)

    def graphs(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The computational graphs of a job; the tag is the name of the log file."""
        return self._payloads("graph", base_dir, train_id, tag, chosen)

    def landscapes(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The loss landscapes of a tag."""
        return self._payloads("landscape", base_dir, train_id, tag, chosen)

    def _payloads(
        self, plugin: str, base_dir: PathLike, train_id: str, tag: str, chosen: Chosen
    ) -> list[samples.PayloadSample]:
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (connection, path, job_id):
            return samples.payloads(connection, str(path), train_id, job_id, plugin, tag, **chosen)

    # --- transactions and names -----------------------------------------------------------------------------------

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            cause = str(error.orig).strip().splitlines()[0]
            raise LineageQuerySummaryDataError(f"The database {self.url} failed: {cause}.") from error

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._named_failures(), engines.reading(self._engine) as connection:
            yield connection

    @contextmanager
    def _job(self, base_dir: PathLike, train_id: str) -> Iterator[tuple[Connection, Path, int]]:
        path = real_path(base_dir)
        with self._reading() as connection:
            yield connection, path, self._job_id(connection, self._id(connection, path), path, train_id)

    def _id(self, connection: Connection, path: Path) -> int:
        found = registry.base_dir_id(connection, base_dirs.stored_path(path))
        if found is None:
            known = ", ".join(from_stored(other) for _, other in registry.base_dirs(connection)) or "none"
            raise LineageParamSummaryPathError(
                f"The store does not know the base dir {path}.",
                hint=f"Ingest it first. Known base dirs: {known}.",
            )
        return found

    def _ids(self, connection: Connection, path: Path | None) -> list[int] | None:
        return None if path is None else [self._id(connection, path)]

    def _job_id(self, connection: Connection, base_dir_id: int, path: Path, train_id: str) -> int:
        found = registry.job_id(connection, base_dir_id, to_stored(train_id))
        if found is None:
            raise TrainJobNotFoundError(
                f"The store knows no train job {train_id!r} below {path}.",
                hint="Ids look like ./name; `lineage-store jobs` lists them.",
            )
        return found


def _question(
    condition: Mapping[str, Any] | None, base_dir: PathLike | None
) -> tuple[Path | None, SearchCondition]:
    """What is asked, checked, and about which base dir (None: all)."""
    path = None if base_dir is None else real_path(base_dir)
    return path, parse(condition, base_dir=None if path is None else str(path))


def _annotation(tag: int | None, remark: str | None) -> dict[str, Any]:
    if tag is None and remark is None:
        raise LineageParamValueError("Neither a tag nor a remark is given.")
    if tag is not None and (not isinstance(tag, int) or isinstance(tag, bool)):
        raise LineageParamTypeError(f"tag = {tag!r} must be a whole number from 0 to {LARGEST_LABEL}.")
    if tag is not None and not 0 <= tag <= LARGEST_LABEL:
        raise LineageParamValueError(f"tag = {tag} must be from 0 to {LARGEST_LABEL}.")
    if remark is not None and not isinstance(remark, str):
        raise LineageParamTypeError(f"remark = {remark!r} must be text.")
    if remark is not None and len(remark) > LONGEST_REMARK:
        raise LineageParamValueError(
            f"The remark has {len(remark)} characters; {LONGEST_REMARK} are allowed."
        )
    given = {"tag": tag, "remark": None if remark is None else to_stored(remark)}
    return {name: value for name, value in given.items() if value is not None}
