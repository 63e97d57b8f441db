"""Keep failures of collecting out of the training loop.

In: a function that may fail, with a name for what it collects. Out: its result, or None. Promises: unless `raising`,
a failure is logged once, with the name, and that name is not tried again until `forget`; no exception reaches the
training loop, except KeyboardInterrupt and SystemExit, which ask the process to stop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from lineage_store.errors import LineageLogError, MindInsightException

log = logging.getLogger(__name__)

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Attempts:
    """Calls functions for one callback, and remembers which of them failed."""

    def __init__(self, owner: str, *, raising: bool = False) -> None:
        self.owner = owner
        self.raising = raising
        self._failed: set[str] = set()

    def ask(
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
