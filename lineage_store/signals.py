"""Signals that are handled in one way for the length of a block.

In: a handler, which is also given the one before it; signals. Out: nothing. Promises: afterwards they are handled as
before; in any thread but the main one, which alone may say how signals are handled, nothing is done.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Before = Any
"""What handled a signal before: a function, or what `signal` has for none."""


@contextmanager
def handled(handle: Callable[[int, FrameType | None, Before], object], *numbers: int) -> Iterator[None]:
    """Let these signals be handled so in the block."""
    before = {number: signal.getsignal(number) for number in numbers}
    is_main = threading.current_thread() is threading.main_thread()
    for number in numbers if is_main else ():
        signal.signal(number, lambda number, frame: handle(number, frame, before[number]))
    try:
        yield
    finally:
        for number, handler in before.items() if is_main else ():
            signal.signal(number, handler)
