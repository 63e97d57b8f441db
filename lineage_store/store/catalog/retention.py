"""Find the jobs that the retention policies in the settings name: too old, too many, or beyond the store's size.

In: the settings `keep_…` (0 means no such policy), a base dir, the database's time. Out: jobs, the oldest first, each
with the policy that names it and its size in the store. Promises: only reads; never names live jobs, jobs that were not
read yet, or, if labelled jobs are kept, labelled ones; once the named jobs are removed, it names no others in their
place. No name or time of a file makes a job younger; who owns many jobs loses his own before those of others (max-min
fair shares: the others keep what they have, up to an equal share). Does not know how jobs are removed, nor how many may
go at a time (store/writes/removal.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Subquery,
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
from lineage_store.findings import Finding, finding
from lineage_store.plugins import SCALAR
from lineage_store.states import JobState
from lineage_store.store import clock
from lineage_store.store.database.sql import Session, UtcTime, total
from lineage_store.store.leases import ALL, Shards
from lineage_store.store.schema.tables import (
    ANNOTATED,
    SAID,
    annotation,
    base_dir,
    file_lineage,
    log_file,
    of_file,
    series,
    train_job,
)
from lineage_store.texts import from_stored


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
_EMPTY_FOR = timedelta(days=1)
"""A job of which nothing could be read takes nobody's place: after so long without growth it counts as the oldest of
all, until then not at all, for a training may be slow to begin."""
_OLDEST = datetime(1970, 1, 1, tzinfo=UTC)


def has_policies(settings: Settings) -> bool:
    """Return whether the settings have any policy: one that removes jobs, or `keep_every_step_days`."""
    return _removes_jobs(settings) or bool(settings.keep_every_step_days)


def _removes_jobs(settings: Settings) -> bool:
    return bool(settings.keep_days or settings.keep_jobs or settings.keep_store_bytes)


class Expired(NamedTuple):
    """A job that a policy names; `train_id` is in its stored form."""

    id: int
    train_id: str
    state: str
    begun_at: datetime
    """When its newest log file was begun, as the store knows it (`train_job.begun_at`)."""
    counts_from: datetime
    """The order from old to new jobs: `begun_at`, but long ago for a job of which nothing could be read."""
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
    session: Session,
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
    job = _named(session.kind, base_dir_id, settings, now).subquery()
    here = and_(job.c.base_dir_id == base_dir_id, job.c.policy.is_not(None))
    wanted = select(*(job.c[name] for name in Expired._fields)).where(here)
    if not shards.are_all:
        mine = select(train_job.c.id).where(*shards.conditions(base_dir_id))
        wanted = wanted.where(job.c.id.in_(mine))
    if after is not None:
        place = tuple_(job.c.counts_from, job.c.id)
        wanted = wanted.where(place > tuple_(literal(after.counts_from, UtcTime()), literal(after.id)))
    rows = session.rows(wanted.order_by(job.c.counts_from, job.c.id).limit(limit))
    return [Expired._make(row) for row in rows]


def waiting(session: Session, base_dir_id: int | None = None) -> Iterator[Finding]:
    """Yield what policies wait for in a base dir, or in all: jobs that a person may let go, a clock that is wrong.

    Subjects are stored paths. What was stored of the clock is no finding any more once the clock is right.
    """
    told = ("id", "path", "clock_at", "clock_off_s", "jobs_waiting", "waits_since")
    rests = select(*(base_dir.c[name] for name in told)).where(
        base_dir.c.waits_since.is_not(None), ~base_dir.c.leaving
    )
    here = rests if base_dir_id is None else rests.where(base_dir.c.id == base_dir_id)
    for row in session.rows(here.order_by(base_dir.c.path)):
        about = {"path": from_stored(row.path), "since": row.waits_since}
        off_s = clock.off_s(session, row.id, session.now())
        if row.clock_off_s is not None and off_s is not None:
            words = {"off": clock.offset_in_words(off_s), "agreed_at": row.clock_at}
            yield finding("clock_disagrees", row.path, **about, **words)
        if row.jobs_waiting:
            yield finding("jobs_wait", row.path, jobs=row.jobs_waiting, **about)


def count_expired(session: Session, base_dir_id: int, settings: Settings, now: datetime) -> int:
    """Return how many jobs of a base dir, of all its shards, the policies name."""
    if not _removes_jobs(settings):
        return 0
    job = _named(session.kind, base_dir_id, settings, now).subquery()
    here = and_(job.c.base_dir_id == base_dir_id, job.c.policy.is_not(None))
    return session.value(select(func.count()).where(here))


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
    # Of each owner, jobs that stay in any case use up the room first, then the others from the newest on; and the room
    # is given to all owners alike: first to the jobs up to which their owner's take least.
    left = case((first.c.policy.is_(None), first.c.store_bytes), else_=0)
    order = (case((first.c.stays, 0), else_=1), first.c.counts_from.desc(), first.c.id.desc())
    own = func.sum(left).over(partition_by=first.c.owner_uid, order_by=order, rows=(None, 0))
    shared = select(first, left.label("left"), own.label("of_owner")).subquery()
    turn = (shared.c.is_last, shared.c.of_owner, shared.c.counts_from.desc(), shared.c.id.desc())
    taken = func.sum(shared.c.left).over(order_by=turn, rows=(None, 0)).label("taken")
    summed = select(shared, taken).subquery()
    beyond = and_(~summed.c.stays, summed.c.taken > settings.keep_store_bytes)
    by_size = case(
        (summed.c.policy.is_not(None), summed.c.policy),
        (beyond, literal(f"keep_store_bytes = {settings.keep_store_bytes}")),
    )
    others = [column for column in summed.c if column.name not in ("policy", "left", "of_owner", "taken")]
    return select(*others, by_size.label("policy"))


def _ranked(dialect_name: str, base_dir_id: int, settings: Settings, now: datetime) -> Select[Any]:
    """Select every job with its rank within its base dir and its size: of all base dirs if sizes are limited."""
    job, size = train_job.c, _sizes(dialect_name).subquery()
    lineage = _lineage(dialect_name).subquery()
    kept_since = now - timedelta(days=settings.keep_days)
    old = without_life_since(kept_since) if settings.keep_days else false()
    row = _BYTES[dialect_name]
    takes = (
        row.job
        + func.coalesce(size.c.store_bytes, 0)
        + _LINEAGE_TWICE * func.coalesce(lineage.c.content_bytes, 0)
    )
    is_empty = and_(size.c.samples.is_(None), lineage.c.content_bytes.is_(None))
    oldest = literal(_OLDEST, UtcTime())
    begun_at = func.coalesce(job.begun_at, job.created_at, type_=UtcTime())
    counts_from = case((or_(job.last_file_time.is_(None), is_empty), oldest), else_=begun_at)
    may_begin = and_(is_empty, ~without_life_since(now - _EMPTY_FOR))
    names = ("id", "base_dir_id", "train_id", "state", "last_wall_time", "source_present", "log_bytes")
    counted = select(
        *(job[name] for name in (*names, "revision", "owner_uid")),
        begun_at.label("begun_at"),
        counts_from.label("counts_from"),
        case((counts_from == oldest, 1), else_=0).label("is_last"),
        func.coalesce(size.c.samples, 0).label("samples"),
        takes.label("store_bytes"),
        or_(stays(settings), may_begin).label("stays"),
        old.label("is_old"),
    ).select_from(
        train_job.join(base_dir, base_dir.c.id == job.base_dir_id)
        .outerjoin(annotation, ANNOTATED)
        .outerjoin(size, size.c.job_id == job.id)
        .outerjoin(lineage, lineage.c.job_id == job.id)
    )
    counted = counted.where(~base_dir.c.leaving)
    if not settings.keep_store_bytes:
        counted = counted.where(job.base_dir_id == base_dir_id)
    return _in_turn(counted.subquery())


def _in_turn(job: Subquery) -> Select[Any]:
    """Select jobs with their rank within their base dir: first the newest of each owner, then the second newest …,
    and jobs that take nobody's place behind them all."""
    newest = (job.c.counts_from.desc(), job.c.id.desc())
    of_owner = func.row_number().over(partition_by=(job.c.base_dir_id, job.c.owner_uid), order_by=newest)
    each = select(job, of_owner.label("of_owner")).subquery()
    turn = (each.c.is_last, each.c.of_owner, each.c.counts_from.desc(), each.c.id.desc())
    nth = func.row_number().over(partition_by=each.c.base_dir_id, order_by=turn)
    return select(*(column for column in each.c if column.name != "of_owner"), nth.label("nth"))


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


