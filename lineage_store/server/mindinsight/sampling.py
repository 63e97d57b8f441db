"""Which samples of a tag MindInsight keeps: a simulation of its reservoir sampling. Pure.

In: the steps of a tag, file by file in the order in which MindInsight reads them; how many it keeps. Out: the steps
that it would still have, ascending. Promises: the same samples as MindInsight's server, also after restarts of the
training, and always the newest one. The store keeps every step: this only serves to reproduce MindInsight's charts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

Place = tuple[int, int]
"""Index of a run, and index of a sample in it."""


@dataclass(frozen=True, slots=True)
class Run:
    """The steps of a tag in one log file, ascending; `file_time` in unix s."""

    file_time: int
    steps: Sequence[int]


def kept(runs: Sequence[Run], capacity: int) -> list[Place]:
    """Return the places of the samples that survive, ascending by step."""
    if len(runs) == 1:
        return [(0, index) for index in _kept_of_one(len(runs[0].steps), capacity)]
    reservoir = Reservoir(capacity)
    for number, run in enumerate(runs):
        for index, step in enumerate(run.steps):
            reservoir.add(step, run.file_time, (number, index))
    return reservoir.places


@lru_cache(maxsize=64)
def _kept_of_one(count: int, capacity: int) -> Sequence[int]:
    """Return the same for one run: for ascending steps only their number matters, so that answers can be cached."""
    if count <= capacity:
        return range(count)
    reservoir = Reservoir(capacity)
    for index in range(count):
        reservoir.add(index, 0, (0, index))
    return [index for _, index in reservoir.places]


@dataclass(slots=True)
class Reservoir:
    """A reservoir of bounded size that always has the newest sample; a generator with seed 0 chooses which to drop."""

    capacity: int
    places: list[Place] = field(default_factory=list)
    _steps: list[int] = field(default_factory=list)
    _file_times: list[int] = field(default_factory=list)
    _seen: int = 0
    _random: Random = field(default_factory=lambda: Random(0))  # noqa: S311  # MindInsight draws by it

    def add(self, step: int, file_time: int, place: Place) -> None:
        """Add a sample; `step` and `file_time` as in `Run`."""
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
        """Drop the samples that a step replaces: the same step, and later steps in files that were begun before."""
        before = len(self._steps)
        samples = zip(self._steps, self._file_times, self.places, strict=True)
        left = [each for each in samples if each[0] < step or (each[0] > step and each[1] >= file_time)]
        self._steps = [step for step, _, _ in left]
        self._file_times = [file_time for _, file_time, _ in left]
        self.places = [place for _, _, place in left]
        if len(left) < before:
            self._seen = round(self._seen * (len(left) / before))

    def _remove(self, index: int) -> None:
        del self._steps[index], self._file_times[index], self.places[index]
