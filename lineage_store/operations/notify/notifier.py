"""A thread that sends notifications of events, and remembers in the store which it has sent.

In: an engine, a plan, which may change. Out: messages to a webhook or command. Promises: each event is sent at least
once, even after restarts and outages of the receiver, and only once unless the process ends between sending and
remembering it; only one of a store's daemons sends at a time; ingest never waits for it, as it has its own thread and
connections, and no transaction is open while it sends. A message has about _EVENTS_AT_A_TIME events at most, one of
every job before a second of any, so that a job with very many does not delay the others. The address is never logged.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.findings import in_turn
from lineage_store.operations.notify.deliver import NotTakenError, deliver
from lineage_store.operations.notify.news import Event, read_news
from lineage_store.operations.notify.plan import PROBLEM, Plan
from lineage_store.query.change_cursor import encode
from lineage_store.query.changes import current
from lineage_store.store import notified
from lineage_store.store.database.engine import apart, database_time, identity, reading, writing
from lineage_store.store.holders import holder_name
from lineage_store.store.notified import Place

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
        self._looked: Place | None = None
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
            with suppress(DatabaseUnavailableError, DBAPIError), writing(self._engine) as connection:
                _begin(connection, plan.name)
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
        with suppress(DatabaseUnavailableError, DBAPIError), writing(self._engine) as connection:
            notified.release(connection, self._holder)

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
        except Exception as error:  # noqa: BLE001 - any failure is tried again, and must not disturb ingest
            self._fail(type(error).__name__)
        else:
            if self._failures:
                log.info("told again", extra={"failures": self._failures})
            self._failures = 0
        if self._failures:
            return min(2.0 ** min(self._failures, 10) / 2, _LONGEST_WAIT_S)
        return min(max(_LOOKS_EVERY_S, self._looking_s / _SHARE), _LONGEST_WAIT_S)

    def _fail(self, reason: str) -> None:
        self._failures, self._looked, self._expires_at = self._failures + 1, None, None
        if self._failures == 1 or time.monotonic() >= self._logged + _LOGGED_EVERY_S:
            log.warning("not told; it is tried again", extra={"reason": reason, "failures": self._failures})
            self._logged = time.monotonic()

    def _look(self, plan: Plan) -> None:
        more = True
        while more and not self._ended and self._holds(plan) and self._looked is not None:
            began = time.monotonic()
            with reading(self._engine) as connection:
                events, looked, more = read_news(connection, plan, self._looked, database_time(connection))
                waiting = self._unsent(connection, plan.name, events)
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
        with writing(self._engine) as connection:
            notified.remember(connection, plan.name, [key for each in some for key in each.keys])
        sent_at = time.monotonic()
        self._rests |= {(*each.event.owner, each.event.share): sent_at for each in some if each.event.share}

    def _unsent(self, connection: Connection, name: str, events: Iterator[Event]) -> Waiting:
        """Return the events that were not sent yet, without those of jobs of which alike were sent just now."""
        latest = time.monotonic() - JOB_RESTS_S
        self._rests = {owner: at for owner, at in self._rests.items() if at > latest}
        waiting = Waiting()
        while some := {event.key: event for event in islice(events, _EVENTS_AT_A_TIME)}:
            unsent = notified.untold(connection, name, some)
            for key, event in some.items():
                if key in unsent and (*event.owner, event.share) not in self._rests:
                    waiting.add(event)
        return waiting

    def _holds(self, plan: Plan) -> bool:
        """Take or renew the right to send; return whether this daemon has it."""
        with reading(self._engine) as connection:
            now = database_time(connection)
        if self._looked is not None and self._expires_at is not None and self._expires_at - now > _RENEWED:
            return True
        with writing(self._engine) as connection:
            _begin(connection, plan.name)
            self._looked = notified.take(connection, plan.name, self._holder, _HELD, self._looked)
        self._expires_at = now + _HELD
        return self._looked is not None


def _begin(connection: Connection, name: str) -> None:
    notified.begin(connection, name, encode(current(connection)))


def _message(store: str, events: Sequence[Event]) -> bytes:
    told = [event.as_json() for event in events]
    lines = (f"{each['kind']} {each['base_dir']} {each['train_id'] or ''}: {each['what']}" for each in told)
    return json.dumps(
        {"version": 1, "store": store, "text": "\n".join(lines), "events": told}, allow_nan=False
    ).encode()
