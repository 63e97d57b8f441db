"""`GET events`: what changes in the store, as Server-Sent Events.

In: where a client stands (`Last-Event-ID`, which browsers send by themselves, or `since`). Out: an event a page of
changes, whose id is the token to go on with. Promises: who goes on from the last id misses nothing and is told nothing
twice, over restarts of the server and of ingest; a line comes at least every HEARTBEAT_S. What is shared by all clients
is in `server/watcher.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lineage_store.server.own.changes import Since
from lineage_store.server.state import Ask
from lineage_store.server.watcher import Watcher

router = APIRouter(tags=["changes"])

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""A proxy must neither keep nor collect what is streamed."""


class EventStream(StreamingResponse):
    """Events, until the client or the server has had enough."""

    media_type = "text/event-stream"

    def __init__(self, watcher: Watcher, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, headers=HEADERS)
        self._watcher = watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream them."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watcher.leave()


# No document of OpenAPI can say what it is: a program that asks all that is documented would wait for its end for ever.
@router.get("/events", response_class=EventStream, include_in_schema=False)
async def events(
    request: Request, ask: Ask, since: Since = None, last_event_id: Annotated[str | None, Header()] = None
) -> EventStream:
    """What changes, as it comes.

    Events: `begin` (where the stream begins), `changes`, `store` (whether the database answers), `resume` (the client
    was too slow: it is to connect again and go on with the last id, as browsers do by themselves).
    """
    watcher: Watcher = request.app.state.watcher
    return EventStream(watcher, await watcher.stream(ask, last_event_id or since))
