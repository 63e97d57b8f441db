"""What all requests share: one read-only store, the threads that query it, and the limit on heavy reads.

In: settings. Out: `Ask`, by which an endpoint queries the store without blocking the event loop.
Promises: the store is opened with the first question; if that fails, with the next. Questions use at most `pool_size`
connections; annotations and watching for commits have their own. At most `serve_heavy_reads` heavy questions run at
once; one that would wait longer than HEAVY_WAIT_S is refused (429). However much one client asks, another one's
question finds a place. When a client disconnects, or the server cancels a request at its end, the statements of the
question are cancelled.
Does not know: any particular question.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
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
from lineage_store.server.connections import client_of

T = TypeVar("T")
HEAVY_WAIT_S = 5.0
"""How long a heavy read waits for its turn: short bursts are answered, a flood is refused."""
_QUICK_S = 0.05
"""Only after this time is it checked whether the client has disconnected: most questions are quicker."""


class State:
    """The store, threads and limits of one application."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # One connection stays free for /metrics, so that a monitor is answered while all threads are busy.
        threads = max(1, settings.pool_size - 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="question")
        self._places, self._heavy = Places(threads), Places(settings.serve_heavy_reads)
        self._opening = threading.Lock()
        self._store: LineageStore | None = None
        self._writable: LineageStore | None = None
        self._now: Now | None = None

    def store(self) -> LineageStore:
        """Return the read-only store, opening it if needed. Raises as `LineageStore` does; blocks."""
        with self._opening:
            if self._store is None:
                timeout_s = self.settings.serve_statement_timeout_s or self.settings.statement_timeout_s
                settings = replace(self.settings, statement_timeout_s=timeout_s)
                self._store = LineageStore(settings=settings, create=False, read_only=True)
            return self._store

    def annotate(self, base_dir: str, train_id: str, **annotation: Any) -> None:
        """Put a label or remark on a job; later answers of this server have it. Raises as `LineageStore.annotate`."""
        with self._opening:
            if self._writable is None:
                self._writable = LineageStore(settings=replace(self.settings, pool_size=1), create=False)
        self._writable.annotate(base_dir, train_id, **annotation)
        self.store().see_latest()

    def since(self) -> str:
        """Return the token that stands behind everything committed so far. Raises as `store` does; blocks."""
        store = self.store()
        with self._opening:
            self._now = self._now or store.now()
        return self._now.since()

    async def ask(
        self,
        question: Callable[[LineageStore], T],
        *,
        client: str = "",
        heavy: bool = False,
        gone: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Run `question` on the store in a thread, and return its answer. Raises RequestRefusedError.

        Args:
            client: who asks, as `client_of` names it.
            heavy: the question may take long, or its answer much memory.
            gone: returns when nobody waits for the answer any more; the question is then cancelled.
        """
        async with self._heavy_place(client, heavy), self._places.place(client):
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
        """Wait for questions under way, then close the store."""
        await asyncio.to_thread(self._threads.shutdown)
        for opened in (self._now, self._store, self._writable):
            if opened is not None:
                opened.close()

    @asynccontextmanager
    async def _heavy_place(self, client: str, heavy: bool) -> AsyncIterator[None]:
        if not heavy:
            yield
            return
        try:
            await asyncio.wait_for(self._heavy.take(client), HEAVY_WAIT_S)
        except TimeoutError:
            most = self.settings.serve_heavy_reads
            raise RequestRefusedError(
                f"{most} questions that take long are under way, which is the most at once; one client may have all "
                "but one of them.",
                hint="Ask again in a moment, or allow more with the setting serve_heavy_reads.",
                reason="too_many_reads",
            ) from None
        try:
            yield
        finally:
            self._heavy.give_back(client)


class Places:
    """Places of which no client takes the last one from the others; to be used in one event loop.

    A client may take a free place if it has none, or if another one stays free. Of those who wait, who has fewest comes
    first, then who came first.
    """

    def __init__(self, most: int) -> None:
        self._free, self._spare = most, min(1, most - 1)
        self._taken = Counter[str]()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Hold a place for the length of a block."""
        await self.take(client)
        try:
            yield
        finally:
            self.give_back(client)

    async def take(self, client: str) -> None:
        """Wait for a place, and take it."""
        if self._may_take(client):
            self._take(client)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((client, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(client)
            else:
                self._waiting.remove((client, turn))
            raise

    def give_back(self, client: str) -> None:
        """Give a place back, to one who waits for it."""
        self._free += 1
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]
        while admitted := min(
            (each for each in self._waiting if self._may_take(each[0])),
            key=lambda each: self._taken[each[0]],
            default=None,
        ):
            self._waiting.remove(admitted)
            self._take(admitted[0])
            admitted[1].set_result(None)

    def _may_take(self, client: str) -> bool:
        return self._free > (self._spare if self._taken[client] else 0)

    def _take(self, client: str) -> None:
        self._free -= 1
        self._taken[client] += 1


class Asker:
    """Runs questions on the store for one request."""

    def __init__(self, state: State, request: Request) -> None:
        self.state, self.request = state, request

    async def __call__(self, question: Callable[[LineageStore], T], *, heavy: bool = False) -> T:
        """Run a question, which is cancelled when the client disconnects; see `State.ask`."""
        return await self.state.ask(
            question, client=client_of(self.request.scope), heavy=heavy, gone=self._gone
        )

    async def change(self, change: Callable[[LineageStore], T]) -> T:
        """Run a change of the store to its end, even if the client disconnects."""
        return await self.state.ask(change, client=client_of(self.request.scope))

    async def _gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
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
"""The parameter of an endpoint that queries the store: `await ask(lambda store: store.tags(…))`."""
