"""Limits on clients' connections: how many there are, whose they are, and how long they may be idle.

In: an application. Out: a configured uvicorn server, which needs a listening socket to run on.
Promises: a connection is closed when its next request, up to the body, has not come within 10 s, or when its client has
accepted no data of an answer for 30 s. Above the limit of connections (4000, or what the system allows) a new one takes
the place of one without an admitted request, of the client that has the most of these; one client has at most half of
all. Only when each connection has an admitted request under way is a new one answered with 503. Headers in which a
proxy names the client are ignored.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections import Counter, defaultdict
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from lineage_store.server.decoding import client_of
from lineage_store.server.guard import ADMIT

HEAD_WITHIN_S = 10.0
TAKES_WITHIN_S = 30.0
"""How long a client may accept no data of what is sent to it, be it an answer or a stream of changes."""
STOPS_WITHIN_S = 5
"""How long the server takes to end, of which requests under way have all but the last second."""
LONGEST_HEAD = 128 << 10
"""Bytes of a request's head: MindInsight's page names up to a thousand jobs in one URL."""
MOST_CONNECTIONS = 4000
_BACKLOG = 512
"""New connections that are accepted at once, before any of them is counted."""
_OTHER_FILES = 256
"""File descriptors left for other uses: databases, log files."""


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server that is not started yet; `run` wants a listening socket."""
    protocol: Any = partial(_Protocol, room=Room(_allowed_connections()))
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            backlog=_BACKLOG,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=LONGEST_HEAD,
            timeout_graceful_shutdown=STOPS_WITHIN_S - 1,
        )
    )


def _allowed_connections() -> int:
    """Raise this process's limit on open files as far as needed and allowed; return how many connections fit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = _BACKLOG + _OTHER_FILES
    wanted = MOST_CONNECTIONS + others
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft - others)


class Room:
    """The connections of all clients, of which a new one displaces another when there are too many.

    A connection is idle until the guard admits a request of it, and again when that is answered. Connections of which
    no request was ever admitted are displaced first, then idle ones; of each kind the oldest one of whoever has most.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._of_client = Counter[str]()
        self._strangers: defaultdict[str, dict[_Protocol, None]] = defaultdict(dict)
        self._idle: defaultdict[str, dict[_Protocol, None]] = defaultdict(dict)

    def enter(self, connection: _Protocol) -> bool:
        """Count a new connection. Return False if its requests must be refused."""
        whose, fits = connection.whose, True
        if self._of_client[whose] >= max(1, self.most // 2):
            fits = self._displace([whose])
        elif self._of_client.total() >= self.most:
            fits = self._displace()
        self._of_client[whose] += 1
        self._strangers[whose][connection] = None
        return fits

    def begin(self, connection: _Protocol) -> None:
        """Note that an admitted request is under way."""
        self._forget(connection)

    def end(self, connection: _Protocol) -> None:
        """Note that a request is answered."""
        whose = connection.whose
        if connection not in self._strangers.get(whose, {}):
            self._idle[whose][connection] = None

    def leave(self, connection: _Protocol) -> None:
        """Forget a connection that is closed."""
        self._forget(connection)
        self._of_client[connection.whose] -= 1
        if not self._of_client[connection.whose]:
            del self._of_client[connection.whose]

    def _displace(self, whose: list[str] | None = None) -> bool:
        """Close an idle connection, of the named client or of whoever has most; return whether there was one."""
        for kind in (self._strangers, self._idle):
            clients = [each for each in whose or kind if kind.get(each)]
            if clients:
                oldest = next(iter(kind[max(clients, key=lambda each: len(kind[each]))]))
                oldest.displace()
                return True
        return False

    def _forget(self, connection: _Protocol) -> None:
        for kind in (self._strangers, self._idle):
            of_client = kind.get(connection.whose, {})
            of_client.pop(connection, None)
            if not of_client:
                kind.pop(connection.whose, None)


class _Protocol(H11Protocol):
    """HTTP/1.1 that closes a connection when the head of the next request is not complete in time."""

    _closing: asyncio.TimerHandle | None = None
    _has_left = False
    whose = ""

    def __init__(self, *arguments: Any, room: Room, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.room = room
        self.app_state = {**self.app_state, ADMIT: partial(room.begin, self)}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        # Head and body of an answer are two writes: the second must not wait until the client acknowledges the first.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Only the system knows what a client has acknowledged: data written here waits in the system's buffers first.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(TAKES_WITHIN_S * 1000))
        self.whose = client_of({"client": self.client})
        if not self.room.enter(self):
            self.limit_concurrency = 0  # uvicorn answers its requests with 503
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_request()
        else:
            self._forget()

    def on_response_complete(self) -> None:
        if not self._has_left:  # one that is gone would be displaced in place of one that is there
            self.room.end(self)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._leave()
        super().connection_lost(exc)

    def displace(self) -> None:
        """Close the connection, for another one needs its place."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self.room.leave(self)

    def _expect_request(self) -> None:
        if self._closing is None:
            self._closing = self.loop.call_later(HEAD_WITHIN_S, self.transport.close)

    def _forget(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
