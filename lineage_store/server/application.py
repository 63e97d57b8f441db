"""Puts the ASGI application together: routes, middleware, error handlers.

In: settings. Out: an application on one store, which it opens with the first question and closes when it ends.
Promises: a parameter that an endpoint of `/api/v1` does not have is refused, so that a misspelt one never gets the
answer to another question; MindInsight's API ignores unknown parameters, as its clients expect.
Each family of endpoints is a router in `OWN`. MindInsight's API is a separate ASGI application, because its errors look
different.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import lineage_store
from lineage_store.config import Settings
from lineage_store.errors import ConfigError, LineageParamValueError
from lineage_store.server import metrics, page, problems
from lineage_store.server.guard import Guard, SafeHeaders, policy_of
from lineage_store.server.mindinsight import routes as mindinsight
from lineage_store.server.own import changes, events, health, job, jobs, models, payloads, series, vocabulary
from lineage_store.server.state import State
from lineage_store.server.watcher import Watcher, ended_by_signals
from lineage_store.texts import meant

OWN: tuple[APIRouter, ...] = (
    *(health.router, changes.router, events.router, jobs.router, vocabulary.router),
    *(job.router, series.router, payloads.router),
)
"""Every family of endpoints below `API`."""
API = "/api/v1"
_PROBLEM: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What is wrong, and what to do",
        "content": {problems.MEDIA_TYPE: {"schema": models.Problem.model_json_schema()}},
    }
}


def create_app(settings: Settings) -> FastAPI:
    """Return the application for a store. Raises ConfigError for a setting that is not allowed."""
    policy = policy_of(settings)
    state, watcher = State(settings), Watcher()

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with ended_by_signals(watcher):
            try:
                yield
            finally:
                await asyncio.to_thread(watcher.close)
                await state.close()

    prefix = prefix_of(settings)
    api, checks = f"{prefix}{API}", [Depends(_refuse_unknown_parameters)]
    app = FastAPI(
        title="lineage-store",
        version=lineage_store.__version__,
        summary="What MindSpore trainings wrote into their log files, out of SQL.",
        openapi_url=f"{api}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.store, app.state.watcher = state, watcher
    app.state.metrics = metrics.ServerMetrics(state, watcher, api)
    problems.install(app)
    for router in OWN:
        app.include_router(router, prefix=api, responses=_PROBLEM, dependencies=checks)
    app.include_router(metrics.router, prefix=prefix)
    app.include_router(page.router_at(prefix))
    app.add_middleware(_Heads)
    mindinsight.install(app, prefix, state)
    app.add_middleware(Guard, policy=policy)
    app.add_middleware(problems.Caught)
    app.add_middleware(SafeHeaders)
    app.add_middleware(metrics.Counted, metrics=app.state.metrics)
    return app


def prefix_of(settings: Settings) -> str:
    """Return the prefix of all paths: empty, or `/a/b` without a slash at its end. Raises ConfigError."""
    prefix = settings.serve_url_path_prefix.strip("/")
    if prefix and not all(re.fullmatch(r"\w[\w.~-]*", part) for part in prefix.split("/")):
        raise ConfigError(
            f"serve_url_path_prefix = {prefix!r} is no beginning of a path: use letters, digits, - _ . ~ and /."
        )
    return f"/{prefix}" if prefix else ""


async def _refuse_unknown_parameters(request: Request) -> None:
    route: APIRoute = request.scope["route"]
    known = [field.alias for field in route.dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise LineageParamValueError(
                f"There is no parameter {name!r} here.",
                hint=meant(name, known) or f"Known parameters: {', '.join(known) or 'none'}.",
            )


class _Heads:
    """ASGI middleware that answers HEAD like GET, but without the body (RFC 9110)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; for HEAD, send only the head of the answer to GET."""
        if scope.get("method") != "HEAD":
            await self._app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope.update(as_get, method="HEAD")  # the routing result, by which metrics count
                await send(message)
                await send({"type": "http.response.body"})

        try:
            await self._app(as_get, receive, without_body)
        finally:
            scope.update(as_get, method="HEAD")  # also for the answer to an exception
