"""`GET events`: the changes of the store, as Server-Sent Events.

In: the token up to which a client has the changes (`Last-Event-ID`, which browsers send when they reconnect, or
`since`). Out: one event for each page of changes; its id is the token to continue from. Promises: a client that
continues from the last id misses no change and gets none twice, even if the server or ingest restarts; a line is sent
at least every HEARTBEAT_S. `server/watcher.py` has the part that all clients share.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lineage_store.server.connections import client_of
from lineage_store.server.own.changes import Since
from lineage_store.server.state import Ask
from lineage_store.server.watcher import Watcher

router = APIRouter(tags=["changes"])

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Keeps proxies from caching or buffering the stream."""


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
async def events(
    request: Request, ask: Ask, since: Since = None, last_event_id: Annotated[str | None, Header()] = None
) -> EventStream:
    """Stream the changes as they happen.

    Events: `begin` (the client has all changes so far), `changes`, `store` (whether the database answers), `resume`
    (the client was too slow: it must reconnect and continue from the last id, as browsers do by themselves).
    """
    watcher: Watcher = request.app.state.watcher
    return EventStream(watcher, await watcher.stream(ask, last_event_id or since))
