"""When to look again: at what has failed, and how often to talk about it; at live jobs.

In: failures, each of a kind; successes; how long a look took. Out: log lines, and when to try again. Promises: a
database that is back is used within two seconds; a trouble that lasts is told once a minute, and its end is told too.
Looks at live jobs take a fifth of a core at most, as far as three intervals allow; one that read a backlog does not
keep the next waiting longer.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lineage_store.errors import DatabaseUnavailableError
from lineage_store.ingest.daemon.status_file import Trouble
from lineage_store.texts import without_passwords

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 10.0
LONGEST_WAIT_FOR_DATABASE_S = 2.0
TOLD_EVERY_S = 60.0
SHARE = 0.2
"""Looks may take this share of a core, without the reading process, which takes about half as much again."""
LONGEST = 3
"""So many intervals are the longest wait."""
_FAILS = "fails"
_LOG = "It is tried again; the daemon's log tells more."


@dataclass(slots=True)
class Patience:
    """The troubles of one base dir."""

    base_dir: str
    failures: int = 0
    """In a row."""
    trouble: Trouble | None = None
    """What is the matter; None when all is well."""
    _not_before: float = 0.0
    _since: float = 0.0
    _told: float = field(default=float("-inf"))

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
        now, before = time.monotonic(), self.trouble
        if before is None:
            self._since = now
        self.trouble = _trouble(error, datetime.now(UTC) if before is None else before.since)
        if before is None or _name(self.trouble) != _name(before) or now >= self._told + TOLD_EVERY_S:
            fields = {
                "base_dir": self.base_dir,
                "trouble": _name(self.trouble),
                "reason": str(error),
                "again_in_s": wait_s,
            }
            log.error("pass failed", extra=fields, exc_info=None if expected else error)
            self._told = now

    def succeed(self) -> None:
        """All is well (again)."""
        if self.trouble is not None:
            lasted_s = round(time.monotonic() - self._since, 1)
            fields = {"base_dir": self.base_dir, "trouble": _name(self.trouble), "lasted_s": lasted_s}
            log.info("goes on", extra=fields)
        self.failures, self.trouble = 0, None


def _trouble(error: Exception, since: datetime) -> Trouble:
    reason = without_passwords(getattr(error, "message", None) or str(error) or type(error).__name__)
    what = f"database {error.cause}" if isinstance(error, DatabaseUnavailableError) else _FAILS
    return Trouble(what, reason.partition("\n")[0], getattr(error, "hint", None) or _LOG, since)


def _name(trouble: Trouble) -> str:
    """What tells a trouble from another one; how a database words its refusal does not."""
    return trouble.reason if trouble.what == _FAILS else trouble.what


def next_look_s(interval_s: float, took_s: float) -> float:
    """Seconds until the next look; `took_s` is the CPU time of one that began just before."""
    return min(max(interval_s, took_s / SHARE), LONGEST * interval_s)
