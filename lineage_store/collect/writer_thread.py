"""Write one item at a time: small ones in the caller's thread, large ones in a background thread.

In: items, from any thread. Out: calls of `work`, one at a time, in the order of `put`, and one call of `finish` at the
end. Promises: `put` waits until the previous item is written, so that at most one item is lost when the process is
killed, and a slow disk slows the training down instead of filling its memory; all items are written before the
interpreter exits. In a forked child, `stop` and `close` do nothing; callers must check `is_ours` before `put` and
`drain`. `work` and `finish` must not raise.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Generic, TypeVar

Given = TypeVar("Given")


class WriterThread(Generic[Given]):
    """A thread that writes items, which the first `put` starts."""

    def __init__(self, work: Callable[[Given], None], finish: Callable[[], None]) -> None:
        self._work, self._finish = work, finish
        self._thread: Thread | None = None
        self._given: SimpleQueue[Given | None] = SimpleQueue()
        self._turn = Condition()
        self._is_busy = False
        self._closed = False
        self.process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this process made the writer; a forked child has no thread, only a copy of the locks."""
        return os.getpid() == self.process

    def put(self, given: Given, *, light: bool) -> None:
        """Take one item. `light` items are written in this thread, which is cheaper than passing them on.

        Raises RuntimeError if the writer is closed or no thread can be started.
        """
        with self._turn:
            self._turn.wait_for(lambda: not self._is_busy)
            if self._closed:
                raise RuntimeError("the recorder was closed meanwhile")
            if self._thread is None:
                self._start()
            if light:
                self._work(given)
            else:
                self._is_busy = True
                self._given.put(given)

    def drain(self) -> None:
        """Wait until all items are written."""
        with self._turn:
            self._turn.wait_for(lambda: not self._is_busy)

    def stop(self) -> None:
        """Let the writer finish and end, without waiting for it.

        Takes no lock, because garbage collection calls this in any thread, which may hold the lock already.
        """
        if self.is_ours:
            self._given.put(None)

    def close(self) -> None:
        """Write what is pending, and wait until the writer has ended."""
        if not self.is_ours:
            return
        with self._turn:
            self._closed = True
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        writer = Thread(target=self._run, name="summary-writer", daemon=True)
        writer.start()
        self._thread = writer
        atexit.register(self.close)

    def _run(self) -> None:
        while (given := self._given.get()) is not None:
            self._work(given)
            with self._turn:
                self._is_busy = False
                self._turn.notify_all()
        self._finish()
        atexit.unregister(self.close)
