"""How long work takes by itself: time in which its thread runs or waits for a disk, but not for a processor.

In: seconds that work may take, in this thread or in another process. Out: how long it has taken, and what is left.
Promises: on a machine whose processors are busy nothing looks slow that is only starved; a hang always ends, because
the clock on the wall counts too, `STARVED` times as long. Where the kernel does not tell how long a thread waited for a
processor, all its time counts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

STARVED = 10
"""Work may take this many times as long by the clock on the wall as it may take by itself."""


def waited_for_cpu_s(process: int | None = None) -> float:
    """Return how long this thread, or the main thread of a process, was ready to run and had no processor."""
    task = "thread-self" if process is None else process
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{task}/schedstat", "rb") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0


class Limit:
    """What work may take, from now on.

    Args:
        seconds: how long by itself.
        longest_s: how long by the clock on the wall; None: `STARVED` times as long.
        tasks: the processes whose main threads do the work; None among them is this thread.
    """

    def __init__(
        self, seconds: float, longest_s: float | None = None, tasks: Sequence[int | None] = (None,)
    ) -> None:
        self._seconds, self._tasks = seconds, tasks
        self._longest_s = STARVED * seconds if longest_s is None else longest_s
        self._began, self._waited = time.monotonic(), list(map(waited_for_cpu_s, tasks))
        self._over_at = self._began + min(seconds, self._longest_s)

    def own_s(self) -> float:
        """Return how long the work has taken by itself."""
        return time.monotonic() - self._began - self._starved_s()

    def left_s(self) -> float:
        """Return for how many seconds the work may go on at least; 0 or less: it is over."""
        left = self._over_at - time.monotonic()
        if left <= 0:  # only now does it matter for how long it was starved
            may_take_s = min(self._seconds + self._starved_s(), self._longest_s)
            self._over_at = self._began + may_take_s
            left = self._over_at - time.monotonic()
        return left

    def _starved_s(self) -> float:
        waited = map(waited_for_cpu_s, self._tasks)
        return sum(max(0.0, now - before) for now, before in zip(waited, self._waited, strict=True))
