"""Work in order behind the training's back: worker threads encode, one thread writes.

In: things to encode, each with its size in bytes. Out: calls of `write`, in one thread, with all results that are
ready, in the order in which they were handed over. Promises: what waits is bounded in bytes, so that a slow disk
slows the training down instead of filling its memory; `drain` returns when everything handed over has been written.
It does not know what is written, and `encode` and `write` must not raise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition, Thread
from typing import Generic, TypeVar

PENDING_BYTES = 64 * 1024 * 1024
"""What may wait; one thing that is larger waits alone."""

Given = TypeVar("Given")
Made = TypeVar("Made")


class Pipeline(Generic[Given, Made]):
    """Encoders and one writer, started when they are first needed."""

    def __init__(
        self,
        encode: Callable[[Given], Made],
        write: Callable[[Sequence[Made]], None],
        *,
        workers: int,
        pending_bytes: int = PENDING_BYTES,
    ) -> None:
        self._encode, self._write = encode, write
        self._workers, self._limit = min(workers, os.cpu_count() or 1), pending_bytes
        self._encoders: ThreadPoolExecutor | None = None
        self._writer: Thread | None = None
        self._changed = Condition()
        self._waiting: list[tuple[Made | Future[Made], int]] = []
        self._unwritten = 0
        self._closing = False

    def put(self, given: Given, byte_count: int, *, light: bool) -> None:
        """Hand over one thing of this size; what is `light` costs less to encode here than to pass on."""
        if self._writer is None:
            self._writer = Thread(target=self._run, name="summary-writer", daemon=True)
            self._writer.start()
        with self._changed:
            self._changed.wait_for(lambda: not self._unwritten or self._unwritten + byte_count <= self._limit)
            self._unwritten += byte_count
        made = self._encode(given) if light else self._pool().submit(self._encode, given)
        with self._changed:
            self._waiting.append((made, byte_count))
            self._changed.notify_all()

    def drain(self) -> None:
        """Wait until nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unwritten)

    def close(self) -> None:
        """Write what waits, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._writer is not None:
            self._writer.join()
        if self._encoders is not None:
            self._encoders.shutdown()

    def _pool(self) -> ThreadPoolExecutor:
        if self._encoders is None:
            self._encoders = ThreadPoolExecutor(self._workers, thread_name_prefix="summary-encoder")
        return self._encoders

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                taken, self._waiting = self._waiting, []
            if not taken:
                return
            self._write([made.result() if isinstance(made, Future) else made for made, _ in taken])
            with self._changed:
                self._unwritten -= sum(byte_count for _, byte_count in taken)
                self._changed.notify_all()
