"""The watchdog beside the scheduler: it sees that the wall clock was set, and that a follower has come to a standstill.

In: pulses, which followers let beat; the two clocks. Out: how far the clock was set; which pulse stands still.
Promises: a standstill is counted in time during which this process ran (a machine that slept, or SIGSTOP, is none).
Does not know APScheduler, nor what becomes of what it sees.
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
    """The signs of progress of one follower: it beats in the follower's thread, and is watched from another."""

    name: str
    beats: int = 0
    last_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def beat(self) -> None:
        """A tick has ended, a batch was committed, or a directory was searched."""
        self.beats += 1
        self.last_at = datetime.now(UTC)


class ClockWatch:
    """Sees the wall clock part from the monotonic one."""

    def __init__(
        self, tolerance_s: float, wall: Clock = time.time, monotonic: Clock = time.monotonic
    ) -> None:
        self._tolerance_s, self._wall, self._monotonic = tolerance_s, wall, monotonic
        self._apart_s = wall() - monotonic()

    def moved_s(self) -> float:
        """How far the wall clock was set since the last look, forwards or back (< 0); 0.0 within the tolerance."""
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
    """Sees pulses that do not beat."""

    def __init__(self, pulses: Sequence[Pulse], deadline_s: float, monotonic: Clock = time.monotonic) -> None:
        self._deadline_s, self._monotonic = deadline_s, monotonic
        self._looked, self._watched = monotonic(), list[_Watched]()
        self.watch(pulses)

    def watch(self, pulses: Sequence[Pulse]) -> None:
        """Watch these from now on; what was seen of those that are watched already holds."""
        known = {id(each.pulse): each for each in self._watched}
        self._watched = [known.get(id(each)) or _Watched(each, each.beats, each.beats) for each in pulses]

    def look(self) -> Pulse | None:
        """A pulse that has not beaten for longer than the deadline; call it every LOOK_EVERY_S."""
        now = self._monotonic()
        passed_s = min(now - self._looked, 2 * LOOK_EVERY_S)  # more than that, and we did not run ourselves
        self._looked = now
        for each in self._watched:
            beats = each.pulse.beats
            each.still_s = each.still_s + passed_s if beats == each.seen else 0.0
            each.seen = beats
        return next((each.pulse for each in self._watched if each.still_s > self._deadline_s), None)

    def still_s(self) -> list[float]:
        """For how long each pulse has not beaten, when it was looked at last."""
        return [each.still_s for each in self._watched]

    def all_have_beaten(self) -> bool:
        """Whether every pulse has beaten since this was true the last time."""
        if any(each.seen == each.told for each in self._watched):
            return False
        for each in self._watched:
            each.told = each.seen
        return True
