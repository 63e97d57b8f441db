"""What all requests share: one store that is only read, the threads that ask it, room for heavy reads.

In: settings. Out: `Ask`, by which an endpoint asks the store without keeping the others waiting. Promises: the store is
opened with the first question, and again with the next where that failed; it opens `pool_size` connections at most; no
more than `serve_heavy_reads` questions that take long are under way at once, and who would wait longer than a moment
for one is refused (429); when a client goes, or the server ends, its statements end. Knows no question.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from lineage_store.api import Cancellation, LineageStore, asked_again
from lineage_store.api.changes import Now
from lineage_store.config import Settings
from lineage_store.errors import RequestRefusedError

T = TypeVar("T")
HEAVY_WAIT_S = 5.0
"""How long a heavy read waits for those under way: bursts are answered, a flood is not."""
_QUICK_S = 0.05
"""Until then nobody looks whether the client is still there."""


class State:
    """What the requests of one application share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # One connection is left to who measures: a monitor is answered while all questions are under way.
        self._threads = ThreadPoolExecutor(max(1, settings.pool_size - 1), thread_name_prefix="question")
        self._heavy = asyncio.Semaphore(settings.serve_heavy_reads)
        self._opening = threading.Lock()
        self._store: LineageStore | None = None
        self._writable: LineageStore | None = None
        self._now: Now | None = None

    def store(self) -> LineageStore:
        """The store, for reading only. Raises as `LineageStore` does; not for the event loop, it may take a while."""
        with self._opening:
            if self._store is None:
                timeout_s = self.settings.serve_statement_timeout_s or self.settings.statement_timeout_s
                settings = replace(self.settings, statement_timeout_s=timeout_s)
                self._store = LineageStore(settings=settings, create=False, read_only=True)
            return self._store

    def annotate(self, base_dir: str, train_id: str, **annotation: Any) -> None:
        """Put a label or remark on a job; what this server answers next has it. Raises as `LineageStore.annotate`."""
        with self._opening:
            if self._writable is None:
                self._writable = LineageStore(settings=replace(self.settings, pool_size=1), create=False)
        self._writable.annotate(base_dir, train_id, **annotation)
        self.store().see_latest()

    def since(self) -> str:
        """The token behind all that was committed before. Raises as `store` does; for questions."""
        store = self.store()
        with self._opening:
            self._now = self._now or store.now()
        return self._now.since()

    async def ask(
        self,
        question: Callable[[LineageStore], T],
        *,
        heavy: bool = False,
        gone: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Put a question to the store in a thread.

        Args:
            heavy: it may take long, or its answer much memory.
            gone: returns when nobody waits for the answer any more.
        """
        async with self._room(heavy):
            cancellation = Cancellation()

            def answer() -> T:
                with cancellation.covers():
                    return asked_again(question)(self.store())

            asked = asyncio.get_running_loop().run_in_executor(self._threads, answer)
            try:
                await _answered_or_gone(asked, gone)
            finally:
                if not asked.done():
                    await asyncio.to_thread(cancellation.cancel)
                    await asyncio.wait({asked})
            return asked.result()

    async def close(self) -> None:
        """Let questions under way end; close the store."""
        await asyncio.to_thread(self._threads.shutdown)
        for opened in (self._now, self._store, self._writable):
            if opened is not None:
                opened.close()

    @asynccontextmanager
    async def _room(self, heavy: bool) -> AsyncIterator[None]:
        if not heavy:
            yield
            return
        try:
            await asyncio.wait_for(self._heavy.acquire(), HEAVY_WAIT_S)
        except TimeoutError:
            most = self.settings.serve_heavy_reads
            raise RequestRefusedError(
                f"{most} questions that take long are under way, which is the most at once.",
                hint="Ask again in a moment, or allow more with the setting serve_heavy_reads.",
                reason="too_many_reads",
            ) from None
        try:
            yield
        finally:
            self._heavy.release()


class Asker:
    """Asks the store for one request."""

    def __init__(self, state: State, request: Request) -> None:
        self.state = state
        self._request = request

    async def __call__(self, question: Callable[[LineageStore], T], *, heavy: bool = False) -> T:
        """Put a question to the store; see `State.ask`."""
        return await self.state.ask(question, heavy=heavy, gone=self._gone)

    async def change(self, what: Callable[[LineageStore], T]) -> T:
        """Change something in the store, also where who asked for it goes away meanwhile."""
        return await self.state.ask(what)

    async def _gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass


async def _answered_or_gone(
    asked: asyncio.Future[T], gone: Callable[[], Coroutine[Any, Any, None]] | None
) -> None:
    if gone is None:
        await asyncio.wait({asked})
        return
    done, _ = await asyncio.wait({asked}, timeout=_QUICK_S)
    if done:
        return
    leaving: asyncio.Future[None] = asyncio.create_task(gone())
    either: set[asyncio.Future[Any]] = {asked, leaving}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()


def _asker(request: Request) -> Asker:
    return Asker(request.app.state.store, request)


Ask = Annotated[Asker, Depends(_asker)]
"""What an endpoint takes to ask the store: `await ask(lambda store: store.tags(…))`."""
