"""Which samples of a tag MindInsight keeps: its reservoir, step by step. Pure.

In: the steps of a tag, file by file in the order in which MindInsight reads them; how many it keeps. Out: which of them
it would still have, ascending by step. Promises: the same ones as its server, restarts and all; the newest is always
among them. The store keeps every step: this is only for those who compare with MindInsight's pictures.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

Place = tuple[int, int]
"""Which run of steps, and which of its samples."""


@dataclass(frozen=True, slots=True)
class Run:
    """The steps of a tag in one log file, ascending."""

    file_time: int
    steps: Sequence[int]


def kept(runs: Sequence[Run], capacity: int) -> list[Place]:
    """The samples that survive, by place, ascending by step."""
    if len(runs) == 1:
        return [(0, index) for index in _kept_of_one(len(runs[0].steps), capacity)]
    reservoir = Reservoir(capacity)
    for number, run in enumerate(runs):
        for index, step in enumerate(run.steps):
            reservoir.add(step, run.file_time, (number, index))
    return reservoir.places


@lru_cache(maxsize=64)
def _kept_of_one(count: int, capacity: int) -> Sequence[int]:
    """The same for ascending steps: how many there are decides, whatever they are."""
    if count <= capacity:
        return range(count)
    reservoir = Reservoir(capacity)
    for index in range(count):
        reservoir.add(index, 0, (0, index))
    return [index for _, index in reservoir.places]


@dataclass(slots=True)
class Reservoir:
    """A sample of bounded size that always holds the newest; Python's generator with seed 0 chooses who leaves."""

    capacity: int
    places: list[Place] = field(default_factory=list)
    _steps: list[int] = field(default_factory=list)
    _file_times: list[int] = field(default_factory=list)
    _seen: int = 0
    _random: Random = field(default_factory=lambda: Random(0))  # noqa: S311  # MindInsight draws by it

    def add(self, step: int, file_time: int, place: Place) -> None:
        """Take a sample in."""
        if self._steps and step <= self._steps[-1]:
            self._purge(step, file_time)
        if len(self._steps) >= self.capacity:
            drawn = self._random.randint(0, self._seen)
            self._remove(drawn if drawn < self.capacity else -1)
        at = bisect_left(self._steps, step)
        self._steps.insert(at, step)
        self._file_times.insert(at, file_time)
        self.places.insert(at, place)
        self._seen += 1

    def _purge(self, step: int, file_time: int) -> None:
        """Forget what this step replaces: the same step, and later steps of files begun before this one."""
        before = len(self._steps)
        samples = zip(self._steps, self._file_times, self.places, strict=True)
        self._set(each for each in samples if each[0] < step or (each[0] > step and each[1] >= file_time))
        if len(self._steps) < before:
            self._seen = round(self._seen * (len(self._steps) / before))

    def _set(self, samples: Iterable[tuple[int, int, Place]]) -> None:
        remaining = list(samples)
        self._steps = [step for step, _, _ in remaining]
        self._file_times = [file_time for _, file_time, _ in remaining]
        self.places = [place for _, _, place in remaining]

    def _remove(self, index: int) -> None:
        del self._steps[index], self._file_times[index], self.places[index]
