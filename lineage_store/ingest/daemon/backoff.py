"""When the daemon tries again after a failure, and how often it polls live jobs.

In: failures and successes; how long a poll took. Out: log lines, a finding, and the time of the next try. Promises: the
wait doubles with each failure, to two seconds at most while the database is unavailable, else to ten; a failure that
lasts is logged once a minute, and so is its end; polls take at most a fifth of a core, but no wait between two polls
is longer than three intervals, however long the first one took.
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
"""The share of a core that polls may take; the reading process takes about half as much again."""
LONGEST = 3
"""The longest wait between two polls, in intervals."""
FAILS = "daemon_fails"


@dataclass(slots=True)
class Backoff:
    """The consecutive failures of one base dir."""

    base_dir: str
    failures: int = 0
    finding: Finding | None = None
    """The last failure; None after a success."""
    _not_before: float = 0.0
    _since: float = 0.0
    _logged: float = field(default=float("-inf"))

    def is_over(self) -> bool:
        """Whether the wait is over."""
        return time.monotonic() >= self._not_before

    def wait(self, seconds: float) -> None:
        """Try again after `seconds`; this counts as no failure."""
        self._not_before = time.monotonic() + seconds

    def fail(self, error: Exception, *, expected: bool) -> None:
        """Wait, longer with each failure in a row. An error that was not `expected` is logged with its traceback."""
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
        name = _name(self.finding)
        if before is None or name != _name(before) or now >= self._logged + LOGGED_EVERY_S:
            fields = {"base_dir": self.base_dir, "finding": name, "reason": str(error), "again_in_s": wait_s}
            log.error("pass failed", extra=fields, exc_info=None if expected else error)
            self._logged = now

    def succeed(self) -> None:
        """Note a success, which ends the failures so far."""
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
    """What tells two failures apart. Two of the database are the same whatever words the database uses."""
    return found.what if found.kind == FAILS else found.title


def next_look_s(interval_s: float, took_s: float) -> float:
    """Seconds from the beginning of a poll, which took `took_s` of CPU time, to the beginning of the next."""
    return min(max(interval_s, took_s / SHARE), LONGEST * interval_s)
