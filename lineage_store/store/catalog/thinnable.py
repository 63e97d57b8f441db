"""Find the scalar series that the policy `keep_every_step_days` names: long ones, of jobs without recent sign of life.

In: the settings `keep_…`, a base dir, the database's time. Out: series, by job and number. Promises: only reads; names
nothing while the clock is wrong; never names series of live jobs, of labelled jobs if these are kept, or series that
were thinned before (if their file grows, ingest reads it again from its first byte).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, literal, select, tuple_

from lineage_store.config import Settings
from lineage_store.plugins import SCALAR
from lineage_store.store import clock
from lineage_store.store.catalog.policies import stays
from lineage_store.store.catalog.removable import without_life_since
from lineage_store.store.schema.tables import ANNOTATED, annotation, log_file, of_file, series, train_job
from lineage_store.store.shards import ALL, Shards

SAMPLES_A_BUCKET = 10
"""Series with fewer are not thinned, for little would be won: up to seven samples of a bucket stay, and the bucket."""
SeriesKey = tuple[int, int]
"""(job id, number of the series within it)."""


class Thinnable(NamedTuple):
    """A series that the policy names; texts are in their stored form."""

    job_id: int
    series_no: int
    file_no: int
    train_id: str
    tag: str
    log_file: str
    source_present: bool
    """Whether a log file of the job is left on disk, from which every step could be read again."""
    sample_count: int
    superseded_from: int | None
    revision: int
    """Revision of the job when the series was named: shows later whether the job has changed since."""

    @property
    def key(self) -> SeriesKey:
        return self.job_id, self.series_no


def thinnable(
    connection: Connection,
    base_dir_id: int,
    settings: Settings,
    now: datetime,
    *,
    limit: int,
    shards: Shards = ALL,
    after: SeriesKey = (0, 0),
    only: SeriesKey | None = None,
) -> list[Thinnable]:
    """Return the next `limit` series of a base dir's shards that the policy names, behind `after`, by key.

    With `only`, return this series if the policy still names it.
    """
    if not settings.keep_every_step_days or clock.off_s(connection, base_dir_id, now) is not None:
        return []
    old = without_life_since(now - timedelta(days=settings.keep_every_step_days))
    job, row = train_job.c, series.c
    wanted = (
        select(row.job_id, row.series_no, row.file_no, job.train_id, row.tag, log_file.c.name)
        .add_columns(job.source_present, row.sample_count, row.superseded_from, job.revision)
        .join_from(series, log_file, of_file(series))
        .join(train_job, job.id == row.job_id)
        .outerjoin(annotation, ANNOTATED)
        .where(*shards.conditions(base_dir_id), ~stays(settings), old)
        .where(row.plugin == SCALAR, row.thinned_count == 0, log_file.c.current)
        .where(row.sample_count > SAMPLES_A_BUCKET * settings.keep_thinned_buckets)
    )
    this = (row.job_id, row.series_no)
    if only is not None:
        wanted = wanted.where(*(column == value for column, value in zip(this, only, strict=True)))
    elif after != (0, 0):
        wanted = wanted.where(tuple_(*this) > tuple_(*map(literal, after)))
    return [Thinnable._make(row) for row in connection.execute(wanted.order_by(*this).limit(limit))]
