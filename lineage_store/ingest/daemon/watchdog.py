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


class StandstillWatch:
    """Sees pulses that do not beat."""

    def __init__(self, pulses: Sequence[Pulse], deadline_s: float, monotonic: Clock = time.monotonic) -> None:
        self._pulses, self._deadline_s, self._monotonic = list(pulses), deadline_s, monotonic
        self._looked = monotonic()
        self._seen = [pulse.beats for pulse in pulses]
        self._still_s = [0.0] * len(pulses)
        self._told = list(self._seen)

    def add(self, pulse: Pulse) -> None:
        """Watch another pulse from now on."""
        self._pulses.append(pulse)
        self._still_s.append(0.0)
        for beats in (self._seen, self._told):
            beats.append(pulse.beats)

    def look(self) -> Pulse | None:
        """A pulse that has not beaten for longer than the deadline; call it every LOOK_EVERY_S."""
        now = self._monotonic()
        passed_s = min(now - self._looked, 2 * LOOK_EVERY_S)  # more than that, and we did not run ourselves
        self._looked = now
        for number, pulse in enumerate(self._pulses):
            beats = pulse.beats
            self._still_s[number] = self._still_s[number] + passed_s if beats == self._seen[number] else 0.0
            self._seen[number] = beats
        still = (
            pulse
            for pulse, still_s in zip(self._pulses, self._still_s, strict=True)
            if still_s > self._deadline_s
        )
        return next(still, None)

    def still_s(self) -> list[float]:
        """For how long each pulse has not beaten, when it was looked at last."""
        return list(self._still_s)

    def all_have_beaten(self) -> bool:
        """Whether every pulse has beaten since this was true the last time."""
        if any(seen == told for seen, told in zip(self._seen, self._told, strict=True)):
            return False
        self._told = list(self._seen)
        return True
