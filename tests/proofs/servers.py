"""PostgreSQL servers that a proof may kill; they sync to disk, as an operator's servers do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from helpers import databases
from lineage_store.store.schema.upgrade import upgrade


@contextmanager
def own_server() -> Iterator[Any]:
    """A server of our own, and a migrated database."""
    with databases.own_server(databases.server_directory()) as server:
        upgrade(url_of(server))
        yield server


def url_of(server: Any) -> str:
    """The URL of its database."""
    return str(server.get_uri())


def kill_server(server: Any) -> None:
    """`kill -9` of the postmaster and of all its processes."""
    postmaster = server.get_postmaster_info().process
    processes = [postmaster, *postmaster.children(recursive=True)]
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    for process in processes:  # one that waits for the disk keeps the next server from starting
        process.wait(30)
