"""Keep failures of collecting out of the training loop: log each kind once, and go on.

In: for a callback, functions that may fail, each with a name for what it collects; for a recorder, failures from any
thread. Out: results, or None; warnings; for a recorder, the counts of what was lost. Promises: unless `raising`, no
exception reaches the training loop, except KeyboardInterrupt and SystemExit, which ask the process to stop.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from threading import Lock
from typing import ParamSpec, TypeVar

from lineage_store.errors import LineageLogError, MindInsightException

log = logging.getLogger(__name__)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_RAISED = (OSError, RuntimeError)
"""The failures that MindSpore's `raise_exception` covers. MindSpore, too, only logs a value that cannot be encoded."""


class Failures:
    """What one callback could not collect: it is not tried again until `forget`."""

    def __init__(self, owner: str, *, raising: bool = False) -> None:
        self.owner = owner
        self.raising = raising
        self._failed: set[str] = set()

    def guard(
        self, what: str, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result | None:
        """Call `work` and return its result; None if it fails now or `what` has failed before.

        With `raising`, raise a MindInsightException unchanged and any other failure as a LineageLogError.
        """
        if what in self._failed:
            return None
        try:
            return work(*args, **kwargs)
        except Exception as error:  # networks and datasets are anybody's code
            if not self.raising:
                self.give_up(what, error)
                return None
            if isinstance(error, MindInsightException):
                raise
            raise LineageLogError(f"{self.owner} cannot record {what}: {_reason(error)}") from error

    def give_up(self, what: str, error: Exception) -> None:
        """Log once that `what` is not collected, and do not try it again."""
        if what not in self._failed:
            self._failed.add(what)
            log.warning("%s does not record %s: %s", self.owner, what, _reason(error))

    def forget(self) -> None:
        """Allow all that failed to be tried again, as another network may have what the last one lacked."""
        self._failed.clear()


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, MindInsightException) else f"{type(error).__name__}: {error}"


class LostValues:
    """What one recorder could not record."""

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
                "Not recorded: %s: %s. The training continues; more of this kind is counted, not logged.",
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
