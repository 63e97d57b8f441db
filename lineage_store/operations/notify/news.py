"""Read the events that a plan notifies of from the store.

In: an open read transaction, a plan, the place reached by the previous call. Out: events, and the place reached now.
Promises: all events since the previous call are returned, some perhaps again in the next one; each has a key, by which
the caller sends it once. Events older than REMEMBERED, also by the clock of the training's host, are left out. The new
problems of one kind of a job are one event, so that its size and number do not grow with the number of damaged files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from sqlalchemy import Connection, case, column, func, select, table

from lineage_store.json_values import for_json, iso
from lineage_store.operations.notify.plan import FINISHED, LAG, METRIC, PROBLEM, Plan
from lineage_store.query.change_cursor import decode, encode
from lineage_store.query.changes import ChangeKind, read_changes
from lineage_store.query.status import problem_of
from lineage_store.query.views import view_select
from lineage_store.states import JobState
from lineage_store.store.catalog import policies
from lineage_store.store.database.dialects import among, among_rows
from lineage_store.store.database.types import Key, UtcTime
from lineage_store.store.notified import REMEMBERED, Place
from lineage_store.store.schema.tables import base_dir, metric, train_job
from lineage_store.texts import from_stored, key, to_stored

MARGIN = timedelta(hours=1)
"""Maximum time from when a problem is first seen to its commit, and from a job's last growth to its end."""
_JOBS_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    kind: str
    base_dir: str
    train_id: str | None
    what: str
    at: datetime | None
    told_once: str
    """Distinguishes it from other events of the same kind, base dir and job."""
    share: str = ""
    """Events of the same job and share are sent at intervals, not as often as they happen; empty: at once."""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def owner(self) -> tuple[str, str]:
        """What the event is about, which has its turn in a message: a job; or a directory, or the base dir."""
        return self.base_dir, self.train_id or self.share

    @property
    def key(self) -> int:
        """A key that is the same whenever the event is read."""
        return key(to_stored("\0".join((self.kind, self.base_dir, self.train_id or "", self.told_once))))

    def as_json(self) -> dict[str, Any]:
        """Return the event's part of a message."""
        told: dict[str, Any] = for_json(
            {
                "id": f"{self.key & (1 << 64) - 1:016x}",
                "kind": self.kind,
                "base_dir": to_stored(self.base_dir),
                "train_id": None if self.train_id is None else to_stored(self.train_id),
                "what": to_stored(self.what),
                "at": self.at,
                **self.details,
            }
        )
        return told


def read_news(
    connection: Connection, plan: Plan, before: Place, now: datetime
) -> tuple[Iterator[Event], Place, bool]:
    """Return the events since `before`, the place reached, and whether there are more to read at once.

    The events are read while they are iterated: problems may be those of very many jobs.
    """
    since = max(before.begun_at, now - REMEMBERED)
    page = read_changes(connection, decode(before.since), limit=_JOBS_AT_A_TIME)
    names = [
        (to_stored(change.base_dir), to_stored(change.train_id or ""))
        for change in page.changes
        if change.kind == ChangeKind.CHANGED
    ]
    found = [
        _of_jobs(connection, plan, names, since, now) if names else (),
        _lags(connection, now, plan.lag_s) if LAG in plan.kinds else (),
        _problems(connection, max(since, before.at - MARGIN)) if PROBLEM in plan.kinds else (),
        _waiting(connection) if PROBLEM in plan.kinds else (),
    ]
    return chain.from_iterable(found), Place(encode(page.cursor), now, before.begun_at), page.more


def _of_jobs(
    connection: Connection, plan: Plan, names: Sequence[tuple[str, str]], since: datetime, now: datetime
) -> Iterator[Event]:
    last = func.coalesce(train_job.c.last_wall_time, train_job.c.last_file_time, 0)
    jobs = select(train_job, base_dir.c.path).join(base_dir, base_dir.c.id == train_job.c.base_dir_id)
    wanted = jobs.where(
        among_rows(connection, (base_dir.c.path, train_job.c.train_id), names),
        train_job.c.last_grown_at >= since - MARGIN,
        last >= (now - REMEMBERED).timestamp(),
    )
    rows = {row.id: row for row in connection.execute(wanted)}
    finished = [id_ for id_, row in rows.items() if FINISHED in plan.kinds and row.state == JobState.FINISHED]
    columns: list[Any] = [column("job_id", Key), column("outcome")]
    v_job = select(*columns).select_from(table("v_job"))
    for id_, outcome in connection.execute(v_job.where(among(connection, columns[0], finished))):
        row = rows[id_]
        place = from_stored(row.path), from_stored(row.train_id)
        what = f"It has finished: {outcome}." if outcome else "It has finished."
        details = {"outcome": outcome}
        yield Event(FINISHED, *place, what, row.last_grown_at, str(row.last_file_time), details=details)
    if METRIC in plan.kinds and plan.bounds and rows:
        yield from _beyond_bounds(connection, plan, rows)


