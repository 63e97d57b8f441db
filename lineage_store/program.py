"""What a running program asks of its process: logging, signals, garbage collection, time, other processes.

In: a level and a format for logging; handlers; blocks; seconds that work may take; process ids. Out: a root logger that
writes to stderr, readable lines on a terminal, one JSON object per line elsewhere, with times in UTC as in RFC 3339;
for how long work runs by itself. Promises: in log lines, passwords in URLs and connection strings are starred out, and
control characters, as in a file name, are escaped; what a block changes is as before when it ends; on a machine whose
processors are busy nothing looks slow that is only starved, and a hang always ends. Only the command line calls
`configure`: the library never configures logging.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from lineage_store.plain_values import iso
from lineage_store.texts import escaped, without_passwords

Before = Any
"""The previous handler of a signal: a function, or one of the constants of `signal.getsignal`."""
STARVED = 10
"""Work may take this many times as long by the clock on the wall as it may take by itself."""
_STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class _Timed(logging.Formatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return iso(datetime.fromtimestamp(record.created, UTC))


class ConsoleFormatter(_Timed):
    """`time level message key=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        named = ((name, escaped(str(value))) for name, value in vars(record).items() if name not in _STANDARD)
        extra = " ".join(f"{name}={value}" for name, value in named)
        first, newline, rest = escaped(line, keep_lines=True).partition("\n")
        return without_passwords(f"{first} {extra}".rstrip() + newline + rest)


class LineFormatter(_Timed, JsonFormatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return without_passwords(super().format(record))


def configure(level: str, style: str) -> None:
    """Send log lines to stderr; `style` is console, json or auto."""
    handler = logging.StreamHandler()
    if style == "console" or (style == "auto" and sys.stderr.isatty()):
        handler.setFormatter(ConsoleFormatter("%(asctime)s %(levelname)-7s %(message)s"))
    else:
        names = {"asctime": "time", "levelname": "level", "name": "logger"}
        fields = "%(asctime)s %(levelname)s %(name)s %(message)s"
        handler.setFormatter(LineFormatter(fields, rename_fields=names))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


@contextmanager
def handled(handle: Callable[[int, FrameType | None, Before], object], *numbers: int) -> Iterator[None]:
    """Call `handle(number, frame, previous handler)` for the signals `numbers` that arrive in the block.

    Outside the main thread, where Python forbids to set handlers, nothing is changed.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    is_main = threading.current_thread() is threading.main_thread()
    for number in numbers if is_main else ():
        signal.signal(number, lambda number, frame: handle(number, frame, before[number]))
    try:
        yield
    finally:
        for number, handler in before.items() if is_main else ():
            signal.signal(number, handler)


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no cyclic garbage in this process during the block, which must be bounded: a batch, no more.

    The collector starts whenever some more objects are alive, examines all of them, and finds nothing, for rows have no
    cycles; it took a tenth of the time of ingesting small jobs.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def waited_for_cpu_s(process: int | None = None) -> float:
    """Return how long this thread, or the main thread of a process, was ready to run and had no processor."""
    task = "thread-self" if process is None else process
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{task}/schedstat", "rb") as file:
        return int(file.read().split()[1]) / 1e9
    return 0.0


class Limit:
    """What work may take, from now on: time in which its thread runs or waits for a disk, but not for a processor.

    A hang ends, because the clock on the wall counts too. Where the kernel does not tell how long a thread waited for a
    processor, all its time counts.

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


def command_of(pid: int) -> str:
    """Return the command line of a process without passwords; "" if it cannot be read."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        return without_passwords(words.strip())
    except OSError:
        return ""


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped (by SIGSTOP or a debugger), so that it will not release its locks."""
    return state_and_begin(pid)[0] in ("T", "t")


def state_and_begin(pid: int) -> tuple[str, str]:
    """Return a process's state, a letter, and when it started, in clock ticks since boot; both "" if unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]