# ---- Find the jobs that the rules of a clean-up name. Only reads
# In: rules, a base dir, the database's time. Out: jobs, a page at a time. Promises: never names live jobs; names and
# modification times of files are no sign of life. Does not know conditions: they are given as SELECTs of job ids.


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a clean-up: a job must fulfil all that are given; callers give at least one."""

    text: str
    """The rules in words, for the tombstone."""
    older_than_s: float | None = None
    """For so long the job had no event and no growth."""
    missing: bool = False
    """If true, no log file of the job is left on disk."""
    among: Select[Any] | None = None
    """Ids of the jobs that a condition matches."""


class Removable(NamedTuple):
    """A job that the rules name; `train_id` is in its stored form."""

    id: int
    train_id: str
    state: str
    last_wall_time: float | None
    log_bytes: int


def removable(
    session: Session, base_dir_id: int, rules: Rules, now: datetime, *, limit: int, after: int = 0
) -> list[Removable]:
    """Return the next `limit` jobs that the rules name with an id greater than `after`, by id."""
    behind = (train_job.c.base_dir_id == base_dir_id) & (train_job.c.id > after)
    columns = (train_job.c[name] for name in Removable._fields)
    wanted = select(*columns).where(behind, train_job.c.state.not_in([JobState.LIVE, JobState.READING]))
    if rules.older_than_s is not None:
        wanted = wanted.where(without_life_since(now - timedelta(seconds=rules.older_than_s)))
    if rules.missing:
        wanted = wanted.where(~train_job.c.source_present)
    if rules.among is not None:
        wanted = wanted.where(train_job.c.id.in_(rules.among.order_by(None)))
    rows = session.rows(wanted.order_by(train_job.c.id).limit(limit))
    return [Removable._make(row) for row in rows]


def all_and_live(session: Session, base_dir_ids: Sequence[int]) -> tuple[int, int]:
    """Return how many jobs some base dirs have, and how many of them are live."""
    mine = train_job.c.base_dir_id.in_(base_dir_ids)
    counted = select(train_job.c.state, func.count().label("jobs")).where(mine).group_by(train_job.c.state)
    by_state = {row.state: row.jobs for row in session.rows(counted)}
    return sum(by_state.values()), by_state.get(JobState.LIVE, 0)


def any_present(session: Session, base_dir_id: int) -> bool:
    """Return whether any log file of the base dir was on disk when ingest last looked."""
    mine = (train_job.c.base_dir_id == base_dir_id) & train_job.c.source_present
    return session.first(select(train_job.c.id).where(mine).limit(1)) is not None


def without_life_since(cutoff: datetime) -> ColumnElement[bool]:
    """Return the condition that the last sign of life of a job is older than `cutoff` (`train_job.alive_at`)."""
    return func.coalesce(train_job.c.alive_at, train_job.c.created_at, type_=UtcTime()) < cutoff


# ---- Find the scalar series that the policy `keep_every_step_days` names: long ones, of jobs without recent sign of
# life
# In: the settings `keep_…`, a base dir, the database's time. Out: series, by job and number. Promises: only reads;
# names nothing while the clock is wrong; never names series of live jobs, of labelled jobs if these are kept, or
# series that were thinned before (if their file grows, ingest reads it again from its first byte).


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
    session: Session,
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
    if not settings.keep_every_step_days or clock.off_s(session, base_dir_id, now) is not None:
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
    return [Thinnable._make(row) for row in session.rows(wanted.order_by(*this).limit(limit))]
