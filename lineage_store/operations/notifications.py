"""Notify a webhook or a command of events: which events, to whom, and which were sent already."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, NamedTuple

from sqlalchemy import Engine, case, column, func, select, table, update
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.findings import in_turn
from lineage_store.operations.delivery import FINISHED, LAG, METRIC, PROBLEM, NotTakenError, Plan, deliver
from lineage_store.plain_values import for_json, iso
from lineage_store.query.changes import ChangeKind, current_cursor, decode, encode, read_changes
from lineage_store.query.status import problem_of, view_select
from lineage_store.states import JobState
from lineage_store.store.catalog import retention
from lineage_store.store.database.db import apart, identity, reading, writing
from lineage_store.store.database.sql import Key, Session, UtcTime, among, among_rows, upsert
from lineage_store.store.leases import holder_name, lives
from lineage_store.store.schema.tables import base_dir, metric, notified, notifier, train_job
from lineage_store.texts import from_stored, key, to_stored

# ---- Read the events that a plan notifies of from the store
# In: an open read transaction, a plan, the place reached by the previous call. Out: events, and the place reached
# now. Promises: all events since the previous call are returned, some perhaps again in the next one; each has a key,
# by which the caller sends it once. Events older than REMEMBERED, also by the clock of the training's host, are left
# out. The new problems of one kind of a job are one event, so that its size and number do not grow with the number of
# damaged files.


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
    session: Session, plan: Plan, before: NotifierPlace, now: datetime
) -> tuple[Iterator[Event], NotifierPlace, bool]:
    """Return the events since `before`, the place reached, and whether there are more to read at once.

    The events are read while they are iterated: problems may be those of very many jobs.
    """
    since = max(before.begun_at, now - REMEMBERED)
    page = read_changes(session, decode(before.since), limit=_JOBS_AT_A_TIME)
    names = [
        (to_stored(change.base_dir), to_stored(change.train_id or ""))
        for change in page.changes
        if change.kind == ChangeKind.CHANGED
    ]
    found = [
        _of_jobs(session, plan, names, since, now) if names else (),
        _lags(session, now, plan.lag_s) if LAG in plan.kinds else (),
        _problems(session, max(since, before.at - MARGIN)) if PROBLEM in plan.kinds else (),
        _waiting(session) if PROBLEM in plan.kinds else (),
    ]
    return chain.from_iterable(found), NotifierPlace(encode(page.cursor), now, before.begun_at), page.more


def _of_jobs(
    session: Session, plan: Plan, names: Sequence[tuple[str, str]], since: datetime, now: datetime
) -> Iterator[Event]:
    last = func.coalesce(train_job.c.last_wall_time, train_job.c.last_file_time, 0)
    jobs = select(train_job, base_dir.c.path).join(base_dir, base_dir.c.id == train_job.c.base_dir_id)
    wanted = jobs.where(
        among_rows(session, (base_dir.c.path, train_job.c.train_id), names),
        train_job.c.last_grown_at >= since - MARGIN,
        last >= (now - REMEMBERED).timestamp(),
    )
    rows = {row.id: row for row in session.rows(wanted)}
    finished = [id_ for id_, row in rows.items() if FINISHED in plan.kinds and row.state == JobState.FINISHED]
    columns: list[Any] = [column("job_id", Key), column("outcome")]
    v_job = select(*columns).select_from(table("v_job"))
    for id_, outcome in session.rows(v_job.where(among(session, columns[0], finished))):
        row = rows[id_]
        place = from_stored(row.path), from_stored(row.train_id)
        what = f"It has finished: {outcome}." if outcome else "It has finished."
        details = {"outcome": outcome}
        yield Event(FINISHED, *place, what, row.last_grown_at, str(row.last_file_time), details=details)
    if METRIC in plan.kinds and plan.bounds and rows:
        yield from _beyond_bounds(session, plan, rows)


def _beyond_bounds(session: Session, plan: Plan, jobs: dict[int, Any]) -> Iterator[Event]:
    named = {key(to_stored(bound.metric)) for bound in plan.bounds}
    wanted = select(metric.c.job_id, metric.c.name, metric.c.value).where(
        among(session, metric.c.job_id, jobs), metric.c.name_key.in_(named), metric.c.value.is_not(None)
    )
    for job_id, name, value in session.rows(wanted):
        for bound in plan.bounds:
            if bound.metric == from_stored(name) and bound.is_passed_by(value):
                job = jobs[job_id]
                place = from_stored(job.path), from_stored(job.train_id)
                details = {"metric": bound.metric, "value": value, "bound": str(bound)}
                what = f"{bound.metric} is {value:g}: {bound}."
                yield Event(METRIC, *place, what, job.last_grown_at, str(bound), details=details)


def _problems(session: Session, since: datetime) -> Iterator[Event]:
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
    for some in session.stream(newest_first, 500):
        for row in some:
            yield _of_problems(row._mapping)


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


def _waiting(session: Session) -> Iterator[Event]:
    """Yield what policies wait for, once for each time that they began to."""
    for found in retention.waiting(session):
        details = {
            "problem": found.kind,
            "severity": str(found.severity),
            "path": from_stored(found.subject),
            "remedy": found.remedy,
            "resolved_at": None,
        }
        what, this = f"{found.title}: {found.what}", f"{found.kind} since {found.since}"
        yield Event(PROBLEM, from_stored(found.subject), None, what, found.since, this, found.kind, details)


def _lags(session: Session, now: datetime, lag_s: float) -> Iterator[Event]:
    searched = func.coalesce(base_dir.c.discovered_at, base_dir.c.created_at, type_=UtcTime())
    wanted = select(base_dir.c.path, searched).where(~base_dir.c.leaving)
    for path, searched_at in session.rows(wanted):
        if (now - searched_at).total_seconds() > lag_s:
            what = f"It was last searched in full at {iso(searched_at)}."
            yield Event(LAG, from_stored(path), None, what, searched_at, iso(searched_at))


# ---- A thread that sends notifications of events, and remembers in the store which it has sent
# In: an engine, a plan, which may change. Out: messages to a webhook or command. Promises: each event is sent at
# least once, even after restarts and outages of the receiver, and only once unless the process ends between sending
# and remembering it; only one of a store's daemons sends at a time; ingest never waits for it, as it has its own
# thread and connections, and no transaction is open while it sends. A message has about _EVENTS_AT_A_TIME events at
# most, one of every job before a second of any, so that a job with very many does not delay the others. The address
# is never logged.


log = logging.getLogger(__name__)

_LOOKS_EVERY_S, _SHARE = 1.0, 0.1
"""Seconds between two looks for events, and the maximum share of the time that looking takes, sending apart."""
_LONGEST_WAIT_S = 60.0
_HELD, _RENEWED = timedelta(seconds=60), timedelta(seconds=40)
"""Duration of the right to send, and the remaining time below which it is renewed before sending."""
_EVENTS_AT_A_TIME = 100
_MOST_WAITING = 1000
"""How many problems are told one by one when very many jobs have new ones at once; the others are told together."""
JOB_RESTS_S = 60.0
"""Minimum time between two events about problems of the same kind of a job; it must be shorter than news.MARGIN."""
_LOGGED_EVERY_S = 60.0
_ENDS_WITHIN_S = 2.0


@contextmanager
def notifying(
    engine: Engine, plan: Plan | None, *, allow_network_filesystem: bool = False
) -> Iterator[Notifier]:
    """Send notifications while the block runs."""
    own = apart(engine, allow_network_filesystem=allow_network_filesystem)
    here = Notifier(own)
    here.use(plan)
    thread = threading.Thread(target=here.run, name="notify", daemon=True)
    thread.start()
    try:
        yield here
    finally:
        here.end()
        thread.join(_ENDS_WITHIN_S)  # the next daemon sends an unfinished message again
        own.dispose()


class Sent(NamedTuple):
    """An event to be sent, and the keys of those for which it stands."""

    event: Event
    keys: Sequence[int]


@dataclass(slots=True)
class Waiting:
    """The events that wait to be sent: some of every job, and the number of the others."""

    _events: list[Event] = field(default_factory=list)
    _others: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """By base dir and kind of problem: the keys of the events beyond _MOST_WAITING."""
    _examples: dict[tuple[str, str], Event] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Add an event. Only problems may be too many: of changed jobs so few are read at once."""
        if event.kind != PROBLEM or len(self._events) < _MOST_WAITING:
            self._events.append(event)
            return
        alike = event.base_dir, event.details["problem"]
        self._examples.setdefault(alike, event)
        self._others.setdefault(alike, []).append(event.key)

    def next_message(self) -> tuple[list[Sent], bool]:
        """Return what the next message says, and whether there is more to send.

        Every kind of event has its turn, and within each every job.
        """
        of_each = in_turn(self._events, lambda event: event.owner)
        fair = in_turn(of_each, lambda event: event.kind)
        some = [Sent(event, [event.key]) for event in fair[:_EVENTS_AT_A_TIME]]
        some += [Sent(_of_many(self._examples[alike], keys), keys) for alike, keys in self._others.items()]
        return some, len(fair) > _EVENTS_AT_A_TIME


