"""THE table of the states of log files and jobs, and of the transitions between them. Pure.

In: nothing. Out: two enums of states, and per event one transition: from which states it leads to which. Code that
writes a state calls `after`, or puts the transition's states into its SQL statement. Indexes, comments, views and the
diagrams of docs/schema.md are made from these tables. A job's state is computed from its log files
(store.writes.jobs); its table lists the possible changes. Does not know how SQL is executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar


class FileState(StrEnum):
    """State of a log file in the store."""

    OPEN = "open"
    CLOSED = "closed"
    TORN = "torn"
    SUSPECT = "suspect"
    UNREADABLE = "unreadable"
    QUARANTINED = "quarantined"
    MISSING = "missing"
    REPLACING = "replacing"
    COPY = "copy"
    REPLACED = "replaced"


class FileEvent(StrEnum):
    """An event that changes the state of a log file."""

    FOUND = "found"
    REWRITTEN = "rewritten"
    READ = "read"
    READ_CLOSED = "read, closed"
    CUT_SHORT = "cut short"
    NO_FRAME = "no frame"
    NOT_SETTLED = "not settled"
    FAILED = "failed"
    FAILED_OFTEN = "failed often"
    HEAVILY_DAMAGED = "heavily damaged"
    GONE = "gone"
    RETRIED = "retried"
    COPIED = "copied"
    PARTED = "parted"
    TOOK_OVER = "took over"
    SUPERSEDED = "superseded"


class JobState(StrEnum):
    """State of a job in the store."""

    READING = "reading"
    LIVE = "live"
    STALLED = "stalled"
    FINISHED = "finished"
    MISSING = "missing"


class Outcome(StrEnum):
    """How a training ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class JobEvent(StrEnum):
    """An event that changes the state of a job."""

    FOUND = "found"
    WAITED = "waited"
    GREW = "grew"
    QUIET = "quiet"
    CLOSED = "closed"
    GONE = "gone"


State = TypeVar("State", FileState, JobState)


@dataclass(frozen=True, slots=True)
class Transition(Generic[State]):
    """The effect of one event: from any of the states `before` to `after`. No `before`: the event inserts the row."""

    before: frozenset[State]
    after: State
    meaning: str


_READ_ONCE = frozenset({FileState.OPEN, FileState.CLOSED, FileState.TORN, FileState.SUSPECT})
_LOOKED_AT = _READ_ONCE | {FileState.UNREADABLE, FileState.MISSING, FileState.REPLACING}
_OF_A_NEW_GENERATION = frozenset({FileState.REPLACING, FileState.UNREADABLE, FileState.MISSING})
_COUNTING = frozenset(FileState) - {FileState.REPLACED}

FILE_TRANSITIONS: dict[FileEvent, Transition[FileState]] = {
    FileEvent.FOUND: Transition(frozenset(), FileState.OPEN, "the store sees it for the first time"),
    FileEvent.REWRITTEN: Transition(
        frozenset(),
        FileState.REPLACING,
        "its content is another one: a new generation, beside which readers still see the old",
    ),
    FileEvent.READ: Transition(_LOOKED_AT, FileState.OPEN, "what is there was read; more may come"),
    FileEvent.READ_CLOSED: Transition(
        _LOOKED_AT, FileState.CLOSED, "what is there was read or is being read; its writer has finished"
    ),
    FileEvent.CUT_SHORT: Transition(
        _LOOKED_AT, FileState.TORN, "its writer has finished in the middle of a frame"
    ),
    FileEvent.NO_FRAME: Transition(
        _LOOKED_AT,
        FileState.SUSPECT,
        "the bytes at the bookmark make no frame, and it is too early to give them up; a new generation has no less "
        "than the old",
    ),
    FileEvent.NOT_SETTLED: Transition(
        _OF_A_NEW_GENERATION,
        FileState.REPLACING,
        "a new generation was read, but not to its end, or to bytes that make no frame, with less than the old one",
    ),
    FileEvent.FAILED: Transition(
        _LOOKED_AT | {FileState.COPY}, FileState.UNREADABLE, "it could not be opened or read"
    ),
    FileEvent.FAILED_OFTEN: Transition(
        _LOOKED_AT | {FileState.COPY},
        FileState.QUARANTINED,
        "its reader failed again and again: it is not read any more",
    ),
    FileEvent.HEAVILY_DAMAGED: Transition(
        _LOOKED_AT, FileState.QUARANTINED, "so many of its bytes are damaged that it is not read any more"
    ),
    FileEvent.GONE: Transition(
        _COUNTING - {FileState.MISSING}, FileState.MISSING, "it is no longer on disk; its rows stay"
    ),
    FileEvent.RETRIED: Transition(
        frozenset({FileState.QUARANTINED}), FileState.UNREADABLE, "a retry was requested"
    ),
    FileEvent.COPIED: Transition(
        _COUNTING,
        FileState.COPY,
        "it begins as another log file of its job does, and as far as they were compared all its bytes are there",
    ),
    FileEvent.PARTED: Transition(
        _COUNTING, FileState.OPEN, "it is no copy of that file, or not any more: it is read by itself"
    ),
    FileEvent.TOOK_OVER: Transition(
        _COUNTING,
        FileState.OPEN,
        "it has all that was read of the file of which it was a copy, and counts instead",
    ),
    FileEvent.SUPERSEDED: Transition(
        _COUNTING, FileState.REPLACED, "a newer generation took its place; its rows go"
    ),
}

TROUBLED = frozenset(
    {FileState.UNREADABLE, FileState.QUARANTINED, FileState.SUSPECT, FileState.TORN, FileState.MISSING}
)
"""States in which the store lacks more of the file than an end that is still being written."""

WAITING_IN = (*sorted(_READ_ONCE), FileState.REPLACING)
"""States in which a log file that is not read to its end waits for nothing but its turn."""

UNSETTLED = (FileState.REPLACED, FileState.SUSPECT)
"""The states of a partial index: every pass queries for them, and few files are ever in them."""


def _from_any_other(after: JobState, meaning: str) -> Transition[JobState]:
    return Transition(frozenset(JobState) - {after}, after, meaning)


JOB_TRANSITIONS: dict[JobEvent, Transition[JobState]] = {
    JobEvent.FOUND: Transition(frozenset(), JobState.READING, "the store sees it for the first time"),
    JobEvent.WAITED: _from_any_other(
        JobState.READING,
        "a log file of it was never read to its end, or one waits to be read and none has grown recently",
    ),
    JobEvent.GREW: _from_any_other(JobState.LIVE, "a log file of it has grown recently"),
    JobEvent.QUIET: _from_any_other(
        JobState.STALLED, "a log file of it may still be written, but none has grown recently"
    ),
    JobEvent.CLOSED: _from_any_other(
        JobState.FINISHED,
        "the newest log file of each kind and device is closed, or recorded the end of its training",
    ),
    JobEvent.GONE: _from_any_other(JobState.MISSING, "no log file of it is left on disk"),
}


FILE_STATE_AFTER: Mapping[tuple[str, FileEvent], FileState] = {
    (before, event): transition.after
    for event, transition in FILE_TRANSITIONS.items()
    for before in transition.before
}
"""The state of a log file after an event, by its state before; without an entry where the event is not possible."""


def sql_list(states: Iterable[FileState | JobState]) -> str:
    """Return states as the list of an SQL IN. SQLite uses a partial index only if a query repeats its exact text."""
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"
