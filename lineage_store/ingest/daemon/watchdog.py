"""The daemon's watchdog: it detects that the wall clock was set, and that a follower makes no progress.

In: the followers' pulses; the wall clock and the monotonic clock. Out: how far the wall clock was set; a pulse that
stopped beating. Promises: time during which this process did not run (the machine slept, or SIGSTOP) does not count as
standstill. Does not know APScheduler, nor what is done about what it detects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

Clock = Callable[[], float]

LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class Pulse:
    """The signs of progress of one follower, set in the follower's thread and watched from another."""

    name: str
    beats: int = 0
    last_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def beat(self) -> None:
        """Note progress: a tick has ended, a batch was committed, or a directory was searched."""
        self.beats += 1
        self.last_at = datetime.now(UTC)


class ClockWatch:
    """Detects that the wall clock was set, by comparing it with the monotonic clock."""

    def __init__(
        self, tolerance_s: float, wall: Clock = time.time, monotonic: Clock = time.monotonic
    ) -> None:
        self._tolerance_s, self._wall, self._monotonic = tolerance_s, wall, monotonic
        self._apart_s = wall() - monotonic()

    def moved_s(self) -> float:
        """Return how many seconds the wall clock was set since the last call (< 0: back); 0.0 within the tolerance."""
        apart_s = self._wall() - self._monotonic()
        moved_s = apart_s - self._apart_s
        if abs(moved_s) <= self._tolerance_s:
            return 0.0
        self._apart_s = apart_s
        return moved_s


@dataclass(slots=True)
class _Watched:
    pulse: Pulse
    seen: int
    told: int
    still_s: float = 0.0


class StandstillWatch:
    """Detects pulses that stopped beating."""

    def __init__(self, pulses: Sequence[Pulse], deadline_s: float, monotonic: Clock = time.monotonic) -> None:
        self._deadline_s, self._monotonic = deadline_s, monotonic
        self._looked, self._watched = monotonic(), list[_Watched]()
        self.watch(pulses)

    def watch(self, pulses: Sequence[Pulse]) -> None:
        """Watch these pulses from now on, going on with those that are watched already."""
        known = {id(each.pulse): each for each in self._watched}
        self._watched = [known.get(id(each)) or _Watched(each, each.beats, each.beats) for each in pulses]

    def look(self) -> Pulse | None:
        """Return a pulse that has not beaten for longer than the deadline. To be called every LOOK_EVERY_S."""
        now = self._monotonic()
        passed_s = min(now - self._looked, 2 * LOOK_EVERY_S)  # if more has passed, this process did not run
        self._looked = now
        for each in self._watched:
            beats = each.pulse.beats
            each.still_s = each.still_s + passed_s if beats == each.seen else 0.0
            each.seen = beats
        return next((each.pulse for each in self._watched if each.still_s > self._deadline_s), None)

    def still_s(self) -> list[float]:
        """Return for how many seconds each pulse had not beaten at the last `look`."""
        return [each.still_s for each in self._watched]

    def all_have_beaten(self) -> bool:
        """Whether every pulse has beaten since this last returned True."""
        if any(each.seen == each.told for each in self._watched):
            return False
        for each in self._watched:
            each.told = each.seen
        return True
