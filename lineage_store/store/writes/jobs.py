"""The rows of jobs, derived from their log files; their revisions; labels and remarks.

In: ids of jobs, whose lineage is folded. Out: updated rows of `train_job`, by one statement for all. Promises: they
depend only on the rows of log files and lineage and on the time, not on the order of events. A reader that sees a base
dir at revision N sees all changes up to N and none after: the base dir's row stays locked until the transaction ends,
so the next revision is taken only after the commit. No revision is used twice, even when a power cut undoes commits
that were not synced, for revisions follow the clock.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Subquery,
    Update,
    and_,
    bindparam,
    case,
    false,
    func,
    null,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.dml import ReturningUpdate

from lineage_store.fields import OUTCOME
from lineage_store.plain_values import CALENDAR_END, PLAUSIBLE_SINCE
from lineage_store.states import JOB_TRANSITIONS, WAITING_IN, FileState, JobEvent, JobState, Outcome
from lineage_store.store.database.sql import (
    Session,
    UtcTime,
    among,
    instant_of,
    listed,
    one_of,
    total,
    unix_ms,
    upsert,
)
from lineage_store.store.leases import Shards
from lineage_store.store.schema.tables import (
    annotation,
    base_dir,
    file_lineage,
    log_file,
    of_file,
    train_job,
    user_info,
)
from lineage_store.texts import key

_CLOSES_WITHIN_S = 60
"""How long after it recorded the end of its training a writer may write what belongs to it."""
Columns = ReadOnlyColumnCollection[str, Any]


def refresh_jobs(
    session: Session,
    base_dir_id: int,
    job_ids: Collection[int],
    now: datetime,
    live_within_s: float,
) -> None:
    """Derive the rows of jobs of a base dir from their log files, and give them its next revision.

    A job is live when a log file has grown in the last `live_within_s` seconds.
    """
    if not job_ids:
        return
    revision = next_revision(session, base_dir_id)
    dialect_name, grown_since = session.kind, now - timedelta(seconds=live_within_s)
    jobs = {"jobs": listed(dialect_name, job_ids), "grown_since": grown_since, "of_revision": revision}
    session.change(_refresh(dialect_name), jobs)


def quiet_jobs(
    session: Session, base_dir_id: int, shards: Shards, now: datetime, live_within_s: float
) -> list[int]:
    """Return the jobs that are marked live but have not grown for `live_within_s` seconds."""
    quiet = train_job.c.last_grown_at < now - timedelta(seconds=live_within_s)
    live = (train_job.c.state == JobState.LIVE) & quiet
    jobs = select(train_job.c.id).where(*shards.conditions(base_dir_id), live)
    return session.column(jobs)


def at_rest(session: Session, job_ids: Collection[int]) -> list[int]:
    """Return which of some jobs are neither being read nor live."""
    rests = train_job.c.state.not_in([JobState.READING, JobState.LIVE])
    these = select(train_job.c.id).where(among(session, train_job.c.id, job_ids), rests)
    return session.column(these)


def _streams(dialect_name: str) -> Subquery:
    """The files of jobs, grouped into those that continue each other: of one job, kind and device.

    Of copies no more counts than that they are there.
    """
    files, end = _files(dialect_name), _recorded_ends(dialect_name)
    file, lineage = files.c, file_lineage.c
    is_closed = or_(file.closed, func.coalesce(_is_ended(file, end.c, lineage), false()))
    present = file.state != FileState.MISSING
    counts = file.copy_of.is_(None)
    waits = and_(file.current, file.state.in_(WAITING_IN))
    time = case((file.file_time <= CALENDAR_END, file.file_time))
    newest = func.max(file.file_time)
    streams = select(
        file.job_id,
        func.count().filter(present).label("present"),
        (newest.filter(present, counts, ~is_closed) == newest.filter(present, counts)).label("is_written"),
        func.max(file.grown_at).filter(present, counts).label("present_grown_at"),
        func.count().filter(waits, file.unread).label("unread"),
        func.count().filter(waits, file.stat_stamp.is_(None)).label("waiting"),
        func.max(file.modified_s).filter(counts).label("update_time"),
        func.min(time).filter(counts).label("first_file_time"),
        func.max(time).filter(counts).label("last_file_time"),
        func.max(file.last_wall_time).filter(file.current).label("last_wall_time"),
        func.max(_begun_at(dialect_name, file)).filter(file.current).label("begun_at"),
        func.max(_alive_at(dialect_name, file)).filter(file.current).label("alive_at"),
        func.max(file.grown_at).filter(counts).label("last_grown_at"),
        total(dialect_name, case((file.current, file.size_bytes), else_=0)).label("log_bytes"),
        func.max(case((file.newest == 1, file.host))).filter(file.host != "").label("host"),
    )
    of_device = and_(
        end.c.job_id == file.job_id, func.coalesce(end.c.device, -1) == func.coalesce(file.device, -1)
    )
    its_lineage = and_(lineage.job_id == file.job_id, lineage.file_no == file.file_no)
    joined = files.outerjoin(end, of_device).outerjoin(file_lineage, its_lineage)
    return streams.select_from(joined).group_by(file.job_id, file.kind, file.device).subquery()


def _is_ended(file: Columns, end: Columns, lineage: Columns) -> ColumnElement[bool]:
    """Whether a recorded end of a training says that a log file of its device is finished, whatever its mode.

    Evaluations are made after the end. A summary file is finished if it was begun before the end and holds nothing that
    came later: no event, and no growth that was seen after the end had been read.
    """
    not_later = tuple_(file.file_time, file.name) <= tuple_(end.file_time, end.name)
    only_evaluations = lineage.events == lineage.evaluations
    grown_later = and_(file.grown_at > end.end_read_at, file.last_wall_time >= end.ended_at)
    has_later = or_(
        file.last_wall_time > end.ended_at + _CLOSES_WITHIN_S, func.coalesce(grown_later, false())
    )
    begun_before = (
        file.file_time <= end.ended_at + 1
    )  # names have whole seconds, and two records never share one
    return case(
        (end.ended_at.is_(None), false()),
        (file.kind == "lineage", or_(not_later, func.coalesce(only_evaluations, false()))),
        else_=and_(begun_before, ~func.coalesce(has_later, false())),
    )


def _recorded_ends(dialect_name: str) -> Subquery:
    """The ends that were recorded of the newest training of each device of a job, if that has ended."""
    lineage, file = file_lineage.c, log_file.c
    newest_first = (file.file_time.desc(), file.name.desc())
    trainings = (
        select(
            file.job_id,
            file.device,
            file.file_time,
            file.name,
            *(lineage.ended_at, lineage.end_read_at),
            (lineage.end_at > func.coalesce(lineage.dataset_graph_at, -1)).label("has_ended"),
            func.row_number()
            .over(partition_by=(file.job_id, file.device), order_by=newest_first)
            .label("place"),
        )
        .join_from(file_lineage, log_file, of_file(file_lineage))
        .where(one_of(dialect_name, lineage.job_id, bindparam("jobs")), file.current)
        .where(or_(lineage.end_at.is_not(None), lineage.dataset_graph_at.is_not(None)))
        .subquery()
    )
    return select(trainings).where(trainings.c.place == 1, trainings.c.has_ended).subquery()


def _begun_at(dialect_name: str, file: Any) -> ColumnElement[datetime | None]:
    """When a log file was begun: as it says, but not after the store first saw it; NULL without any event.

    Neither its name nor its modification time counts: anybody may choose these.
    """
    recorded = _instant(dialect_name, file.first_wall_time)
    return case(
        (file.event_count == 0, null()), (recorded < file.created_at, recorded), else_=file.created_at
    )


def _alive_at(dialect_name: str, file: Any) -> ColumnElement[datetime | None]:
    """When a log file last gave a sign of life: its last event as it says, but not after the store had seen that, or
    when the store itself saw it grow; NULL without any event."""
    looked_at = func.coalesce(file.growth_seen_at, file.created_at, type_=UtcTime())
    recorded = _instant(dialect_name, file.last_wall_time)
    said = case((recorded < looked_at, recorded), else_=looked_at)
    return case(
        (file.event_count == 0, null()), (file.growth_seen_at > said, file.growth_seen_at), else_=said
    )


def _instant(dialect_name: str, wall_time: ColumnElement[float]) -> ColumnElement[datetime | None]:
    """Return a wall time as a point in time; NULL for one that cannot be right, whatever the time is."""
    return case((wall_time.between(PLAUSIBLE_SINCE, CALENDAR_END), instant_of(dialect_name, wall_time)))


def _files(dialect_name: str) -> Subquery:
    """The files of jobs, without replaced generations, numbered from the newest: those that name a host separately."""
    file = log_file.c
    newest_first = (file.copy_of.is_not(None), file.file_time.desc(), file.name.desc())
    numbered = func.row_number().over(partition_by=(file.job_id, file.host != ""), order_by=newest_first)
    mine = one_of(dialect_name, file.job_id, bindparam("jobs"))
    files = select(log_file, numbered.label("newest"))
    return files.where(mine, file.state != FileState.REPLACED).subquery()


def _ends(dialect_name: str) -> Subquery:
    """For jobs with an event of a training's beginning (its dataset pipeline) or end, whether the newest file with
    such an event has that of the end."""
    ended, begun = (
        column.is_not(None) for column in (file_lineage.c.train_at, file_lineage.c.dataset_graph_at)
    )
    time = log_file.c.file_time
    ends = (
        select(file_lineage.c.job_id, (func.max(case((ended, time))) == func.max(time)).label("is_ended"))
        .join(log_file, of_file(file_lineage))
        .where(one_of(dialect_name, file_lineage.c.job_id, bindparam("jobs")), log_file.c.current)
        .where(or_(ended, begun))
    )
    return ends.group_by(file_lineage.c.job_id).subquery()


def _with_outcome(job: Subquery, dialect_name: str) -> Subquery:
    """Jobs with how their trainings ended: by the end record, else by the events of the training."""
    end, said = _ends(dialect_name), user_info.c
    is_said = and_(said.job_id == job.c.job_id, said.name_key == key(OUTCOME), said.text.in_(tuple(Outcome)))
    outcome = case(
        (job.c.state.in_([JobState.LIVE, JobState.READING]), null()),
        (said.text.is_not(None), said.text),
        (end.c.is_ended, Outcome.COMPLETED.value),
        (and_(end.c.job_id.is_not(None), job.c.state == JobState.FINISHED), Outcome.INTERRUPTED.value),
    )
    known = job.outerjoin(end, end.c.job_id == job.c.job_id).outerjoin(user_info, is_said)
    return select(job, outcome.label("outcome")).select_from(known).subquery()


def _after(event: JobEvent) -> str:
    return JOB_TRANSITIONS[event].after.value


@cache
def _refresh(dialect_name: str) -> Update:
    stream = _streams(dialect_name).c
    grown_since = bindparam("grown_since", type_=log_file.c.grown_at.type)
    is_closed = func.count().filter(stream.is_written) == 0
    has_grown = func.max(stream.present_grown_at) >= grown_since
    state = case(
        (func.sum(stream.present) == 0, _after(JobEvent.GONE)),
        (func.sum(stream.unread) > 0, _after(JobEvent.WAITED)),
        (and_(is_closed, func.sum(stream.waiting) == 0), _after(JobEvent.CLOSED)),
        (and_(~is_closed, has_grown), _after(JobEvent.GREW)),
        (func.sum(stream.waiting) > 0, _after(JobEvent.WAITED)),
        else_=_after(JobEvent.QUIET),
    )
    jobs = select(
        stream.job_id,
        state.label("state"),
        (func.sum(stream.present) > 0).label("source_present"),
        func.max(stream.update_time).label("update_time"),
        func.min(stream.first_file_time).label("first_file_time"),
        func.max(stream.last_file_time).label("last_file_time"),
        func.max(stream.last_wall_time).label("last_wall_time"),
        func.max(stream.last_grown_at).label("last_grown_at"),
        func.max(stream.begun_at).label("begun_at"),
        func.max(stream.alive_at).label("alive_at"),
        total(dialect_name, stream.log_bytes).label("log_bytes"),
        func.max(stream.host).label("host"),
    )
    job = _with_outcome(jobs.group_by(stream.job_id).subquery(), dialect_name)
    derived: dict[str, Any] = {column.name: column for column in job.c if column is not job.c.job_id}
    for name in ("begun_at", "alive_at"):  # without any event: when the store first saw the job
        derived[name] = func.coalesce(job.c[name], train_job.c.created_at)
    derived |= {"revision": bindparam("of_revision")}
    return update(train_job).where(train_job.c.id == job.c.job_id).values(derived)


# ---- Revisions: numbers by which readers find the jobs of a base dir that have changed since they last asked


def next_revision(session: Session, base_dir_id: int) -> int:
    """Return a base dir's next revision, which the caller stores on all that changes: jobs and tombstones.

    Take it late in a transaction: others, such as one that stores a remark, wait for the same row.
    """
    taken: int = session.value(_take_next(session.kind), {"of_id": base_dir_id})
    return taken


@cache
def _take_next(dialect_name: str) -> ReturningUpdate[Any]:
    now, last = unix_ms(dialect_name), base_dir.c.revision
    this = update(base_dir).where(base_dir.c.id == bindparam("of_id"))
    return this.values(revision=case((now > last, now), else_=last + 1)).returning(last)


def stamp(session: Session, base_dir_id: int, job_ids: Collection[int]) -> None:
    """Give jobs the next revision of their base dir, because something has changed that readers see."""
    if job_ids:
        changed = update(train_job).where(among(session, train_job.c.id, job_ids))
        session.change(changed.values(revision=next_revision(session, base_dir_id)))


# ---- Labels and remarks that people give jobs. They belong to (base dir, train id), and stay when a job is read again


def annotate(
    session: Session, base_dir_id: int, train_id: str, changes: dict[str, Any], now: datetime
) -> None:
    """Set `tag` or `remark` of a job, or both: those that are in `changes`."""
    row = {"base_dir_id": base_dir_id, "train_id": train_id, "updated_at": now, **changes}
    statement = upsert(session, annotation, ["base_dir_id", "train_id"], ["updated_at", *changes])
    session.change(statement, row)
    this = (train_job.c.base_dir_id == base_dir_id) & (train_job.c.train_id == train_id)
    stamp(session, base_dir_id, session.column(select(train_job.c.id).where(this)))
