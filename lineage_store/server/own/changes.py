"""`GET changes`: the changes since a token, page by page; `GET events` streams them as they happen.

In: clients, each with the token up to which it has the changes (`since`, or `Last-Event-ID`, which browsers send when
they reconnect). Out: pages; or events, one for each page, whose id is the token to continue from.
Promises: a client that continues from its last token misses no change and gets none twice, even if the server or
ingest restarts. A line is sent at least every HEARTBEAT_S. One thread polls for all clients, and none while there are
no clients. Each event is encoded once. All clients share one bounded buffer of events; a client that falls behind it
gets the event `resume`, reconnects, and reads what it missed from the database. All streams end when the process is
told to end.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from lineage_store.api import LineageStore
from lineage_store.api.reports import MOST_CHANGES, Change
from lineage_store.errors import MindInsightException, RequestRefusedError
from lineage_store.program import Before, handled
from lineage_store.server.asking import Ask, JsonResponse
from lineage_store.server.decoding import client_of, to_json
from lineage_store.server.own import models
from lineage_store.server.own.names import key_of, url_of
from lineage_store.server.refusals import problem_kind
from lineage_store.texts import to_stored

if TYPE_CHECKING:
    from lineage_store.api.reports import ChangeFollower, ChangePage
    from lineage_store.server.asking import Asker


log = logging.getLogger(__name__)

LOOKS_EVERY_S = 0.25
HEARTBEAT_S = 25.0
ENDS_WITHIN_S = 5.0
"""How long `close` waits for the polling thread, which may hang in the database."""
KEPT_EVENTS, KEPT_BYTES = 256, 8 << 20
"""Limits of the buffer."""
MOST_STREAMS = 2000
"""Of all clients together; one has at most half of them."""
PAGE = 500
"""Changes in an event, at most."""
RETRY_MS = 1000
"""How long a browser waits before it reconnects."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Keeps proxies from caching or buffering the stream."""
_HEARTBEAT = b":\n\n"
_RESUME = b"event: resume\ndata: {}\n\n"
_UNFORESEEN = "internal"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

router = APIRouter(tags=["changes"])

Since = Annotated[str | None, Query(description="Token of an earlier answer; now: only what comes.")]


@router.get("/changes", response_model=models.ChangesAnswer)
async def list_changes(
    ask: Ask, since: Since = None, limit: Annotated[int, Query(ge=1, le=MOST_CHANGES)] = 500
) -> Response:
    """What has changed since a token, and the token to continue with; without one, everything there is.

    `GET /api/v1/events` streams the same as Server-Sent Events: docs/changes.md.
    """

    def question(store: LineageStore) -> dict[str, Any]:
        answer = store.changes.since(since, limit=limit)
        found = list(map(_described, answer.changes))
        return {"changes": found, "since": answer.since, "more": answer.more}

    return JsonResponse(await ask(question))


def _described(change: Change) -> dict[str, object]:
    """Return a change in the form of `models.ChangeAnswer`."""
    base_dir, train_id = change.base_dir, change.train_id
    return {
        "kind": change.kind,
        "base": key_of(base_dir),
        "base_dir": to_stored(base_dir),
        "train_id": None if train_id is None else to_stored(train_id),
        "url": None if train_id is None or change.state is None else url_of(base_dir, train_id),
        **{name: getattr(change, name) for name in ("state", "revision", "at")},
    }


class EventStream(StreamingResponse):
    """A response that streams events until the client disconnects or the server ends."""

    media_type = "text/event-stream"

    def __init__(self, watcher: Watcher, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, headers=HEADERS)
        self._watcher = watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watcher.leave(client_of(scope))


# OpenAPI cannot describe an endless stream: a program that calls every documented endpoint would wait for ever.
@router.get("/events", response_class=EventStream, include_in_schema=False)
async def stream_events(
    request: Request, ask: Ask, since: Since = None, last_event_id: Annotated[str | None, Header()] = None
) -> EventStream:
    """Stream the changes as they happen.

    Events: `begin` (the client has all changes so far), `changes`, `store` (whether the database answers), `resume`
    (the client was too slow: it must reconnect and continue from the last id, as browsers do by themselves).
    """
    watcher: Watcher = request.app.state.watcher
    return EventStream(watcher, await watcher.stream(ask, last_event_id or since))


