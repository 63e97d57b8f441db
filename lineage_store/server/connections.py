"""Connections of clients: how many, and how long they may be silent.

In: an application, a listening socket. Out: uvicorn's server, set up. Promises: a connection on which no request comes,
or only a part of one, is closed, and so is one whose client takes nothing of its answer; so many connections are taken
at once, each further request is told to come back (503); no proxy's word is taken for who a client is.
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
"""As long as a client may take nothing of what was sent to it: an answer, or what it follows."""
STOPS_WITHIN_S = 5
LONGEST_HEAD = 128 << 10
"""Bytes of a request up to its body: MindInsight's page compares a thousand jobs in one URL."""
MOST_CONNECTIONS = 4000
_OTHER_FILES = 256
"""What a process has open beside connections: databases, log files."""


def server_of(app: ASGIApp) -> uvicorn.Server:
    """A server that has not begun; it wants a listening socket."""
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
            timeout_graceful_shutdown=STOPS_WITHIN_S,
        )
    )


def _allowed_connections() -> int:
    """As many as the system lets this process open, for which it asks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft - _OTHER_FILES)


class _Protocol(H11Protocol):
    """Closes a connection whose next request is not begun, or not whole up to its body, in time."""

    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        # Head and body of an answer are two writes: the second must not wait for the client to confirm the first.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The system alone knows what a client has taken: what is written here waits in its buffers first.
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