def _beyond_bounds(connection: Connection, plan: Plan, jobs: dict[int, Any]) -> Iterator[Event]:
    named = {key(to_stored(bound.metric)) for bound in plan.bounds}
    wanted = select(metric.c.job_id, metric.c.name, metric.c.value).where(
        among(connection, metric.c.job_id, jobs), metric.c.name_key.in_(named), metric.c.value.is_not(None)
    )
    for job_id, name, value in connection.execute(wanted):
        for bound in plan.bounds:
            if bound.metric == from_stored(name) and bound.is_passed_by(value):
                job = jobs[job_id]
                place = from_stored(job.path), from_stored(job.train_id)
                details = {"metric": bound.metric, "value": value, "bound": str(bound)}
                what = f"{bound.metric} is {value:g}: {bound}."
                yield Event(METRIC, *place, what, job.last_grown_at, str(bound), details=details)


def _problems(connection: Connection, since: datetime) -> Iterator[Event]:
    """Yield an event for the new problems of each kind of each job, with the newest of them."""
    rows = view_select("v_ingest_problem")
    column = rows.selected_columns
    # Problems of no job are of as many directories, of which each is told.
    alike = (
        column["base_dir"],
        column["job_id"],
        case((column["job_id"].is_(None), column["path"])),
        column["kind"],
    )
    newest = column["first_seen_at"].desc(), column["path"].desc()
    ranked = rows.add_columns(
        func.row_number().over(partition_by=alike, order_by=newest).label("turn"),
        func.sum(column["problems"]).over(partition_by=alike).label("new"),
    ).where(column["first_seen_at"] >= since)
    found = ranked.subquery()
    newest_first = select(found).where(found.c.turn == 1).order_by(found.c.first_seen_at.desc())
    with connection.execute(newest_first, execution_options={"yield_per": 500}) as read:
        for row in read.mappings():
            yield _of_problems(row)


def _of_problems(row: Mapping[Any, Any]) -> Event:
    found = problem_of(row)
    train_id = None if row["train_id"] is None else from_stored(row["train_id"])
    this = f"{row['kind']} {row['path']} {row['range_start']} {iso(row['first_seen_at'])}"
    details = {
        "problem": found.kind,
        "severity": str(found.severity),
        "path": found.subject,
        "remedy": found.remedy,
        "resolved_at": found.until,
        "problems": int(row["new"]),
    }
    alone = row["new"] == found.problems
    what = found.what if alone else f"{row['new']:,} new ones, such as {row['path']}: {found.what}"
    place, share = (from_stored(row["base_dir"]), train_id), f"{found.kind} {'' if train_id else row['path']}"
    return Event(PROBLEM, *place, f"{found.title}: {what}", found.since, this, share, details)


def _waiting(connection: Connection) -> Iterator[Event]:
    """Yield what policies wait for, once for each time that they began to."""
    for found in policies.waiting(connection):
        details = {
            "problem": found.kind,
            "severity": str(found.severity),
            "path": from_stored(found.subject),
            "remedy": found.remedy,
            "resolved_at": None,
        }
        what, this = f"{found.title}: {found.what}", f"{found.kind} since {found.since}"
        yield Event(PROBLEM, from_stored(found.subject), None, what, found.since, this, found.kind, details)


def _lags(connection: Connection, now: datetime, lag_s: float) -> Iterator[Event]:
    searched = func.coalesce(base_dir.c.discovered_at, base_dir.c.created_at, type_=UtcTime())
    wanted = select(base_dir.c.path, searched).where(~base_dir.c.leaving)
    for path, searched_at in connection.execute(wanted):
        if (now - searched_at).total_seconds() > lag_s:
            what = f"It was last searched in full at {iso(searched_at)}."
            yield Event(LAG, from_stored(path), None, what, searched_at, iso(searched_at))
