"""One thing at a time is written: what is light at once, what is heavy by a thread behind the training's back.

In: things, from any thread. Out: calls of `work`, one after the other, in the order in which things were handed over,
and one call of `finish` at the end. Promises: before a thing is taken the one before it has been written, so that no
more than one is lost when the process is killed, and a slow disk slows the training down instead of filling its memory;
whatever was handed over is written before the interpreter exits; in a forked child nothing happens. `work` and
`finish` must not raise.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Generic, TypeVar

Given = TypeVar("Given")


class Pipeline(Generic[Given]):
    """A writer thread, started when it is first needed."""

    def __init__(self, work: Callable[[Given], None], finish: Callable[[], None]) -> None:
        self._work, self._finish = work, finish
        self._writer: Thread | None = None
        self._given: SimpleQueue[Given | None] = SimpleQueue()
        self._turn = Condition()
        self._is_busy = False
        self._closed = False
        self.process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that the thread is in: a forked child has only a copy of its locks."""
        return os.getpid() == self.process

    def put(self, given: Given, *, light: bool) -> None:
        """Take one thing; what is `light` costs less to write here than to pass on.

        RuntimeError: it is closed, or there are no more threads to be had.
        """
        with self._turn:
            self._turn.wait_for(lambda: not self._is_busy)
            if self._closed:
                raise RuntimeError("the recorder was closed meanwhile")
            if self._writer is None:
                self._start()
            if light:
                self._work(given)
            else:
                self._is_busy = True
                self._given.put(given)

    def drain(self) -> None:
        """Return when all that was handed over has been written."""
        with self._turn:
            self._turn.wait_for(lambda: not self._is_busy)

    def stop(self) -> None:
        """Let the writer write what waits and end, without waiting for it.

        Garbage is collected in any thread at any place, where a lock may be held: this takes none.
        """
        if self.is_ours:
            self._given.put(None)

    def close(self) -> None:
        """Write what waits, and return when the writer has ended."""
        if not self.is_ours:
            return
        with self._turn:
            self._closed = True
        self.stop()
        if self._writer is not None:
            self._writer.join()

    def _start(self) -> None:
        writer = Thread(target=self._run, name="summary-writer", daemon=True)
        writer.start()
        self._writer = writer
        atexit.register(self.close)

    def _run(self) -> None:
        while (given := self._given.get()) is not None:
            self._work(given)
            with self._turn:
                self._is_busy = False
                self._turn.notify_all()
        self._finish()
        atexit.unregister(self.close)
