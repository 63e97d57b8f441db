"""A finding: one thing that somebody who runs a store should know, and what to do about it.

In: a kind of `finding_kinds/` and the particulars. Out: the one shape in which ingest, the daemon, `status`,
`doctor`, `why`, `problems`, `verify` and the Python API tell what they found. Pure; knows no database and no disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from lineage_store.errors import ExitCode
from lineage_store.finding_kinds import KINDS, Severity

THE_STORE = "the store"
"""The subject of what is found about the database."""
THE_STANDBY = "the standby"
"""Of what is found about the one that answers questions."""
_DATABASE = "database_"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about a subject."""

    kind: str
    """A row of `KINDS`; of a store that a newer release wrote, perhaps none."""
    subject: str
    """A path, or "the store"."""
    severity: Severity
    what: str
    remedy: str = ""
    """What to do; empty: nothing."""
    since: datetime | None = None
    until: datetime | None = None
    """When it went away; None while it lasts."""
    range_start: int | None = None
    """First byte concerned; None: the subject as a whole."""
    range_end: int | None = None
    """First byte not concerned."""

    @property
    def title(self) -> str:
        """In few words."""
        return KINDS[self.kind].title if self.kind in KINDS else self.kind.replace("_", " ")

    @property
    def is_wrong(self) -> bool:
        """Whether something cannot be read or written."""
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
    """A finding in the words of its kind.

    Args:
        what: in place of the kind's words, where more is known; and so for `remedy`.
        case: which of the kind's remedies applies.
        particulars: what the placeholders of the kind's words stand for.
    """
    row = KINDS[kind]
    start, end = byte_range or (None, None)
    return Finding(
        kind,
        subject,
        row.severity,
        row.what.format(**particulars) if what is None else what,
        row.remedy_in(case).format(**particulars) if remedy is None else remedy,
        since,
        range_start=start,
        range_end=end,
    )


def joined(found: Iterable[Finding]) -> list[Finding]:
    """Those of one subject, of which ranges that meet are one where their words or their kind say so."""
    some: list[Finding] = []
    for each in found:
        last = some[-1] if some else None
        meet = last is not None and (last.kind, last.range_end) == (each.kind, each.range_start)
        if last and meet and (KINDS[each.kind].joins or last.what == each.what):
            some[-1] = replace(last, range_end=each.range_end)
        else:
            some.append(each)
    return some


def severity_of(kind: str) -> Severity:
    """How bad a kind is that was read from a store; one that this release does not know is noted, no more."""
    return KINDS[kind].severity if kind in KINDS else Severity.NOTE


def of_database(cause: str, subject: str = THE_STORE, **more: Any) -> Finding:
    """What a `DatabaseUnavailableError` of a cause tells."""
    kind = f"{_DATABASE}{cause}"
    return finding(kind if kind in KINDS else f"{_DATABASE}failed", subject, **more)


def cause_in(found: Finding) -> str:
    """The cause of the `DatabaseUnavailableError` that says what was found."""
    return found.kind.removeprefix(_DATABASE)


def exit_code(findings: Iterable[Finding]) -> ExitCode:
    """What a program ends with: as the worst of the findings says."""
    severities = {each.severity for each in findings}
    if Severity.STANDSTILL in severities:
        return ExitCode.FAILED
    return ExitCode.PARTLY_DONE if Severity.SOME_FILES in severities else ExitCode.OK
