"""How long to leave something alone that has failed, and how often to talk about it.

In: failures, each of a kind; successes. Out: log lines, and when to try again. Promises: a database that is back is
used within two seconds; a trouble that lasts is told once a minute, and its end is told too.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field

from lineage_store.errors import DatabaseUnavailableError

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 10.0
LONGEST_WAIT_FOR_DATABASE_S = 2.0
TOLD_EVERY_S = 60.0


@dataclass(slots=True)
class Patience:
    """The troubles of one base dir."""

    base_dir: str
    failures: int = 0
    """In a row."""
    trouble: str = ""
    """What is the matter, in few words; empty when all is well."""
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
        trouble, longest_s = _trouble(error)
        wait_s = min(longest_s, 2.0 ** min(self.failures, 10) / 4)
        self.wait(wait_s)
        now = time.monotonic()
        if not self.trouble:
            self._since = now
        if trouble != self.trouble or now >= self._told + TOLD_EVERY_S:
            fields = {
                "base_dir": self.base_dir,
                "trouble": trouble,
                "reason": str(error),
                "again_in_s": wait_s,
            }
            log.error("pass failed", extra=fields, exc_info=None if expected else error)
            self._told = now
        self.trouble = trouble

    def succeed(self) -> None:
        """All is well (again)."""
        if self.trouble:
            lasted_s = round(time.monotonic() - self._since, 1)
            fields = {"base_dir": self.base_dir, "trouble": self.trouble, "lasted_s": lasted_s}
            log.info("goes on", extra=fields)
        self.failures, self.trouble = 0, ""


def _trouble(error: Exception) -> tuple[str, float]:
    """What is the matter, and the longest wait between two tries."""
    if isinstance(error, DatabaseUnavailableError):
        return f"database {error.cause}", LONGEST_WAIT_FOR_DATABASE_S
    text = getattr(error, "message", None) or str(error) or type(error).__name__
    return text.partition("\n")[0], LONGEST_WAIT_S
