"""What could not be recorded: said once, counted, and kept for a caller that asked to hear of it.

In: failures, from any thread. Out: one warning per kind of place, a count in the last line of the log, and the first
failure of writing again, raised in the training's thread when that was asked for. Promises: never raises otherwise.
"""

from __future__ import annotations

import logging
from collections import Counter
from threading import Lock

log = logging.getLogger(__name__)

_RAISED = (OSError, RuntimeError)
"""What MindSpore's `raise_exception` is about; a value that cannot be written is only logged there, too."""


class Losses:
    """The failures of one recorder."""

    def __init__(self, *, raising: bool) -> None:
        self._raising = raising
        self._lost: Counter[str] = Counter()
        self._untold: Exception | None = None
        self._lock = Lock()

    def add(self, place: str, error: Exception, *, what: str = "", count: int = 1) -> None:
        """`count` values were lost at `place`, a kind of file or value; only the first of a place is logged."""
        with self._lock:
            first = place not in self._lost
            self._lost[place] += count
            if self._untold is None and isinstance(error, _RAISED):
                self._untold = error
        if first:
            log.warning(
                "Not recorded: %s: %s. The training goes on; more of this kind is counted, not logged.",
                what or place,
                str(error).rstrip(".") or type(error).__name__,
            )

    def raise_untold(self) -> None:
        """Raise the first failure since the last call, where the caller asked for that."""
        with self._lock:
            error, self._untold = self._untold, None
        if error is not None and self._raising:
            raise error

    def tell_total(self) -> None:
        """Log how much was lost, if anything was."""
        if self._lost:
            log.warning("In all, not recorded: %s.", ", ".join(f"{n} × {p}" for p, n in self._lost.items()))  # noqa: RUF001
