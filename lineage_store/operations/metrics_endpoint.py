"""Serve the metrics of a process at a port of its own, for this host only.

In: a function that measures. Out: `GET /metrics` while a block runs. Promises: listens on the loopback address only;
requests under another host name, such as a web page's by DNS rebinding, are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from lineage_store.errors import ConfigError
from lineage_store.operations.measures import Measures
from lineage_store.operations.metrics import StoreCollector

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")


class _Quiet(WSGIRequestHandler):
    timeout = 10.0
    """Seconds after which a silent client is disconnected."""

    def log_message(self, *_: object) -> None:
        """Log nothing for a scrape."""


@contextmanager
def exposed(port: int, measure: Callable[[], Measures]) -> Iterator[int]:
    """Answer scrapes while the block runs, and yield the port; port 0 takes any free one. Raises ConfigError."""
    registry = CollectorRegistry()
    registry.register(StoreCollector(measure))
    ProcessCollector(registry=registry)
    try:
        server = make_server(HOST, port, _for_this_host(make_wsgi_app(registry)), ThreadingWSGIServer, _Quiet)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"Metrics cannot be told at port {port} of {HOST}: {error}.",
            hint="Choose another one with --metrics-port or the setting metrics_port.",
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _for_this_host(app: Any) -> Callable[..., Iterable[bytes]]:
    def answer(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if str(environment.get("HTTP_HOST", "")).partition(":")[0] not in _NAMES:
            start("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"This server is not called so.\n"]
        answered: Iterable[bytes] = app(environment, start)
        return answered

    return answer
