"""A socket in place of a PostgreSQL server's: a function of the test serves the clients.

In: the server's URL, a directory for the socket, and the function that serves a client. Out: the URL with this socket.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url


def socket_name(url: str) -> str:
    """Return PostgreSQL's name for the socket of a port, in any directory."""
    parsed = make_url(url)
    return f".s.PGSQL.{parsed.port or parsed.query.get('port', 5432)}"


def server_socket(url: str) -> str:
    """Return the path of the server's own socket. Skips the test if the server has none on this host."""
    directory = make_url(url).query.get("host")
    if directory is None:
        pytest.skip("nothing can stand before a server that has no socket here")
    return f"{directory}/{socket_name(url)}"


@contextmanager
def standing_before(url: str, directory: Path, serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL through a socket in a directory, for the length of a block; each client is served in a thread."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{directory}/{socket_name(url)}")
        listening.listen()

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listening.accept()
                    threading.Thread(target=serve, args=(client,), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield make_url(url).update_query_dict({"host": str(directory)}).render_as_string(hide_password=False)
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()
