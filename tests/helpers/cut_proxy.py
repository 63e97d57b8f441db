"""A proxy between a client and PostgreSQL that breaks connections at a chosen byte.

In: the URL of a database on a unix socket. Out: a URL that leads through the proxy; how many bytes have passed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from helpers.postgres_socket import server_socket, standing_before

TO_SERVER, TO_CLIENT = "to server", "to client"


@dataclass
class CutProxy:
    """The bytes that have passed, and where to break the connection."""

    server: str
    url: str = ""
    passed: dict[str, int] = field(default_factory=dict)
    """Bytes in each direction since the last `cut_after`."""
    _left: dict[str, int] = field(default_factory=dict)

    def cut_after(self, direction: str = "", size_bytes: int = 0) -> None:
        """Break the connection once `size_bytes` have passed in a direction; these are still delivered."""
        self.passed = dict.fromkeys((TO_SERVER, TO_CLIENT), 0)
        self._left = {direction: size_bytes}

    def serve(self, client: socket.socket) -> None:
        """Pass on the bytes of one connection."""
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.server)
        back = threading.Thread(target=self._pass, args=(server, client, TO_CLIENT), daemon=True)
        back.start()
        self._pass(client, server, TO_SERVER)
        back.join()
        client.close()
        server.close()

    def _pass(self, source: socket.socket, target: socket.socket, direction: str) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                left = self._left.get(direction, len(content) + 1)
                self.passed[direction] += len(content)
                if direction in self._left:
                    self._left[direction] = left - len(content)
                target.sendall(content[: max(0, left)])
                if left <= len(content):
                    break
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def cut_proxy(url: str, directory: Path) -> Iterator[CutProxy]:
    """Run a proxy for the length of a block."""
    proxy = CutProxy(server_socket(url))
    proxy.cut_after()
    with standing_before(url, directory, proxy.serve) as proxy.url:
        yield proxy
