"""Limits on clients' connections: how many there are, and how long they may be idle.

In: an application. Out: a configured uvicorn server, which needs a listening socket to run on.
Promises: a connection is closed when its next request, up to the body, has not come within 10 s, or when its client has
accepted no data of an answer for 30 s. Above the limit of connections (4000, or what the system allows) requests are
answered with 503. Headers in which a proxy names the client are ignored.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_WITHIN_S = 10.0
TAKES_WITHIN_S = 30.0
"""How long a client may accept no data of what is sent to it, be it an answer or a stream of changes."""
STOPS_WITHIN_S = 5
"""How long the server takes to end, of which requests under way have all but the last second."""
LONGEST_HEAD = 128 << 10
"""Bytes of a request's head: MindInsight's page names up to a thousand jobs in one URL."""
MOST_CONNECTIONS = 4000
_OTHER_FILES = 256
"""File descriptors left for other uses: databases, log files."""


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server that is not started yet; `run` wants a listening socket."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            limit_concurrency=_allowed_connections(),
            timeout_graceful_shutdown=STOPS_WITHIN_S - 1,
        )
    )


def _allowed_connections() -> int:
    """Raise this process's limit on open files as far as needed and allowed; return how many connections fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft - _OTHER_FILES)


class _Protocol(H11Protocol):
    """HTTP/1.1 that closes a connection when the head of the next request is not complete in time."""

    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        # Head and body of an answer are two writes: the second must not wait until the client acknowledges the first.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Only the system knows what a client has acknowledged: data written here waits in the system's buffers first.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(TAKES_WITHIN_S * 1000))
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_request()
        else:
            self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        if self._closing is None:
            self._closing = self.loop.call_later(HEAD_WITHIN_S, self.transport.close)

    def _forget(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
