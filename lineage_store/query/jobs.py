"""The train jobs that the store knows, a frozen row each.

In: an open read transaction, a page or a cursor. Out: TrainJob, newest first. Promises: a page behind a cursor takes
the same time, however many jobs come before it. Does not read lineage (`search` does).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import PurePath
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, exists, func, or_, select

from lineage_store.errors import TrainJobNotFoundError
from lineage_store.query import job_cursor
from lineage_store.query.job_cursor import Place
from lineage_store.query.search.scope import BASE_DIRS
from lineage_store.store.database.dialects import among, listed, one_of
from lineage_store.store.database.paging import ALL, Page
from lineage_store.store.database.statements import run
from lineage_store.store.schema.tables import base_dir, series, train_job
from lineage_store.texts import from_stored
from lineage_store.times import instant

S = TypeVar("S", bound=Select[Any])


@dataclass(frozen=True, slots=True)
class TrainJob:
    """A train job: a directory of log files."""

    base_dir: str
    train_id: str
    """`./name` below the base dir."""
    state: str
    """reading, live, stalled, finished or missing."""
    outcome: str | None
    """completed, failed or interrupted; None while it is live, or when it is unknown."""
    source_present: bool
    """Whether its log files are still on disk."""
    host: str | None
    updated_at: datetime
    """Greatest modification time of its log files, UTC, to the second."""
    first_started_at: datetime | None
    """Least timestamp in the names of its log files; None if unknown, or beyond the year 9999."""
    last_started_at: datetime | None
    """Greatest timestamp in the names of its log files."""
    last_event_at: datetime | None
    """Greatest wall time of its events."""
    log_bytes: int
    cursor: str
    """The place of this job in the list: pass it as `after` to get the jobs behind it."""

    @property
    def path(self) -> PurePath:
        """The job's directory."""
        return PurePath(self.base_dir, self.train_id)


def train_jobs(
    connection: Connection,
    base_dir_ids: Sequence[int] | None,
    *,
    state: str | None = None,
    outcome: str | None = None,
    train_ids: Collection[str] | None = None,
    with_samples: bool = False,
    after: str | None = None,
    page: Page = ALL,
) -> list[TrainJob]:
    """Return a page of the jobs of some base dirs (None: of all), most recently updated first, then by id.

    `train_ids`: stored ids of the jobs to choose from; None: all. `after`: only jobs behind the job with this cursor.
    """
    query = _of_base_dirs(_JOBS, base_dir_ids)
    if state is not None:
        query = query.where(train_job.c.state == state)
    if outcome is not None:
        query = query.where(train_job.c.outcome == outcome)
    if train_ids is not None:
        query = query.where(_OF_ANY, among(connection, train_job.c.train_id, train_ids))
    if with_samples:
        query = query.where(exists().where(series.c.job_id == train_job.c.id))
    if after is not None:
        query = query.where(_behind(job_cursor.decode(after)))
    ordered = query.order_by(train_job.c.update_time.desc(), train_job.c.train_id, train_job.c.base_dir_id)
    return _jobs_of(connection, connection.execute(page.of(ordered)))


def _behind(place: Place) -> ColumnElement[bool]:
    """Return the condition for jobs behind a place."""
    time, name, base = train_job.c.update_time, train_job.c.train_id, train_job.c.base_dir_id
    tie = or_(name > place.train_id, and_(name == place.train_id, base > place.base_dir_id))
    return and_(time <= place.update_time, or_(time < place.update_time, tie))


def no_such_job(train_id: str, base_dir: PurePath | str) -> TrainJobNotFoundError:
    """Return the error for a job that the store does not know."""
    return TrainJobNotFoundError(
        f"The store knows no train job {train_id!r} below {base_dir}.",
        hint="Ids look like ./name: `lineage-store jobs` lists them, `why PATH` tells why one is missing.",
    )


def count_jobs(connection: Connection, base_dir_ids: Sequence[int] | None) -> int:
    """Return the number of jobs in some base dirs (None: in all)."""
    counted = _of_base_dirs(select(func.count()).select_from(train_job), base_dir_ids)
    return connection.execute(counted).scalar_one()


def _of_base_dirs(query: S, base_dir_ids: Sequence[int] | None) -> S:
    """Restrict a query to jobs of these base dirs (None: of all), without base dirs that are being removed."""
    query = query.where(train_job.c.base_dir_id.not_in(_LEAVING))
    return query if base_dir_ids is None else query.where(train_job.c.base_dir_id.in_(base_dir_ids))


def named_jobs(connection: Connection, train_ids: Iterable[str]) -> list[TrainJob]:
    """Return the jobs of all base dirs that have one of these ids (stored), in no order."""
    dialect = connection.dialect.name
    return _jobs_of(connection, run(connection, _named(dialect), wanted=listed(dialect, train_ids)))


_OF_ANY = train_job.c.base_dir_id.in_(select(base_dir.c.id))
"""Always true. The index on train ids begins with the base dir, so a query needs it to use the index."""
_LEAVING = select(base_dir.c.id).where(base_dir.c.leaving)
_SHOWN = ("train_id", "state", "outcome", "source_present", "host", "log_bytes", "base_dir_id")
_TIMES = ("update_time", "first_file_time", "last_file_time", "last_wall_time")
_JOBS: Select[Any] = select(*(train_job.c[name] for name in (*_SHOWN, *_TIMES)))


@cache
def _named(dialect_name: str) -> Select[Any]:
    wanted = one_of(dialect_name, train_job.c.train_id, bindparam("wanted"))
    return _of_base_dirs(_JOBS, None).where(_OF_ANY, wanted)


def _jobs_of(connection: Connection, rows: Iterable[Sequence[Any]]) -> list[TrainJob]:
    # Base dirs are few, and read apart: in a join, SQLite would begin with them and sort all their jobs.
    paths = {key: path for key, path, _ in run(connection, BASE_DIRS)}
    return [_train_job(paths, row) for row in rows]


def _train_job(paths: Mapping[int, str], row: Sequence[Any]) -> TrainJob:
    train_id, state, outcome, source_present, host, log_bytes, base_dir_id, update_time, *times = row
    updated_at = instant(update_time) or datetime.max.replace(tzinfo=UTC)
    first_started_at, last_started_at, last_event_at = map(instant, times)
    return TrainJob(
        from_stored(paths[base_dir_id]),
        from_stored(train_id),
        state,
        outcome,
        bool(source_present),
        host,
        updated_at,
        first_started_at,
        last_started_at,
        last_event_at,
        log_bytes,
        job_cursor.encode(Place(update_time, train_id, base_dir_id)),
    )
