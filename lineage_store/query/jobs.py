"""The train jobs that the store knows, a frozen row each.

In: an open read transaction. Out: TrainJob, newest first. Does not read what was trained (`search` does).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, exists, func, select

from lineage_store.store.database.dialects import among
from lineage_store.store.database.paging import ALL, Page
from lineage_store.store.schema.tables import base_dir, series, train_job
from lineage_store.texts import from_stored

S = TypeVar("S", bound=Select[Any])


@dataclass(frozen=True, slots=True)
class TrainJob:
    """A train job: a directory of log files."""

    base_dir: str
    train_id: str
    """`./name` below the base dir."""
    state: str
    """live, stalled, finished or missing."""
    source_present: bool
    """Whether its log files are still on disk."""
    host: str | None
    updated_at: datetime
    """Greatest modification time of its log files, UTC, to the second."""
    first_started_at: datetime | None
    last_started_at: datetime | None
    last_event_at: datetime | None
    log_bytes: int

    @property
    def path(self) -> PurePath:
        """The job's directory."""
        return PurePath(self.base_dir, self.train_id)


def train_jobs(
    connection: Connection,
    base_dir_ids: Sequence[int] | None,
    *,
    state: str | None = None,
    train_ids: Collection[str] | None = None,
    with_samples: bool = False,
    page: Page = ALL,
) -> list[TrainJob]:
    """A page of the jobs of some base dirs (None: of all), most recently updated first, then by id.

    `train_ids`, as stored, None: all.
    """
    # As a join, SQLite would begin with the base dirs, and sort all their jobs.
    path = select(base_dir.c.path).where(base_dir.c.id == train_job.c.base_dir_id).scalar_subquery()
    query = _of_base_dirs(select(train_job, path.label("path")), base_dir_ids)
    if state is not None:
        query = query.where(train_job.c.state == state)
    if train_ids is not None:
        of_any = train_job.c.base_dir_id.in_(select(base_dir.c.id))  # the index begins with it
        query = query.where(of_any, among(connection, train_job.c.train_id, train_ids))
    if with_samples:
        query = query.where(exists().where(series.c.job_id == train_job.c.id))
    ordered = query.order_by(train_job.c.update_time.desc(), train_job.c.train_id, train_job.c.base_dir_id)
    rows = connection.execute(page.of(ordered))
    return [
        TrainJob(
            base_dir=from_stored(row.path),
            train_id=from_stored(row.train_id),
            state=row.state,
            source_present=row.source_present,
            host=row.host,
            updated_at=_instant(row.update_time) or datetime.max.replace(tzinfo=UTC),
            first_started_at=_instant(row.first_file_time),
            last_started_at=_instant(row.last_file_time),
            last_event_at=_instant(row.last_wall_time),
            log_bytes=row.log_bytes,
        )
        for row in rows
    ]


def count_jobs(connection: Connection, base_dir_ids: Sequence[int] | None) -> int:
    """How many jobs there are in some base dirs (None: in all)."""
    counted: int = connection.execute(
        _of_base_dirs(select(func.count()).select_from(train_job), base_dir_ids)
    ).scalar_one()
    return counted


def _of_base_dirs(query: S, base_dir_ids: Sequence[int] | None) -> S:
    """Only jobs of these base dirs, and of none that is being removed."""
    query = query.where(train_job.c.base_dir_id.not_in(select(base_dir.c.id).where(base_dir.c.leaving)))
    return query if base_dir_ids is None else query.where(train_job.c.base_dir_id.in_(base_dir_ids))


def _instant(seconds: float | None) -> datetime | None:
    """A time of the unix clock; None where no calendar has it."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
