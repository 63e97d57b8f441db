"""Removing jobs: they are taken out of readers' sight at once, and deleted later in bounded steps.

In: ids of jobs of one base dir. Out: a second base dir, marked as leaving, which has the jobs until
`remove_part` has deleted them. Promises: readers see either a whole job, or none and a tombstone in its
place. Labels and remarks stay with the base dir, in case the job comes back. What went at one time is one removal, by
whose number all of it can be brought back. Policies remove no more than
`removable_by_policies` says, which counts what they removed before, whichever process did it; and nothing while the
clock is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Row,
    Table,
    Text,
    case,
    cast,
    delete,
    func,
    insert,
    null,
    select,
    update,
)

from lineage_store.store import clock
from lineage_store.store.catalog import registry
from lineage_store.store.catalog.registry import BY_POLICY
from lineage_store.store.catalog.retention import Expired
from lineage_store.store.database.sql import Session, among, upsert
from lineage_store.store.schema import partitions
from lineage_store.store.schema.tables import (
    ANNOTATED,
    SAID,
    SAMPLES_OF,
    annotation,
    base_dir,
    in_series,
    ingest_problem,
    log_file,
    payload_sample,
    removal,
    scalar_bucket,
    scalar_sample,
    series,
    tombstone,
    train_job,
)
from lineage_store.store.writes.jobs import next_revision
from lineage_store.store.writes.lineage import remove_lineage
from lineage_store.texts import key

_A_DAY = timedelta(hours=24)
_FEWEST_A_DAY, _PART_A_DAY = 10, 10
"""In any 24 hours policies remove so many jobs of a base dir by themselves, or one in so many if that is more. What
fits the settings of a year goes within a few weeks; a wrong setting or a flood of jobs costs little before a person has
seen it."""


@dataclass(frozen=True, slots=True)
class RemovalCause:
    """Why and by whom jobs are removed: what is noted of a removal."""

    reason: str
    holder: str
    by_policy: bool = False
    confirmed: bool = False
    """Whether a person allowed policies to remove more jobs than they do by themselves, or whatever the clock says."""


def ensure_leaving(session: Session, base_dir_id: int, now: datetime) -> int:
    """Return the id of the base dir that holds what is being removed of this one; insert it if there is none."""
    return registry.ensure_base_dir(session, _leaving_name(session, base_dir_id), now, leaving=True)


def is_leaving(session: Session, base_dir_id: int) -> bool:
    """Whether jobs of a base dir are being removed, or an interrupted removal has left some."""
    return registry.base_dir_id(session, _leaving_name(session, base_dir_id)) is not None


def _leaving_name(session: Session, base_dir_id: int) -> str:
    path = select(base_dir.c.path).where(base_dir.c.id == base_dir_id)
    return name_while_leaving(session.value(path))


def begin_removal(
    session: Session,
    base_dir_id: int,
    leaving_id: int,
    job_ids: Sequence[int],
    cause: RemovalCause,
    now: datetime,
    number: int | None = None,
) -> int | None:
    """Take jobs of a base dir out of readers' sight, and insert tombstones with the reason.

    `number`: of the removal that these jobs are part of; None: a new one. Return its number, None without any job.
    """
    if job_ids:
        revision = next_revision(session, base_dir_id)
        number = _count_in(session, base_dir_id, len(job_ids), cause, now, number)
        _begin(session, leaving_id, job_ids, cause.reason, number, revision, now)
    return number


def begin_unchanged(
    session: Session,
    base_dir_id: int,
    leaving_id: int,
    named: Sequence[Expired],
    cause: RemovalCause,
    now: datetime,
    number: int | None = None,
) -> tuple[list[Expired], int | None]:
    """Take those jobs out of readers' sight that have not changed since policies named them, as many as may go.

    Return them, and the number of the removal as `begin_removal` does.
    """
    # First, so that no label can be given until the commit.
    revision = next_revision(session, base_dir_id)
    still = select(train_job.c.id, train_job.c.revision).where(
        train_job.c.base_dir_id == base_dir_id, among(session, train_job.c.id, (job.id for job in named))
    )
    known = {row.id: row.revision for row in session.rows(still)}
    going = [job for job in named if known.get(job.id) == job.revision]
    if not cause.confirmed:
        going = going[: removable_by_policies(session, base_dir_id, now)]
    if going:
        number = _count_in(session, base_dir_id, len(going), cause, now, number)
    for policy in sorted({job.policy for job in going}):
        jobs = [job.id for job in going if job.policy == policy]
        assert number is not None
        _begin(session, leaving_id, jobs, BY_POLICY + policy, number, revision, now)
    return going, number


def removable_by_policies(session: Session, base_dir_id: int, now: datetime) -> int:
    """Return how many jobs of a base dir policies may remove now by themselves: none while the clock is wrong."""
    if clock.off_s(session, base_dir_id, now) is not None:
        return 0
    lately = select(removal.c.id, removal.c.jobs).where(
        removal.c.base_dir_id == base_dir_id,
        removal.c.removed_at > now - _A_DAY,
        removal.c.by_policy,
        ~removal.c.confirmed,
    )
    removals: dict[int, int] = {row.id: row.jobs for row in session.rows(lately)}
    gone = sum(removals.values())
    stones = among(session, tombstone.c.removal_id, removals) & ~tombstone.c.lifted
    away: int = session.value(select(func.count()).select_from(tombstone).where(stones))
    had = registry.job_count(session, base_dir_id) + away
    return max(0, max(_FEWEST_A_DAY, had // _PART_A_DAY) - gone)


class WaitingJobs(NamedTuple):
    """What waits for a person, as it was stored last."""

    jobs: int
    clock_off_s: float | None


def noted_waiting(session: Session, base_dir_id: int) -> WaitingJobs:
    """Return what of a base dir waits for a person, as it was stored last."""
    noted = select(base_dir.c.jobs_waiting, base_dir.c.clock_off_s).where(base_dir.c.id == base_dir_id)
    row = session.first(noted)
    return WaitingJobs(0, None) if row is None else WaitingJobs(*row)


def note_waiting(
    session: Session, base_dir_id: int, jobs: int, clock_off_s: float | None, now: datetime
) -> None:
    """Store how many jobs wait for a person before they go, and how far the clock is off if policies rest for it."""
    waits = jobs > 0 or clock_off_s is not None
    since = case((base_dir.c.waits_since.is_(None), now), else_=base_dir.c.waits_since) if waits else null()
    this = update(base_dir).where(base_dir.c.id == base_dir_id)
    session.change(this.values(jobs_waiting=jobs, clock_off_s=clock_off_s, waits_since=since))


def _count_in(
    session: Session, base_dir_id: int, jobs: int, cause: RemovalCause, now: datetime, number: int | None
) -> int:
    """Add jobs to a removal, or begin one; return its number."""
    if number is not None:
        more = update(removal).where(removal.c.id == number)
        session.change(more.values(jobs=removal.c.jobs + jobs, removed_at=now))
        return number
    row = {"base_dir_id": base_dir_id, "removed_at": now, "jobs": jobs, "reason": cause.reason}
    row |= {"holder": cause.holder, "by_policy": cause.by_policy, "confirmed": cause.confirmed}
    made: int = session.value(insert(removal).returning(removal.c.id), row)
    return made


def _begin(
    session: Session,
    leaving_id: int,
    job_ids: Sequence[int],
    reason: str,
    number: int,
    revision: int,
    now: datetime,
) -> None:
    why = {"removed_at": now, "reason": reason, "removal_id": number, "revision": revision, "lifted": False}
    _bury(session, job_ids, why)
    # With the job's id, for an interrupted removal may have left a job with the same train id.
    unlike = train_job.c.train_id.concat(" ").concat(cast(train_job.c.id, Text))
    jobs = update(train_job).where(among(session, train_job.c.id, job_ids))
    session.change(jobs.values(base_dir_id=leaving_id, train_id=unlike))
    problems = update(ingest_problem).where(among(session, ingest_problem.c.job_id, job_ids))
    session.change(problems.values(base_dir_id=leaving_id))


def remove_series(session: Session, job_id: int, most_rows: int, *which: ColumnElement[bool]) -> int:
    """Delete series of a job and their samples, for which there is no foreign key; samples first.

    Return what is left of `most_rows` after the deleted rows; 0 or less means that there may be more to delete.
    """
    there = (series.c.sample_count - series.c.thinned_count).label("rows")
    told = (*(series.c[name] for name in ("series_no", "plugin", "first_step")), there)
    found = select(*told).where(series.c.job_id == job_id, *which)
    whole: dict[Table, list[int]] = {}
    for row in session.rows(found.limit(most_rows)):
        if row.rows > most_rows:
            _behead(session, job_id, row, most_rows)
            most_rows = 0
        else:
            whole.setdefault(SAMPLES_OF[row.plugin], []).append(row.series_no)
            most_rows -= row.rows + 1
        if most_rows <= 0:
            break
    for samples, numbers in whole.items():
        for table in (samples, scalar_bucket, series) if samples is scalar_sample else (samples, series):
            mine = among(session, table.c.series_no, numbers)
            session.change(delete(table).where(table.c.job_id == job_id, mine))
    return most_rows


def _behead(session: Session, job_id: int, of: Row[Any], rows: int) -> None:
    """Delete the first samples of a series, and note what is left, so that the next step begins behind them."""
    samples = SAMPLES_OF[of.plugin]
    step = samples.c.step
    this = job_id, of.series_no
    mine = in_series(samples, this) & (step >= of.first_step)
    behind = session.value(select(step).where(mine).order_by(step).offset(rows).limit(1))
    session.change(delete(samples).where(mine if behind is None else mine & (step < behind)))
    left = {
        "first_step": of.first_step if behind is None else behind,
        "sample_count": series.c.sample_count - rows,
    }
    session.change(update(series).where(in_series(series, this)).values(left))


def name_while_leaving(path: str) -> str:
    """Return the name, which is no path, of the base dir that holds what is being removed of the one at `path`."""
    return f"being removed: {path}"


def lift(session: Session, base_dir_id: int, train_id: str) -> bool:
    """Allow a removed job to be ingested again; return whether it was removed at all."""
    return lift_all(session, base_dir_id, [train_id]) > 0


def lift_all(session: Session, base_dir_id: int, train_ids: Collection[str]) -> int:
    """Allow removed jobs to be ingested again; return how many of them were removed at all."""
    mine = (tombstone.c.base_dir_id == base_dir_id) & ~tombstone.c.lifted
    these = mine & among(session, tombstone.c.train_id, train_ids)
    count: int = session.value(select(func.count()).select_from(tombstone).where(these))
    if count:
        lifted = {"lifted": True, "revision": next_revision(session, base_dir_id)}
        session.change(update(tombstone).where(these).values(lifted))
    return count


def _bury(session: Session, job_ids: Sequence[int], why: Mapping[str, Any]) -> None:
    removed = select(
        train_job.c.base_dir_id,
        train_job.c.train_id,
        func.coalesce(train_job.c.last_file_time, 0).label("last_file_time"),
        train_job.c.created_at.label("first_seen_at"),
    ).where(among(session, train_job.c.id, job_ids))
    rows = [{**row, **why} for row in session.mappings(removed)]
    keys, rest = ["base_dir_id", "train_id"], ["last_file_time", "first_seen_at", *why]
    session.change(upsert(session, tombstone, keys, rest), rows)


# ---- Forgetting a base dir: all its rows are deleted, in bounded steps
# In: a session and a base dir. Out: what the store has of it, and whether there is more to delete. Promises: from
# the first step on, the base dir is no longer known by its path. The rows left are under a name that is no path, so
# that after an interruption nothing is ingested into them, the path can be ingested anew, and the removal can be
# resumed.

_MOST_JOBS = 200
"""How many jobs one step deletes: a job's rows in other tables than those of samples and series, which are bounded, are
not counted."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """How much the store holds of a base dir."""

    jobs: int
    annotated: int
    """How many of the jobs have a label or a remark, which exist nowhere else."""
    of_removed: int = 0
    """How many jobs that were removed have a label or a remark, which they get back when they are read again."""


def ids_of(session: Session, path: str) -> list[int]:
    """Return the ids of the base dir at a stored path, if it is known, and of what interrupted removals left of it."""
    rows = session.rows(select(base_dir.c.id, base_dir.c.path).order_by(base_dir.c.id))
    going = name_while_leaving(path)
    return [row.id for row in rows if row.path in (path, going, _name_while_going(row.id, path))]


def count_holdings(session: Session, ids: Sequence[int]) -> Holdings:
    """Count what the store holds of these base dirs."""
    jobs = session.value(select(func.count()).where(train_job.c.base_dir_id.in_(ids)))
    said = select(func.count()).select_from(annotation).where(annotation.c.base_dir_id.in_(ids), SAID)
    everybodys = session.value(said)
    annotated = session.value(said.join(train_job, ANNOTATED))
    return Holdings(jobs, annotated, everybodys - annotated)


def begin_forgetting(session: Session, base_dir_id: int, path: str) -> None:
    """Rename a base dir, so that it is no longer known by its path."""
    name = _name_while_going(base_dir_id, path)
    renamed = update(base_dir).where(base_dir.c.id == base_dir_id)
    session.change(renamed.values(path=name, path_key=key(name), leaving=True))


def remove_part(session: Session, base_dir_id: int, most_rows: int) -> bool:
    """Delete about `most_rows` samples and series at most, and jobs that then have none. The last step deletes the row
    of the base dir.

    Return whether there may be more to delete.
    """
    next_jobs = select(train_job.c.id).where(train_job.c.base_dir_id == base_dir_id).order_by(train_job.c.id)
    jobs = session.column(next_jobs.limit(min(most_rows, _MOST_JOBS)))
    with_partition = partitions.going_whole(session, base_dir_id, jobs)
    some = list(_first_of_at_most(most_rows, jobs, _sizes(session, jobs, with_partition)))
    if not jobs:
        registry.drop_base_dir(session, base_dir_id)
    elif not some:
        remove_series(session, jobs[0], most_rows)
    else:
        one_by_one = [job_id for job_id in some if job_id not in with_partition]
        for table in (scalar_sample, payload_sample):
            session.change(delete(table).where(among(session, table.c.job_id, one_by_one)))
        remove_lineage(session, some)
        # Foreign keys would not do: samples and buckets have none.
        for table in (scalar_bucket, series, log_file, ingest_problem):
            session.change(delete(table).where(among(session, table.c.job_id, some)))
        session.change(delete(train_job).where(among(session, train_job.c.id, some)))
    return bool(jobs)


def _sizes(session: Session, jobs: Collection[int], with_partition: Collection[int]) -> dict[int, int]:
    """How many rows of series and samples jobs have, without samples whose partition is dropped as a whole. Jobs
    without series are left out."""
    job_id, samples = series.c.job_id, func.sum(series.c.sample_count - series.c.thinned_count)
    sizes = select(job_id, func.count(), samples).where(among(session, job_id, jobs)).group_by(job_id)
    return {
        row[0]: row[1] if row[0] in with_partition else row[1] + int(row[2]) for row in session.rows(sizes)
    }


def _first_of_at_most(most_rows: int, jobs: Iterable[int], sizes: Mapping[int, int]) -> Iterator[int]:
    """The first of the jobs, as many as have at most `most_rows` rows together."""
    for job_id in jobs:
        most_rows -= sizes.get(job_id, 0)
        if most_rows < 0:
            return
        yield job_id


def _name_while_going(base_dir_id: int, path: str) -> str:
    return f"being forgotten ({base_dir_id}): {path}"


# ---- Giving a base dir another path
# In: a write transaction, a base dir, two stored paths. Out: the base dir, and what is still being removed of it,
# under the new path. Promises: the rows of its jobs are not touched. Those who follow its changes learn that the old
# path is forgotten and see all of the new one, for a position in the changes belongs to a path.


def rename(session: Session, base_dir_id: int, old: str, new: str) -> None:
    """Rename a base dir. A base dir without jobs that is known at the new path is forgotten."""
    registry.forget_base_dir(session, new)
    rows = select(base_dir.c.id, base_dir.c.path, base_dir.c.moved_from)
    for row in session.rows(rows.where(base_dir.c.id.in_(ids_of(session, old)))):
        path = row.path.removesuffix(old) + new
        values: dict[str, str | int] = {"path": path, "path_key": key(path)}
        if row.id == base_dir_id:
            before = {*json.loads(row.moved_from or "[]"), old} - {new}
            values["moved_from"] = json.dumps(sorted(before))
        session.change(update(base_dir).where(base_dir.c.id == row.id).values(values))
    next_revision(session, base_dir_id)
