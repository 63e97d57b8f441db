"""Waiting in tests: for a condition, with a generous end that only what is broken reaches; never for time to pass."""

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
    """What a condition says when it holds; before it is asked again, the others are called in turn."""
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, f"no {what} within {within_s:g} s"
        for each in meanwhile:
            each()
        time.sleep(pause_s)
    return found
