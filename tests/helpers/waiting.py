"""Waiting for a condition to hold, however long a busy machine takes for it, and never for a time to pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
_WITHIN_S = 60.0
_BETWEEN_S = 0.05
"""Looks cost as much as what is waited for; so do ticks."""


class _Ticking(Protocol):
    def tick(self) -> object: ...


def wait_until(condition: Callable[[], T], *ticking: _Ticking) -> T:
    """What a condition comes to when it holds; until then followers, if any, tick."""
    end = time.monotonic() + _WITHIN_S
    while not (met := condition()):
        assert time.monotonic() < end, "it never came to be"
        for each in ticking:
            each.tick()
        time.sleep(_BETWEEN_S)
    return met
