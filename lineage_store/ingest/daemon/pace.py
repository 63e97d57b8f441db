"""How soon live jobs are looked at again: at the interval that is set, or later where there are very many.

In: the interval, the time that a look took. Out: seconds from the beginning of one look to that of the next. Promises:
looks take a fifth of a core at most, as far as three intervals allow; a look that read a backlog does not keep the next
one waiting longer. Pure.
"""

from __future__ import annotations

SHARE = 0.2
"""Looks may take this share of a core, without the reading process, which takes about half as much again."""
LONGEST = 3
"""So many intervals are the longest wait."""


def next_look_s(interval_s: float, took_s: float) -> float:
    """Seconds until the next look; `took_s` is the CPU time of one that began just before."""
    return min(max(interval_s, took_s / SHARE), LONGEST * interval_s)
