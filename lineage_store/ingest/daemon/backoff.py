"""When to look again: exponential backoff after failures, which are logged now and then; and the pace of live jobs.

In: failures and successes; how long a look took. Out: log lines, a finding, and when to try again. Promises: a database
that is back is used within two seconds; a failure that lasts is logged once a minute, and its end is logged too.
Looks at live jobs take a fifth of a core at most, as far as three intervals allow; one that read a backlog does not
keep the next waiting longer.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.findings import Finding, finding, of_database
from lineage_store.texts import without_passwords

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 10.0
LONGEST_WAIT_FOR_DATABASE_S = 2.0
LOGGED_EVERY_S = 60.0
SHARE = 0.2
"""Looks may take this share of a core, without the reading process, which takes about half as much again."""
LONGEST = 3
"""So many intervals are the longest wait."""
FAILS = "daemon_fails"


@dataclass(slots=True)
class Backoff:
    """The failures in a row of one base dir."""

    base_dir: str
    failures: int = 0
    finding: Finding | None = None
    """What the last failure was; None after a success."""
    _not_before: float = 0.0
    _since: float = 0.0
    _logged: float = field(default=float("-inf"))

    def is_over(self) -> bool:
        """Whether it is time to try (again)."""
        return time.monotonic() >= self._not_before

    def wait(self, seconds: float) -> None:
        """Leave it alone for so long, without a failure."""
        self._not_before = time.monotonic() + seconds

    def fail(self, error: Exception, *, expected: bool) -> None:
        """Wait, longer with each failure. One that was not `expected` is logged with its traceback."""
        self.failures += 1
        longest_s = (
            LONGEST_WAIT_FOR_DATABASE_S if isinstance(error, DatabaseUnavailableError) else LONGEST_WAIT_S
        )
        wait_s = min(longest_s, 2.0 ** min(self.failures, 10) / 4)
        self.wait(wait_s)
        now, before = time.monotonic(), self.finding
        if before is None:
            self._since = now
        since = datetime.now(UTC) if before is None else before.since
        self.finding = _found(self.base_dir, error, since)
        if before is None or _name(self.finding) != _name(before) or now >= self._logged + LOGGED_EVERY_S:
            fields = {
                "base_dir": self.base_dir,
                "finding": _name(self.finding),
                "reason": str(error),
                "again_in_s": wait_s,
            }
            log.error("pass failed", extra=fields, exc_info=None if expected else error)
            self._logged = now

    def succeed(self) -> None:
        """All is well (again)."""
        if self.finding is not None:
            lasted_s = round(time.monotonic() - self._since, 1)
            fields = {"base_dir": self.base_dir, "finding": _name(self.finding), "lasted_s": lasted_s}
            log.info("goes on", extra=fields)
        self.failures, self.finding = 0, None


def _found(base_dir: str, error: Exception, since: datetime | None) -> Finding:
    reason = without_passwords(getattr(error, "message", None) or str(error) or type(error).__name__)
    what, remedy = reason.partition("\n")[0], getattr(error, "hint", None)
    if isinstance(error, DatabaseUnavailableError):
        return of_database(error.cause, base_dir, what=what, remedy=remedy, since=since)
    return finding(FAILS, base_dir, what=what, remedy=remedy, since=since)


def _name(found: Finding) -> str:
    """What tells one failure from another; how a database words its refusal does not."""
    return found.what if found.kind == FAILS else found.title


def next_look_s(interval_s: float, took_s: float) -> float:
    """Seconds until the next look; `took_s` is the CPU time of one that began just before."""
    return min(max(interval_s, took_s / SHARE), LONGEST * interval_s)