def _of_many(example: Event, keys: Sequence[int]) -> Event:
    """Return the event that stands for those of many jobs."""
    such_as = example.train_id or example.details["path"]
    return replace(
        example,
        train_id=None,
        what=f"{len(keys):,} more jobs or directories, such as {such_as}: {example.what}",
        told_once=f"{len(keys)} {example.told_once}",
        share="",
        details={**example.details, "jobs": len(keys)},
    )


class Notifier:
    """Sends the notifications of one daemon; `run` is the thread's function."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._holder = engine, holder_name()
        self._plan: Plan | None = None
        self._used: Plan | None = None
        """The plan that `_looked` and `_expires_at` belong to."""
        self._looked: NotifierPlace | None = None
        self._expires_at: datetime | None = None
        self._woken, self._ended = threading.Event(), False
        self._failures, self._logged = 0, float("-inf")
        self._looking_s = 0.0
        """How long the looks took since the last wait."""
        self._rests: dict[tuple[str, str, str], float] = {}
        """When (monotonic) events were sent that are not to be followed by alike ones at once, by owner and share."""

    def use(self, plan: Plan | None) -> None:
        """Continue with another plan; a receiver's name that the store does not know gets events from now on."""
        if plan is not None:
            with suppress(DatabaseUnavailableError, DBAPIError), writing(self._engine) as session:
                _begin(session, plan.name)
        self._plan, self._failures = plan, 0
        self._woken.set()

    def end(self) -> None:
        """Stop sending."""
        self._ended = True
        self._woken.set()

    def run(self) -> None:
        """Send notifications until `end` is called."""
        wait_s = 0.0
        while not self._ended:
            self._woken.wait(wait_s)
            self._woken.clear()
            wait_s = self._once()
        if self._expires_at is None:
            return
        with suppress(DatabaseUnavailableError, DBAPIError), writing(self._engine) as session:
            release_notifiers(session, self._holder)

    def _once(self) -> float:
        """Look for events once and send them; return how many seconds to wait afterwards."""
        plan, self._looking_s = self._plan, 0.0
        if plan is None or self._ended:
            return _LONGEST_WAIT_S
        if plan is not self._used:
            self._used, self._looked, self._expires_at = plan, None, None
        try:
            self._look(plan)
        except (NotTakenError, DatabaseUnavailableError, DBAPIError) as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - any failure is retried, and must not disturb ingest
            self._fail(type(error).__name__)
        else:
            if self._failures:
                log.info("notifications recovered", extra={"failures": self._failures})
            self._failures = 0
        if self._failures:
            return min(2.0 ** min(self._failures, 10) / 2, _LONGEST_WAIT_S)
        return min(max(_LOOKS_EVERY_S, self._looking_s / _SHARE), _LONGEST_WAIT_S)

    def _fail(self, reason: str) -> None:
        self._failures, self._looked, self._expires_at = self._failures + 1, None, None
        if self._failures == 1 or time.monotonic() >= self._logged + _LOGGED_EVERY_S:
            log.warning(
                "notification failed, will retry", extra={"reason": reason, "failures": self._failures}
            )
            self._logged = time.monotonic()

    def _look(self, plan: Plan) -> None:
        more = True
        while more and not self._ended and self._holds(plan) and self._looked is not None:
            began = time.monotonic()
            with reading(self._engine) as session:
                events, looked, more = read_news(session, plan, self._looked, session.now())
                waiting = self._unsent(session, plan.name, events)
            self._looking_s += time.monotonic() - began
            # One message each time: who has news meanwhile has a turn in the next.
            some, left = waiting.next_message()
            if some:
                self._send(plan, some)
            if not left:
                self._looked = looked
            more = more or left

    def _send(self, plan: Plan, some: Sequence[Sent]) -> None:
        deliver(plan, _message(identity(self._engine.url), [each.event for each in some]))
        with writing(self._engine) as session:
            remember(session, plan.name, [key for each in some for key in each.keys])
        sent_at = time.monotonic()
        self._rests |= {(*each.event.owner, each.event.share): sent_at for each in some if each.event.share}

    def _unsent(self, session: Session, name: str, events: Iterator[Event]) -> Waiting:
        """Return the events that were not sent yet, without those of jobs of which alike were sent just now."""
        latest = time.monotonic() - JOB_RESTS_S
        self._rests = {owner: at for owner, at in self._rests.items() if at > latest}
        waiting = Waiting()
        while some := {event.key: event for event in islice(events, _EVENTS_AT_A_TIME)}:
            unsent = untold(session, name, some)
            for event_key, event in some.items():
                if event_key in unsent and (*event.owner, event.share) not in self._rests:
                    waiting.add(event)
        return waiting

    def _holds(self, plan: Plan) -> bool:
        """Take or renew the right to send; return whether this daemon has it."""
        with reading(self._engine) as session:
            now = session.now()
        if self._looked is not None and self._expires_at is not None and self._expires_at - now > _RENEWED:
            return True
        with writing(self._engine) as session:
            _begin(session, plan.name)
            self._looked = take(session, plan.name, self._holder, _HELD, self._looked)
        self._expires_at = now + _HELD
        return self._looked is not None


