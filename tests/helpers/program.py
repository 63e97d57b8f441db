"""How a run of the command line ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finished:
    """Exit code, stdout and stderr."""

    code: int
    out: str
    err: str


Run = Callable[..., Finished]
