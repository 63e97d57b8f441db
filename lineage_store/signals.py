"""Signal handlers for the duration of a block.

In: a handler, which also receives the previous handler; signal numbers. Out: nothing. Promises: the previous handlers
are restored when the block ends. Outside the main thread, where Python forbids to set handlers, nothing is changed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Before = Any
"""The previous handler of a signal: a function, or one of the constants of `signal.getsignal`."""


@contextmanager
def handled(handle: Callable[[int, FrameType | None, Before], object], *numbers: int) -> Iterator[None]:
    """Call `handle(number, frame, previous handler)` for the signals `numbers` that arrive in the block."""
    before = {number: signal.getsignal(number) for number in numbers}
    is_main = threading.current_thread() is threading.main_thread()
    for number in numbers if is_main else ():
        signal.signal(number, lambda number, frame: handle(number, frame, before[number]))
    try:
        yield
    finally:
        for number, handler in before.items() if is_main else ():
            signal.signal(number, handler)
