"""What clients that only follow the changes cost the server.

A server of the command line runs with default settings, on a store that nobody writes to. This process holds the
connections, and reads nothing but the beginning of each stream.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks import corpora
from benchmarks.databases import Database, fresh
from benchmarks.measuring import Bound, Row, Samples, Sizes, cpu_seconds
from lineage_store import LineageStore

CLIENTS = 500
_DATABASES: tuple[tuple[Database, str], ...] = (("sqlite", "SQLite"), ("postgresql", "PostgreSQL"))
_REQUEST = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _idle(sizes: Sizes, *, database: Database) -> Samples:
    seconds = sizes.idle_client_seconds / CLIENTS
    with fresh(database) as url, LineageStore(url) as store:
        store.ingest(corpora.jobs(300))
        with _server(url) as (process, port), ExitStack() as streams:
            for _ in range(CLIENTS):
                _follow(streams.enter_context(socket.create_connection(("127.0.0.1", port))))
            began, before = time.monotonic(), cpu_seconds(process)
            time.sleep(seconds)
            share = (cpu_seconds(process) - before) / (time.monotonic() - began)
    return Samples((100 * share,), note=f"{CLIENTS} clients, {seconds:g} s")


@contextmanager
def _server(url: str) -> Iterator[tuple[int, int]]:
    """The process id of a server, and its port."""
    script = "from lineage_store.cli import main; main()"
    command = [sys.executable, "-c", script, "serve", "--port", "0", "--no-open"]
    environment = os.environ | {"LINEAGE_STORE_DATABASE_URL": url}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            said = next((match for line in server.stderr if (match := re.search(r":(\d+)/", line))), None)
            if said is None:
                raise RuntimeError("The server does not start.")
            yield server.pid, int(said[1])
        finally:
            server.terminate()


def _follow(client: socket.socket) -> None:
    client.sendall(_REQUEST)
    seen = b""
    while b"event: begin" not in seen:
        seen += client.recv(4096)


ROWS = [
    Row(
        f"following-idle-{database}",
        f"a server's CPU for clients that follow while nothing changes, {name}, of one core",
        partial(_idle, database=database),
        Bound(1.0),
        shown="figure",
        unit="%",
    )
    for database, name in _DATABASES
]
