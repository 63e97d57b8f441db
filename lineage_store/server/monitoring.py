"""`GET /metrics`: the state of the store and the work of the server, for Prometheus.

In: the shared state; every request. Out: metric families. Promises: requests are labelled with the template of their
route (for our own API without its prefix), so that clients cannot create new labels. The metrics of the store are those
of the daemon (`operations/monitoring.py`); those that need no database are there even while it does not answer.
"""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lineage_store.api import administration
from lineage_store.api.reports import Measures
from lineage_store.errors import MindInsightException
from lineage_store.server.asking import State
from lineage_store.server.own.changes import Watcher

router = APIRouter(tags=["metrics"])
_METHODS = ("GET", "HEAD", "POST", "PUT", "OPTIONS")
_OTHER = "other"


class ServerMetrics:
    """The metrics of one application; `registry` holds them all."""

    def __init__(self, state: State, watcher: Watcher, api: str) -> None:
        self._state, self._api, self.registry = state, api, CollectorRegistry()
        self.registry.register(administration.collector(self._measure))
        ProcessCollector(registry=self.registry)
        labels = ("method", "route", "status")
        requests = "Requests by route and status."
        self._requests = Counter("lineage_store_requests", requests, labels, registry=self.registry)
        duration = "Until an answer begins."
        self._duration = Histogram(
            "lineage_store_request_duration_seconds", duration, ("route",), registry=self.registry
        )
        streams = Gauge("lineage_store_event_streams", "Clients that follow.", registry=self.registry)
        streams.set_function(lambda: watcher.clients)

    def count(self, scope: Scope, status: int, took_s: float) -> None:
        """Count an answer; `took_s` is the time until it began."""
        template = getattr(scope.get("route"), "path", None)
        # Depending on FastAPI's version, the template of an included router has the prefix or not.
        route = f"{scope.get('root_path', '')}{template.removeprefix(self._api)}" if template else _OTHER
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        self._requests.labels(method, route, status).inc()
        self._duration.labels(route).observe(took_s)

    def _measure(self) -> Measures:
        try:
            return self._state.store().health.measures()
        except MindInsightException as error:
            return administration.measures_without_store(self._state.settings, error)


def counted(app: ASGIApp, metrics: ServerMetrics) -> ASGIApp:
    """Count requests, including those that are refused or end in an unforeseen exception."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.count(scope, message["status"], time.monotonic() - began)
            await send(message)

        await app(scope, receive, counting)

    return answer


@router.get("/metrics", response_class=Response)
async def get_metrics(request: Request) -> Response:
    """How the store stands, and what the server does, in the format that Prometheus asks for."""
    registry: CollectorRegistry = request.app.state.metrics.registry
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(await asyncio.to_thread(encode, registry), media_type=media_type)
