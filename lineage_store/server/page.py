"""Serves the built page of web/: one document for all its routes, and its assets.

In: the prefix of all paths. Out: a router. Promises: only files that existed when the server started are served, by
their names, and the document's Content-Security-Policy lets it run no other scripts.
Does not know: the API that the page uses, `/api/v1`.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

import lineage_store.server.own.names  # noqa: F401 - registers the convertor `job`

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
