"""A finding: one thing that the operator of a store should know, and what to do about it.

In: a kind of `finding_kinds.py` and the particulars. Out: a `Finding`, the form in which ingest, the daemon, `status`,
`doctor`, `why`, `problems`, `verify` and the Python API report. Pure. Does not know the database or the disk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, zip_longest
from typing import Any, NamedTuple, TypeVar

from lineage_store.errors import Cause, ExitCode
from lineage_store.finding_kinds import KINDS, Severity, of_cause

THE_STORE = "the store"
"""The subject of findings about the database."""
THE_STANDBY = "the standby"
"""The subject of findings about the standby that answers questions."""
_NOTHING = object()
T = TypeVar("T")
MOST_CHARACTERS = 1000
"""Maximum length of a problem's text in the store: what it quotes may be of any length."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a subject."""

    kind: str
    """Name of a row of `KINDS`, or of a kind unknown here if a newer release wrote the store."""
    subject: str
    """A path, or "the store"."""
    severity: Severity
    what: str
    remedy: str = ""
    """What to do; empty: nothing."""
    since: datetime | None = None
    until: datetime | None = None
    """When it ended; None while it lasts."""
    range_start: int | None = None
    """Position of the first affected byte; None: the subject as a whole."""
    range_end: int | None = None
    """Position behind the last affected byte."""
    count: int = 1
    """Number of affected places in the file; between the first and the last of them there may be unaffected bytes."""
    bytes: int | None = None
    """Number of affected bytes in all those places."""
    first_range_end: int | None = None
    """Where the first place ends; it begins at `range_start`."""
    last_range_start: int | None = None
    """Where the last place begins; it ends at `range_end`."""
    problems: int = 1
    """Number of problems that it stands for: more than 1 if the problems of a job are too many to be listed."""

    @property
    def title(self) -> str:
        """The kind's heading, or its name in plain words."""
        return KINDS[self.kind].title if self.kind in KINDS else self.kind.replace("_", " ")

    @property
    def is_wrong(self) -> bool:
        """Whether something cannot be read or written because of it."""
        return self.severity in (Severity.SOME_FILES, Severity.STANDSTILL)

    def __str__(self) -> str:
        since = f"(since {self.since:%Y-%m-%d %H:%M:%S} UTC)" if self.since else ""
        return " ".join(part for part in (f"{self.subject}: {self.what}", since, self.remedy) if part)


def finding(
    kind: str,
    subject: str,
    *,
    what: str | None = None,
    remedy: str | None = None,
    case: str = "",
    since: datetime | None = None,
    byte_range: tuple[int, int | None] | None = None,
    **particulars: object,
) -> Finding:
    """Create a finding with the texts of its kind.

    Args:
        what: replaces the kind's text; `remedy` likewise.
        case: selects one of the kind's remedies.
        particulars: values of the placeholders in the kind's texts.
    """
    row = KINDS[kind]
    remedy_of_kind = row.remedies[case] if case else row.remedy
    start, end = byte_range or (None, None)
    return Finding(
        kind,
        subject,
        row.severity,
        row.what.format(**particulars) if what is None else what,
        remedy_of_kind.format(**particulars) if remedy is None else remedy,
        since,
        range_start=start,
        range_end=end,
    )


class RangeProblems(NamedTuple):
    """All byte ranges of one log file to which findings of one kind apply, in short: their number is not bounded."""

    kind: str
    places: int
    bytes: int
    first_start: int
    first_end: int
    last_start: int
    last_end: int
    what: str
    """The text of the first."""
    remedy: str

    def plus(self, more: RangeProblems) -> RangeProblems:
        """Return both together; `more` lies behind these. Adjacent ranges become one if the kind joins."""
        meet = KINDS[self.kind].joins and self.last_end == more.first_start
        return self._replace(
            places=self.places + more.places - meet,
            bytes=self.bytes + more.bytes,
            first_end=more.first_end if meet and self.places == 1 else self.first_end,
            last_start=self.last_start if meet and more.places == 1 else more.last_start,
            last_end=more.last_end,
        )


def in_range(kind: str, start: int, end: int, **particulars: object) -> RangeProblems:
    """Create the finding about one byte range of a log file."""
    row = KINDS[kind]
    texts = clipped(row.what.format(**particulars)), row.remedy.format(**particulars)
    return RangeProblems(kind, 1, end - start, start, end, start, end, *texts)


def clipped(what: str) -> str:
    """Return a text as a problem's row holds it: at most MOST_CHARACTERS of it."""
    return what if len(what) <= MOST_CHARACTERS else f"{what[: MOST_CHARACTERS - 2]} …"


def with_places(what: str, count: int, size: int | None) -> str:
    """Return the text of a problem that a log file has in `count` places with `size` bytes together."""
    return (
        what if count == 1 or size is None else f"{what} There are {count:,} such places with {size:,} bytes."
    )


def in_turn(things: Iterable[T], owner: Callable[[T], Hashable]) -> list[T]:
    """Return the first of every owner, then the second of every owner that has one, and so on: for lists with a bound,
    so that what has very many findings does not keep those of others from being seen."""
    by_owner: dict[Hashable, list[T]] = defaultdict(list)
    for thing in things:
        by_owner[owner(thing)].append(thing)
    rounds = zip_longest(*by_owner.values(), fillvalue=_NOTHING)
    return [thing for thing in chain.from_iterable(rounds) if thing is not _NOTHING]  # type: ignore[misc]


def severity_of(kind: str) -> Severity:
    """Return the severity of a kind read from a store; NOTE for a kind that this release does not know."""
    return KINDS[kind].severity if kind in KINDS else Severity.NOTE


def of_database(cause: Cause, subject: str = THE_STORE, **more: Any) -> Finding:
    """Create the finding for a `DatabaseUnavailableError` with this cause."""
    return finding(of_cause(cause).name, subject, **more)


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """Return the exit code for the worst of the findings."""
    severities = {each.severity for each in findings}
    if Severity.STANDSTILL in severities:
        return ExitCode.FAILED
    return ExitCode.PARTLY_DONE if Severity.SOME_FILES in severities else ExitCode.OK