class Watcher:
    """The buffer of events and the polling thread of one application. Methods run in the event loop unless noted.

    It is a thread of its own, not a question in the threads of `State`: a database that does not answer must neither
    take a question's place nor keep the process from ending.
    """

    def __init__(self) -> None:
        self.clients = 0
        """How many streams there are; the thread reads it too."""
        self._of_client = Counter[str]()
        self._kept = deque[bytes]()
        self._kept_bytes = self._newest = 0
        """`_newest` is the number of the last event in the buffer."""
        self._news, self._ended = asyncio.Event(), threading.Event()
        self._loop: asyncio.AbstractEventLoop
        """The loop of the clients."""
        self._looking = threading.Lock()
        """Guards polling; the fields below it are used only while holding it."""
        self._follower: ChangeFollower | None = None
        self._thread: threading.Thread | None = None
        self._made, self._trouble = 0, ""

    async def stream(self, ask: Asker, since: str | None) -> AsyncIterator[bytes]:
        """Return the stream of events after a token; None: from now on. The caller must call `leave` at its end.

        Raises RequestRefusedError above MOST_STREAMS, for one client above half of them, and as `Changes.since`
        does, before anything is streamed.
        """
        client = client_of(ask.request.scope)
        of_this = self._of_client[client]
        if self.clients >= MOST_STREAMS or of_this >= MOST_STREAMS // 2:
            raise RequestRefusedError(
                f"{self.clients} streams of changes are open, {of_this} of them to this client.",
                hint="Close one, or follow the changes with GET changes.",
                reason="too_many_streams",
            )
        self.clients += 1
        self._of_client[client] += 1
        try:
            self._loop = asyncio.get_running_loop()
            number, here = await ask(self._join)
            page = None if since is None else await _page(ask, since, here)
        except BaseException:
            self.leave(client)
            raise
        return self._events(ask, page, number, here)

    def leave(self, client: str) -> None:
        """Count a stream that has ended."""
        self.clients -= 1
        self._of_client[client] -= 1
        if not self._of_client[client]:
            del self._of_client[client]

    def end(self) -> None:
        """End all streams. May be called from any thread, and from a signal handler."""
        self._ended.set()

    def close(self) -> None:
        """End all streams, and wait ENDS_WITHIN_S at most for the polling thread. Blocks."""
        self.end()
        if self._thread is not None:
            self._thread.join(ENDS_WITHIN_S)

    async def _events(
        self, ask: Asker, page: ChangePage | None, number: int, here: str
    ) -> AsyncIterator[bytes]:
        """Yield the changes that the client lacks, from the database; then the buffered events from `number` on."""
        yield f"retry: {RETRY_MS}\n\n".encode()
        while page is not None:
            if page.changes:
                yield _of_changes(page)
            page = await _page(ask, page.since, here) if page.more else None
        yield _event("begin", {}, here)
        while not self._ended.is_set():
            oldest = self._newest - len(self._kept) + 1
            if number < oldest:
                yield _RESUME
                return
            if number <= self._newest:
                number += 1
                yield self._kept[number - 1 - oldest]
                continue
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._news.wait()
            except TimeoutError:
                yield _HEARTBEAT

    def _keep(self, event: bytes) -> None:
        self._kept.append(event)
        self._kept_bytes, self._newest = self._kept_bytes + len(event), self._newest + 1
        while len(self._kept) > KEPT_EVENTS or (self._kept_bytes > KEPT_BYTES and len(self._kept) > 1):
            self._kept_bytes -= len(self._kept.popleft())
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # --- in threads -------------------------------------------------------------------------------------------------

    def _join(self, store: LineageStore) -> tuple[int, str]:
        """Poll once, so that the follower is not behind the client's token.

        Returns the number of the next event, and the token that it continues from.
        """
        with self._looking:
            if self._follower is None:
                self._follower = store.changes.follow()
                self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
                self._thread.start()
            self._look(self._follower)
            assert self._follower.since is not None
            return self._made + 1, self._follower.since

    def _watch(self) -> None:
        """Poll until there are no clients or the streams end."""
        while self._is_wanted(ended=self._ended.wait(LOOKS_EVERY_S)):
            pass
        with suppress(RuntimeError):  # the event loop may have ended already
            self._loop.call_soon_threadsafe(self._wake)

    def _is_wanted(self, *, ended: bool) -> bool:
        """Poll once; if there are no clients or the streams have ended, close the follower and return False instead."""
        with self._looking:
            assert self._follower is not None
            if ended or not self.clients:
                self._follower.close()
                self._follower = None
                return False
            try:
                self._look(self._follower)
            except MindInsightException as error:
                self._tell_state(problem_kind(error), error.message, error.hint or "")
            except Exception as error:
                if self._trouble != _UNFORESEEN:
                    log.error("Polling for changes failed; retrying.", exc_info=error)
                self._tell_state(
                    _UNFORESEEN, "Polling for changes failed; retrying.", "See the server's log."
                )
            return True

    def _look(self, follower: ChangeFollower) -> None:
        for answer in follower.look():
            self._make(_of_changes(answer))
        self._tell_state("")

    def _tell_state(self, trouble: str, what: str = "", remedy: str = "") -> None:
        """Send an event to all clients when the database starts to fail, and when it answers again."""
        if trouble == self._trouble:
            return
        self._trouble = trouble
        told = {"kind": trouble, "what": what, "remedy": remedy} if trouble else {}
        self._make(_event("store", {"reachable": not trouble, **told}))

    def _make(self, event: bytes) -> None:
        self._made += 1
        with suppress(RuntimeError):  # the event loop has ended, and all clients with it
            self._loop.call_soon_threadsafe(self._keep, event)


@contextmanager
def ended_by_signals(watcher: Watcher) -> Iterator[None]:
    """Make SIGTERM and SIGINT end the streams too, because the server waits for its clients before it exits."""

    def end(number: int, frame: FrameType | None, before: Before) -> None:
        watcher.end()
        if callable(before):
            before(number, frame)

    with handled(end, *_SIGNALS):
        yield


async def _page(ask: Asker, since: str, until: str) -> ChangePage:
    return await ask(lambda store: store.changes.since(since, until=until, limit=PAGE))


def _of_changes(answer: ChangePage) -> bytes:
    return _event("changes", {"changes": list(map(_described, answer.changes))}, answer.since)


def _event(kind: str, data: Mapping[str, object], token: str = "") -> bytes:
    """Encode an event; one without a token does not change the client's Last-Event-ID."""
    identity = f"id: {token}\n".encode() if token else b""
    return b"event: %b\n%bdata: %b\n\n" % (kind.encode(), identity, to_json(data))
