"""A pooler between clients and PostgreSQL that lends a session per transaction, as PgBouncer does in that mode.

In: the URL of a database on a unix socket, whose server trusts everybody. Out: a URL that leads through the pooler.
Clients of one user and database share two sessions, which are lent in turn, so that two transactions in a row are never
in the same session; a session is not reset in between.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from helpers.postgres_socket import server_socket, standing_before

_SESSIONS = 2
_GREETING = b"R" + struct.pack("!ii", 8, 0)
_READY = b"Z\0\0\0\5I"


@dataclass
class _Session:
    """A session of the server that is not in a transaction."""

    server: socket.socket
    statuses: bytes
    """The messages in which the server reported its settings."""


@dataclass
class LendingPooler:
    """The server's socket, and the idle sessions by the startup message of the clients."""

    server: str
    idle: dict[bytes, deque[_Session]] = field(default_factory=lambda: defaultdict(deque))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, client: socket.socket) -> None:
        """Serve one client until it disconnects."""
        with suppress(OSError, EOFError), client:
            words = _startup(client)
            with self._lock:
                while len(self.idle[words]) < _SESSIONS:
                    self.idle[words].append(_session(self.server, words))
            statuses = self.idle[words][0].statuses
            key = b"K" + struct.pack("!iii", 12, 1, int.from_bytes(os.urandom(3), "big"))
            client.sendall(_GREETING + statuses + key + _READY)
            while first := client.recv(65536):
                if first.startswith(b"X"):
                    return
                self._lend(client, words, first)

    def _lend(self, client: socket.socket, words: bytes, first: bytes) -> None:
        """Lend a client a session until its transaction ends."""
        with self._lock:
            session = self.idle[words].popleft() if self.idle[words] else _session(self.server, words)
        try:
            _pass_on(client, session.server, first)
        except BaseException:
            session.server.close()  # its transaction would stay open for ever
            raise
        with self._lock:
            self.idle[words].append(session)


def _pass_on(client: socket.socket, server: socket.socket, first: bytes) -> None:
    answered = _Messages()
    server.sendall(first)
    while not answered.ready:
        readable, _, _ = select.select([client, server], [], [])
        if client in readable:
            server.sendall(_received(client))
        if server in readable:
            content = _received(server)
            answered.take(content)
            client.sendall(content)


@dataclass
class _Messages:
    """A parser of the server's messages that notices when the last one says "ready, not in a transaction"."""

    rest: bytes = b""
    ready: bool = False

    def take(self, content: bytes) -> None:
        self.rest += content
        while len(self.rest) >= 5 and len(self.rest) > (size := int.from_bytes(self.rest[1:5], "big")):
            self.ready = self.rest[: size + 1] == _READY
            self.rest = self.rest[size + 1 :]


def _startup(client: socket.socket) -> bytes:
    while True:
        size = int.from_bytes(_exactly(client, 4), "big")
        content = _exactly(client, size - 4)
        if content[:4] == struct.pack("!i", 196608):
            return struct.pack("!i", size) + content
        client.sendall(b"N")  # it asked for encryption


def _session(place: str, words: bytes) -> _Session:
    server = socket.socket(socket.AF_UNIX)
    server.connect(place)
    server.sendall(words)
    statuses = b""
    while (kind := _exactly(server, 1)) != b"Z":
        size = _exactly(server, 4)
        content = _exactly(server, int.from_bytes(size, "big") - 4)
        assert kind != b"E", content
        statuses += kind + size + content if kind == b"S" else b""
    _exactly(server, 5)
    return _Session(server, statuses)


def _exactly(source: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        content += _received(source, size - len(content))
    return content


def _received(source: socket.socket, size: int = 65536) -> bytes:
    content = source.recv(size)
    if not content:
        raise EOFError
    return content


@contextmanager
def lending_pooler(url: str, directory: Path) -> Iterator[str]:
    """Yield the URL through a pooler for the length of a block."""
    pooler = LendingPooler(server_socket(url))
    with standing_before(url, directory, pooler.serve) as through:
        yield through
    for session in (each for sessions in pooler.idle.values() for each in sessions):
        session.server.close()
