"""Wait in tests for a condition, never for time to pass; the limit is so generous that only a defect reaches it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WITHIN_S = 60.0


def wait_until(
    condition: Callable[[], T],
    *meanwhile: Callable[[], object],
    what: str = "end of waiting",
    within_s: float = WITHIN_S,
    pause_s: float = 0.05,
) -> T:
    """Return what the condition returns once that is true; call each of `meanwhile` before each further try."""
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, f"no {what} within {within_s:g} s"
        for each in meanwhile:
            each()
        time.sleep(pause_s)
    return found