def _begin(session: Session, name: str) -> None:
    register_notifier(session, name, encode(current_cursor(session)))


def _message(store: str, events: Sequence[Event]) -> bytes:
    told = [event.as_json() for event in events]
    lines = (f"{each['kind']} {each['base_dir']} {each['train_id'] or ''}: {each['what']}" for each in told)
    return json.dumps(
        {"version": 1, "store": store, "text": "\n".join(lines), "events": told}, allow_nan=False
    ).encode()


# ---- The state of notifiers: which process sends notifications, how far it has looked, and which events it has sent
# In: a write transaction, the name of a notifier, a token of changes, keys of events. Out: rows of `notifier` and
# `notified`. Promises: a lease lets one process at a time send under a name; keys of sent events stay for REMEMBERED.
# Does not know what events are, nor how they are sent.


REMEMBERED = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class NotifierPlace:
    """How far a notifier has looked."""

    since: str
    """Token of changes: every event before it was sent."""
    at: datetime
    """When all events before `since` had been sent."""
    begun_at: datetime
    """What happened before is never sent."""


def register_notifier(session: Session, name: str, since: str) -> None:
    """Register a notifier that starts at the changes behind `since`; does nothing if the name is registered already."""
    now = session.now()
    row = {"name": name, "since": since, "looked_at": now, "begun_at": now, "holder": "", "expires_at": now}
    session.change(upsert(session, notifier, ["name"]), row)


