"""What all requests share: one read-only store, the threads that query it, and the limit on heavy reads.

In: settings. Out: `Ask`, by which an endpoint queries the store without blocking the event loop.
Promises: the store is opened with the first question; if that fails, with the next. Questions use at most `pool_size`
connections; annotations and watching for commits have their own. At most `serve_heavy_reads` heavy questions run at
once; one that would wait longer than HEAVY_WAIT_S is refused (429). However much one client asks, another one's
question finds a place. Log files are read in processes (`decoding`). When a client disconnects, or the server cancels a
request at its end, what the question runs is ended.
Does not know: any particular question.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.responses import Response

import lineage_store
from lineage_store.api import Cancellation, Job, JobUrl, LineageStore, asked_again
from lineage_store.api.reports import Now
from lineage_store.config import Settings
from lineage_store.errors import RequestRefusedError
from lineage_store.server.decoding import (
    ANYBODY,
    Client,
    Content,
    Decoders,
    Decoding,
    Places,
    answered_or_gone,
    client_of,
    to_json,
)

T = TypeVar("T")
HEAVY_WAIT_S = 5.0
"""How long a heavy read waits for its turn: short bursts are answered, a flood is refused."""
SINCE = "Lineage-Since"
"""The header of an answer that depends on the store alone. It has at least every change up to the token in it, from
which a client can follow the changes."""


class State:
    """The store, threads and limits of one application."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # One connection stays free for /metrics, so that a monitor is answered while all threads are busy.
        threads = max(1, settings.pool_size - 1)
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="question")
        self._places, self._heavy = Places(threads), Places(settings.serve_heavy_reads)
        self._decoders = Decoders(settings.serve_heavy_reads, settings.reading_deadline_s)
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

    def annotate(self, job: JobUrl | tuple[str, str], label: int | None, remark: str | None) -> None:
        """Put a label or remark on a job; later answers of this server have it. Raises as `Job.annotate`."""
        with self._opening:
            if self._writable is None:
                self._writable = LineageStore(settings=replace(self.settings, pool_size=1), create=False)
        Job(self._writable, job).annotate(label=label, remark=remark)
        self.store().opened.see_latest()

    def since(self) -> str:
        """Return the token that stands behind everything committed so far. Raises as `store` does; blocks."""
        store = self.store()
        with self._opening:
            self._now = self._now or store.changes.now()
        return self._now.since()

    async def ask(
        self,
        question: Callable[[LineageStore], T],
        client: Client = ANYBODY,
        *,
        heavy: bool = False,
    ) -> T:
        """Run `question` on the store in a thread, and return its answer. Raises RequestRefusedError.

        `heavy`: the question may take long, or its answer much memory. It is cancelled when the client has gone.
        """
        async with self._heavy_place(client, heavy), self._places.place(client.name):
            return await self._asked(question, client)

    async def decoded(
        self, question: Callable[[LineageStore], Content | Decoding], client: Client, *, heavy: bool = False
    ) -> Content:
        """Return the answer to a question that may read log files, which a process does. Raises as `Decoders.answer`.

        The arguments are those of `ask`.
        """
        async with self._heavy_place(client, heavy):
            async with self._places.place(client.name):
                found = await self._asked(question, client)
            return found if isinstance(found, Content) else await self._decoders.answer(found, client)

    async def _asked(self, question: Callable[[LineageStore], T], client: Client) -> T:
        cancellation = Cancellation()

        def answer() -> T:
            with cancellation.covers():
                return asked_again(question)(self.store())

        asked = asyncio.get_running_loop().run_in_executor(self._threads, answer)
        try:
            await answered_or_gone(asked, client)
        finally:
            if not asked.done():
                await asyncio.to_thread(cancellation.cancel)
                await asyncio.wait({asked})
        return asked.result()

    async def close(self) -> None:
        """Wait for questions under way, then close the store."""
        await self._decoders.close()
        await asyncio.to_thread(self._threads.shutdown)
        for opened in (self._now, self._store, self._writable):
            if opened is not None:
                opened.close()

    @asynccontextmanager
    async def _heavy_place(self, client: Client, heavy: bool) -> AsyncIterator[None]:
        if not heavy:
            yield
            return
        try:
            await asyncio.wait_for(self._heavy.take(client.name), HEAVY_WAIT_S)
        except TimeoutError:
            most = self.settings.serve_heavy_reads
            raise RequestRefusedError(
                f"{most} slow questions are running, which is the limit; one client may have all but one of them.",
                hint="Ask again in a moment, or allow more with the limit serve_heavy_reads.",
                reason="too_many_reads",
            ) from None
        try:
            yield
        finally:
            self._heavy.give_back(client.name)


class Asker:
    """Runs questions on the store for one request."""

    def __init__(self, state: State, request: Request) -> None:
        self.state, self.request = state, request
        self._client = Client(client_of(request.scope), self._gone)

    async def __call__(self, question: Callable[[LineageStore], T], *, heavy: bool = False) -> T:
        """Run a question, which is cancelled when the client disconnects; see `State.ask`."""
        return await self.state.ask(question, self._client, heavy=heavy)

    async def decoded(
        self, question: Callable[[LineageStore], Content | Decoding], *, heavy: bool = False
    ) -> Content:
        """Content a question that reads log files, until the client disconnects; see `State.decoded`."""
        return await self.state.decoded(question, self._client, heavy=heavy)

    async def change(self, change: Callable[[LineageStore], T]) -> T:
        """Run a change of the store to its end, even if the client disconnects."""
        return await self.state.ask(change, Client(self._client.name))

    async def _gone(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def _asker(request: Request) -> Asker:
    return Asker(request.app.state.store, request)


Ask = Annotated[Asker, Depends(_asker)]
"""The parameter of an endpoint that queries the store: `await ask(lambda store: store.names())`."""


class JsonResponse(Response):
    """A response with JSON content, in which `for_json` has already spelled out NaN and infinities."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


async def unless_known(
    ask: Asker,
    question: Callable[[LineageStore], Any],
    *,
    heavy: bool = False,
    lasts: bool = True,
) -> Response:
    """Return the answer to a question with its token, or 304 if nothing has changed since the client got it.

    The ETag is made of the token and the URL: for a current one nothing is read.

    Args:
        heavy: as for `State.ask`.
        lasts: False for an answer that also changes with time: it has no ETag and is always made anew.
    """
    request = ask.request
    known = request.headers.get("if-none-match", "")

    def answer(store: LineageStore) -> tuple[dict[str, str], bytes | None]:
        since = ask.state.since()
        etag = _etag(since, str(request.url))
        headers = {"ETag": etag, SINCE: since} if lasts else {SINCE: since}
        if lasts and etag.removeprefix("W/") in known:
            return headers, None
        with store.opened.snapshot():
            return headers, to_json(question(store))

    headers, content = await ask(answer, heavy=heavy)
    if content is None:
        return Response(None, 304, headers)
    return Response(content, headers=headers, media_type="application/json")


def _etag(since: str, url: str) -> str:
    text = "\n".join([lineage_store.__version__, since, url])
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
