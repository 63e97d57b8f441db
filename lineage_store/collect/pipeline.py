"""Work in order behind the training's back: worker threads encode, one thread writes.

In: things to encode, from any thread, each with its size in bytes. Out: calls of `write`, all in one thread, with the
results in the order in which they were handed over, and one call of `finish` at the end. Promises: what waits is
bounded in bytes, so that a slow disk slows the training down instead of filling its memory; whatever was handed over
is written before the interpreter exits; in a forked child nothing happens. `encode`, `write` and `finish` must not
raise.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from typing import Generic, TypeVar

PENDING_BYTES = 64 * 1024 * 1024
"""What may wait; one thing that is larger waits alone."""
LINGER_S = 0.02
"""So long the writer lets things come together: each time that it wakes, the training waits for the interpreter."""

Given = TypeVar("Given")
Made = TypeVar("Made")


class Pipeline(Generic[Given, Made]):
    """Encoders and one writer, started when they are first needed."""

    def __init__(
        self,
        encode: Callable[[Given], Made],
        write: Callable[[Sequence[Made]], None],
        finish: Callable[[], None],
        *,
        workers: int,
        pending_bytes: int = PENDING_BYTES,
    ) -> None:
        self._encode, self._write, self._finish = encode, write, finish
        self._workers, self._limit = min(workers, os.cpu_count() or 1), pending_bytes
        self._encoders: ThreadPoolExecutor | None = None
        self._writer: Thread | None = None
        self._given: SimpleQueue[tuple[Made | Future[Made], int] | None] = SimpleQueue()
        self._hurry = Lock()
        self._hurry.acquire()
        self._room = Condition()
        self._unwritten = 0
        self._closed = False
        self.process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that the threads are in: a forked child has only a copy of their locks."""
        return os.getpid() == self.process

    def put(self, given: Given, byte_count: int, *, light: bool) -> None:
        """Hand over one thing of this size; what is `light` costs less to encode here than to pass on.

        RuntimeError: it is closed, or there are no more threads to be had.
        """
        if self._writer is None:
            self._start()
        made = self._encode(given) if light else self._pool().submit(self._encode, given)
        with self._room:
            if not self._has_room(byte_count):
                self._hurry_up()
                self._room.wait_for(lambda: self._has_room(byte_count))
            if self._closed:
                raise RuntimeError("the recorder was closed meanwhile")
            self._unwritten += byte_count
            self._given.put((made, byte_count))

    def drain(self) -> None:
        """Return when all that was handed over has been written."""
        self._hurry_up()
        with self._room:
            self._room.wait_for(lambda: not self._unwritten)

    def stop(self) -> None:
        """Let the writer write what waits and end, without waiting for it.

        Garbage is collected in any thread at any place, where a lock may be held: this takes none.
        """
        if self.is_ours:
            self._given.put(None)
            self._hurry_up()

    def close(self) -> None:
        """Write what waits, and return when the writer has ended."""
        if not self.is_ours:
            return
        with self._room:
            self._closed = True
        self.stop()
        if self._writer is not None:
            self._writer.join()

    def _start(self) -> None:
        with self._room:
            if self._writer is None:
                writer = Thread(target=self._run, name="summary-writer", daemon=True)
                writer.start()
                self._writer = writer
                atexit.register(self.close)

    def _pool(self) -> ThreadPoolExecutor:
        with self._room:
            if self._encoders is None:
                self._encoders = ThreadPoolExecutor(self._workers, thread_name_prefix="summary-encoder")
            return self._encoders

    def _has_room(self, byte_count: int) -> bool:
        return not self._unwritten or self._unwritten + byte_count <= self._limit

    def _hurry_up(self) -> None:
        with suppress(RuntimeError):  # the writer was told before
            self._hurry.release()

    def _run(self) -> None:
        ended = False
        while not ended:
            taken = self._taken()
            things = [thing for thing in taken if thing is not None]
            ended = len(things) < len(taken)
            self._write([made.result() if isinstance(made, Future) else made for made, _ in things])
            with self._room:
                self._unwritten -= sum(byte_count for _, byte_count in things)
                self._room.notify_all()
        self._finish()
        if self._encoders is not None:
            self._encoders.shutdown(wait=False)
        atexit.unregister(self.close)

    def _taken(self) -> list[tuple[Made | Future[Made], int] | None]:
        """All that waits, soon after there is something; None stands for the end."""
        first = self._given.get()
        self._hurry.acquire(timeout=LINGER_S)
        return [first, *(self._given.get_nowait() for _ in range(self._given.qsize()))]