def take(
    session: Session, name: str, holder: str, lasts: timedelta, looked: NotifierPlace | None
) -> NotifierPlace | None:
    """Acquire or renew the lease of a notifier, and store how far it has `looked`.

    Return how far it has looked: the stored place if `holder` did not have the lease before or `looked` is None. Return
    None if another process holds the lease.
    """
    row = session.one(select(notifier).where(notifier.c.name == name).with_for_update())
    now = session.now()
    if row.holder != holder and row.expires_at > now and lives(row.holder) is not False:
        return None
    if row.holder != holder or looked is None:
        looked = NotifierPlace(row.since, row.looked_at, row.begun_at)
    values = {"since": looked.since, "looked_at": looked.at, "holder": holder, "expires_at": now + lasts}
    session.change(update(notifier).where(notifier.c.name == name).values(values))
    old = (notified.c.notifier == name) & (notified.c.told_at < now - REMEMBERED)
    session.change(notified.delete().where(old))
    return looked


def release_notifiers(session: Session, holder: str) -> None:
    """Release the leases of `holder`, so that another process can acquire them at once."""
    mine = update(notifier).where(notifier.c.holder == holder)
    session.change(mine.values(expires_at=session.now()))


def untold(session: Session, name: str, keys: Collection[int]) -> set[int]:
    """Return which of the events `keys` were not sent yet."""
    told = select(notified.c.event_key).where(notified.c.notifier == name)
    known = session.column(told.where(among(session, notified.c.event_key, keys)))
    return set(keys).difference(known)


def remember(session: Session, name: str, keys: Iterable[int]) -> None:
    """Store that events were sent."""
    now = session.now()
    rows = [{"notifier": name, "event_key": key, "told_at": now} for key in keys]
    session.change(upsert(session, notified, ["notifier", "event_key"]), rows)
