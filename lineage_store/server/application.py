"""Puts the ASGI application together: routes, middleware, error handlers; the page of web/.

In: settings. Out: an application on one store, which it opens with the first question and closes when it ends.
Promises: each family of endpoints of our own API is a router in `OWN`, which refuses unknown parameters; MindInsight's
API is an application of its own, because its errors look different and it ignores unknown parameters, as its clients
expect. Of the page, only files that existed when the server started are served, by their names, and its document's
Content-Security-Policy lets it run no other scripts.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

import lineage_store
from lineage_store.config import Settings
from lineage_store.errors import ConfigError
from lineage_store.server import monitoring, refusals
from lineage_store.server.asking import State
from lineage_store.server.guard import (
    Guard,
    caught,
    heads,
    policy_of,
    refuse_unknown_parameters,
    safe_headers,
)
from lineage_store.server.mindinsight import routes
from lineage_store.server.own import changes, job, jobs, models, samples
from lineage_store.server.own.changes import Watcher, ended_by_signals

OWN: tuple[APIRouter, ...] = (
    job.store_router,
    changes.router,
    jobs.router,
    job.router,
    samples.router,
)
"""Every family of endpoints below `API`."""
API = "/api/v1"
_PROBLEM: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What is wrong, and what to do",
        "content": {refusals.MEDIA_TYPE: {"schema": models.ProblemAnswer.model_json_schema()}},
    }
}


def application_for(settings: Settings) -> FastAPI:
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
    api, checks = f"{prefix}{API}", [Depends(refuse_unknown_parameters)]
    app = FastAPI(
        title="lineage-store",
        version=lineage_store.__version__,
        summary="What MindSpore trainings wrote into their log files, out of SQL.",
        openapi_url=f"{api}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,  # operationId: list_jobs, get_tags, …
        lifespan=lifespan,
    )
    app.state.store, app.state.watcher = state, watcher
    app.state.metrics = monitoring.ServerMetrics(state, watcher, api)
    refusals.answer_errors(app)
    routes.add_to(app, prefix, state)  # first: its requests are many
    for router in OWN:
        app.include_router(router, prefix=api, responses=_PROBLEM, dependencies=checks)
    app.include_router(monitoring.router, prefix=prefix)
    app.include_router(router_at(prefix))
    app.add_middleware(heads, beside=f"{prefix}{routes.BEGIN}")
    app.add_middleware(Guard, policy=policy)
    app.add_middleware(caught)
    app.add_middleware(safe_headers)
    app.add_middleware(monitoring.counted, metrics=app.state.metrics)
    return app


def prefix_of(settings: Settings) -> str:
    """Return the prefix of all paths: empty, or `/a/b` without a slash at its end. Raises ConfigError."""
    prefix = settings.serve_url_path_prefix.strip("/")
    if prefix and not all(re.fullmatch(r"\w[\w.~-]*", part) for part in prefix.split("/")):
        raise ConfigError(
            f"serve_url_path_prefix = {prefix!r} is no beginning of a path: use letters, digits, - _ . ~ and /."
        )
    return f"/{prefix}" if prefix else ""


STATIC = Path(__file__).parent / "static"
"""Where `make page` puts the page; a wheel contains it."""
ROUTES = ("jobs", "compare", "job", "health")
_TYPES = {".js": "text/javascript", ".css": "text/css"}
_POLICY = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
"""An asset's name has a hash of its content, so that the content never changes."""
_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>lineage_store</title><h1>lineage_store</h1>
<p>The page is not built: run <code>make page</code> in the checkout, or install a wheel.</p>
<ul>
<li><a href="api/v1/train-jobs">Jobs</a>, <a href="api/v1/health">how the store stands</a></li>
<li><a href="api/v1/openapi.json">What else can be asked</a> (OpenAPI)</li>
</ul>
</html>
"""


@dataclass(frozen=True, slots=True)
class _Asset:
    content: bytes
    zipped: bytes
    media_type: str


def router_at(prefix: str, static: Path = STATIC) -> APIRouter:
    """Return the routes of the page below `prefix`, which is empty or `/a/b` without a slash at its end."""
    router = APIRouter(prefix=prefix, include_in_schema=False)
    assets = {path.name: _read(path) for path in sorted(static.glob("assets/*"))}
    document = _document(prefix, static)

    async def page() -> HTMLResponse:
        return HTMLResponse(document, headers=_POLICY)

    async def asset(request: Request, name: str) -> Response:
        if name not in assets:
            raise HTTPException(404, f"The page has no file {name!r}.")
        found = assets[name]
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(found.content, headers=_FOR_EVER, media_type=found.media_type)
        zipped = {**_FOR_EVER, "Content-Encoding": "gzip"}
        return Response(found.zipped, headers=zipped, media_type=found.media_type)

    async def with_slash() -> RedirectResponse:
        return RedirectResponse(f"{prefix}/", 308)

    if prefix:
        router.add_api_route("", with_slash)
    router.add_api_route("/", page)
    for route in ROUTES:
        router.add_api_route(f"/{route}", page)
        router.add_api_route(f"/{route}/{{rest:job}}", page)
    router.add_api_route("/assets/{name}", asset)
    return router


def _document(prefix: str, static: Path) -> str:
    """Return the document, with a base URL by which it finds its assets and the API from each of its routes."""
    index = static / "index.html"
    if not index.exists():
        return _NOT_BUILT
    return index.read_text(encoding="utf-8").replace("<head>", f'<head>\n    <base href="{prefix}/" />', 1)


def _read(path: Path) -> _Asset:
    content = path.read_bytes()
    media_type = _TYPES.get(path.suffix, "application/octet-stream")
    return _Asset(content, gzip.compress(content, mtime=0), media_type)
