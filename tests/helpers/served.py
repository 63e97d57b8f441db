"""A real server on a loopback port, in a thread of this process, for the length of a block."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import httpx
from fastapi import APIRouter

from lineage_store.config import Settings
from lineage_store.server import create_app
from lineage_store.server.connections import server_of

_WITHIN_S = 60.0
_SERVE = """
import socket, sys
from lineage_store import config
from lineage_store.server import create_app
from lineage_store.server.connections import server_of
server_of(create_app(config.load().settings)).run([socket.socket(fileno=int(sys.argv[1]))])
"""


_FIELDS = {field.name for field in fields(Settings)}


@contextmanager
def serving(url: str, *, routers: Sequence[APIRouter] = (), **settings: Any) -> Iterator[httpx.Client]:
    """A client of a server on the store at `url`.

    Args:
        routers: further endpoints, which only the test has.
        settings: with or without their prefix `serve_`.
    """
    named = {name if name in _FIELDS else f"serve_{name}": value for name, value in settings.items()}
    app = create_app(replace(Settings(), database_url=url, **named))
    for router in routers:
        app.include_router(router)
    server = server_of(app)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            deadline = time.monotonic() + _WITHIN_S
            while not server.started:
                assert thread.is_alive(), "the server ended"
                assert time.monotonic() < deadline, "the server does not start"
                time.sleep(0.01)
            with httpx.Client(base_url=address, timeout=_WITHIN_S) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(_WITHIN_S)


@contextmanager
def server_process(url: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """Run a server in a process of its own, which the test may kill; yield it and a client."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = [sys.executable, "-c", _SERVE, str(listener.fileno())]
        environment = {**os.environ, "LINEAGE_STORE_DATABASE_URL": url}
        process = subprocess.Popen(command, env=environment, pass_fds=[listener.fileno()])
    with process, httpx.Client(base_url=address, timeout=_WITHIN_S) as client:
        try:
            yield process, client
        finally:
            process.kill()
