"""Find the jobs that the retention policies in the settings name: too old, too many, or beyond the store's size.

In: the settings `keep_…` (0 means no such policy), a base dir, the database's time. Out: jobs, the oldest first, each
with the policy that names it and its size in the store. Promises: only reads; never names live jobs, jobs that were not
read yet, or, if labelled jobs are kept, labelled ones; once the named jobs are removed, it names no others in their
place. Does not know how jobs are removed.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    null,
    or_,
    select,
    tuple_,
)

from lineage_store.config import Settings
from lineage_store.plugins import SCALAR
from lineage_store.states import JobState
from lineage_store.store.catalog.removable import without_life_since
from lineage_store.store.database.dialects import total
from lineage_store.store.schema.tables import (
    ANNOTATED,
    SAID,
    annotation,
    base_dir,
    file_lineage,
    series,
    train_job,
)
from lineage_store.store.shards import ALL, Shards


class _Bytes(NamedTuple):
    """About how many bytes a row takes with its indexes (docs/decisions/0046-policies.md)."""

    scalar: int
    bucket: int
    payload: int
    series: int
    job: int


_BYTES = {"sqlite": _Bytes(30, 70, 70, 350, 4_000), "postgresql": _Bytes(90, 140, 170, 400, 8_000)}
_KEPT_A_BUCKET = 4
"""About how many samples of a bucket stay."""
_LINEAGE_TWICE = 2
"""Lineage is stored twice: as it was written, and folded."""


def has_policies(settings: Settings) -> bool:
    """Return whether the settings have any policy: one that removes jobs, or `keep_every_step_days` (thinnable.py)."""
    return _removes_jobs(settings) or bool(settings.keep_every_step_days)


def _removes_jobs(settings: Settings) -> bool:
    return bool(settings.keep_days or settings.keep_jobs or settings.keep_store_bytes)


class Expired(NamedTuple):
    """A job that a policy names; `train_id` is in its stored form."""

    id: int
    train_id: str
    state: str
    begun: int
    """When its newest log file was begun, unix s: the order from old to new jobs."""
    last_wall_time: float | None
    source_present: bool
    log_bytes: int
    revision: int
    """Revision of the job when it was named: shows later whether the job has changed since."""
    samples: int
    store_bytes: int
    policy: str
    """Such as `keep_days = 90`."""


def expired(
    connection: Connection,
    base_dir_id: int,
    settings: Settings,
    now: datetime,
    *,
    limit: int,
    shards: Shards = ALL,
    after: Expired | None = None,
) -> list[Expired]:
    """Return the next `limit` jobs of a base dir's shards that a policy names, behind `after`, the oldest first.

    `store_bytes` limits the whole store: a base dir loses those of its jobs that are among the oldest of all base dirs.
    """
    if not _removes_jobs(settings):
        return []
    job = _named(connection.dialect.name, base_dir_id, settings, now).subquery()
    here = and_(job.c.base_dir_id == base_dir_id, job.c.policy.is_not(None))
    wanted = select(*(job.c[name] for name in Expired._fields)).where(here)
    if not shards.are_all:
        mine = select(train_job.c.id).where(*shards.conditions(base_dir_id))
        wanted = wanted.where(job.c.id.in_(mine))
    if after is not None:
        place = tuple_(job.c.begun, job.c.id)
        wanted = wanted.where(place > tuple_(literal(after.begun, BigInteger()), literal(after.id)))
    rows = connection.execute(wanted.order_by(job.c.begun, job.c.id).limit(limit))
    return [Expired._make(row) for row in rows]


def _named(dialect_name: str, base_dir_id: int, settings: Settings, now: datetime) -> Select[Any]:
    """Select every job with the policy that names it, or NULL."""
    ranked = _ranked(dialect_name, base_dir_id, settings, now).subquery()
    rules: list[tuple[ColumnElement[bool], Any]] = [(ranked.c.stays, null())]
    if settings.keep_days:
        rules.append((ranked.c.is_old, literal(f"keep_days = {settings.keep_days}")))
    if settings.keep_jobs:
        rules.append((ranked.c.nth > settings.keep_jobs, literal(f"keep_jobs = {settings.keep_jobs}")))
    policy: ColumnElement[Any] = case(*rules).label("policy")
    columns = [column for column in ranked.c if column.name not in ("is_old", "nth")]
    if not settings.keep_store_bytes:
        return select(*columns, policy)
    first = select(*columns, policy).subquery()
    # Jobs that stay in any case use up the room first, then the others from the newest on.
    left = case((first.c.policy.is_(None), first.c.store_bytes), else_=0)
    order = (case((first.c.stays, 0), else_=1), first.c.begun.desc(), first.c.id.desc())
    taken = func.sum(left).over(order_by=order, rows=(None, 0)).label("taken")
    summed = select(first, taken).subquery()
    beyond = and_(~summed.c.stays, summed.c.taken > settings.keep_store_bytes)
    by_size = case(
        (summed.c.policy.is_not(None), summed.c.policy),
        (beyond, literal(f"keep_store_bytes = {settings.keep_store_bytes}")),
    )
    others = [column for column in summed.c if column.name not in ("policy", "taken")]
    return select(*others, by_size.label("policy"))


def _ranked(dialect_name: str, base_dir_id: int, settings: Settings, now: datetime) -> Select[Any]:
    """Select every job with its rank by age within its base dir and its size: of all base dirs if sizes are limited."""
    job, size = train_job.c, _sizes(dialect_name).subquery()
    lineage = _lineage(dialect_name).subquery()
    begun = func.coalesce(job.last_file_time, 0).label("begun")
    newest = (begun.desc(), job.id.desc())
    kept_since = now - timedelta(days=settings.keep_days)
    old = and_(*without_life_since(kept_since)) if settings.keep_days else false()
    row = _BYTES[dialect_name]
    takes = (
        row.job
        + func.coalesce(size.c.store_bytes, 0)
        + _LINEAGE_TWICE * func.coalesce(lineage.c.content_bytes, 0)
    )
    names = ("id", "base_dir_id", "train_id", "state", "last_wall_time", "source_present", "log_bytes")
    counted = select(
        *(job[name] for name in (*names, "revision")),
        begun,
        func.coalesce(size.c.samples, 0).label("samples"),
        takes.label("store_bytes"),
        stays(settings).label("stays"),
        old.label("is_old"),
        func.row_number().over(partition_by=job.base_dir_id, order_by=newest).label("nth"),
    ).select_from(
        train_job.join(base_dir, base_dir.c.id == job.base_dir_id)
        .outerjoin(annotation, ANNOTATED)
        .outerjoin(size, size.c.job_id == job.id)
        .outerjoin(lineage, lineage.c.job_id == job.id)
    )
    counted = counted.where(~base_dir.c.leaving)
    return counted if settings.keep_store_bytes else counted.where(job.base_dir_id == base_dir_id)


def stays(settings: Settings) -> ColumnElement[bool]:
    """Return the condition that no policy touches a job: it is live or being read, or has a label that keeps it."""
    # `last_file_time` is NULL until a job is first read.
    stays = or_(
        train_job.c.state.in_([JobState.LIVE, JobState.READING]), train_job.c.last_file_time.is_(None)
    )
    if not settings.keep_labelled:
        return stays
    return or_(stays, func.coalesce(SAID, false()))


def _sizes(dialect_name: str) -> Select[Any]:
    """Select the number of samples of each job that has series, and the bytes that they take in the store."""
    row = _BYTES[dialect_name]
    there, is_thinned = series.c.sample_count - series.c.thinned_count, series.c.thinned_count > 0
    with_buckets = row.scalar + row.bucket // _KEPT_A_BUCKET
    each = case((is_thinned, with_buckets), (series.c.plugin == SCALAR, row.scalar), else_=row.payload)
    takes = total(dialect_name, there * each + row.series)
    samples = total(dialect_name, there)
    return select(series.c.job_id, samples.label("samples"), takes.label("store_bytes")).group_by(
        series.c.job_id
    )


def _lineage(dialect_name: str) -> Select[Any]:
    takes = cast(total(dialect_name, file_lineage.c.content_bytes), BigInteger)
    return select(file_lineage.c.job_id, takes.label("content_bytes")).group_by(file_lineage.c.job_id)
