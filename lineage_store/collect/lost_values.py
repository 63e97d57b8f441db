"""Report values that could not be recorded: log the first, count all, and raise a failed write if the caller wants.

In: failures, from any thread. Out: one warning per `place`, a final log line with the counts, and, if `raising`, the
first failed write, which `raise_untold` raises in the training's thread. Promises: raises nothing otherwise.
"""

from __future__ import annotations

import logging
from collections import Counter
from threading import Lock

log = logging.getLogger(__name__)

_RAISED = (OSError, RuntimeError)
"""The failures that MindSpore's `raise_exception` covers. MindSpore, too, only logs a value that cannot be encoded."""


class LostValues:
    """The failures of one recorder."""

    def __init__(self, *, raising: bool) -> None:
        self._raising = raising
        self._lost: Counter[str] = Counter()
        self._untold: Exception | None = None
        self._lock = Lock()

    def add(self, place: str, error: Exception, *, what: str = "") -> None:
        """Count a value as lost at `place`, a kind of file or value; log only the first failure of a place."""
        with self._lock:
            first = place not in self._lost
            self._lost[place] += 1
            if self._untold is None and isinstance(error, _RAISED):
                self._untold = error
        if first:
            log.warning(
                "Not recorded: %s: %s. The training goes on; more of this kind is counted, not logged.",
                what or place,
                str(error).rstrip(".") or type(error).__name__,
            )

    def raise_untold(self) -> None:
        """Raise the first failed write since the last call, if `raising`."""
        with self._lock:
            error, self._untold = self._untold, None
        if error is not None and self._raising:
            raise error

    def tell_total(self) -> None:
        """Log the counts of what was lost, if anything was."""
        if self._lost:
            log.warning("In all, not recorded: %s.", ", ".join(f"{n} × {p}" for p, n in self._lost.items()))  # noqa: RUF001
