"""Serves MindInsight's own page, from the directory `mindinsight/ui/dist` of its wheel, together with the API.

In: the directory, the API. Out: an application with the page's document, its files, and the paths that the page
requests. Promises: no file outside the directory is served, not even through a symbolic link.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from lineage_store.errors import ConfigError
from lineage_store.server.mindinsight.protocol import HEADERS


def page(directory: str, api: ASGIApp) -> Starlette:
    """Return the application to mount at `/mindinsight`. Raises ConfigError for a directory without the page."""
    path = Path(directory).expanduser()
    if not os.path.isfile(path / "index.html"):
        raise ConfigError(
            f"There is no index.html in {path} (setting mindinsight_ui).",
            hint="It is the directory mindinsight/ui/dist of MindInsight's wheel.",
        )
    routes = [
        Mount("/v1/mindinsight", api),
        Route("/graphvizlib.wasm", _graphviz),
        Mount("/", _Files(directory=path, html=True)),
    ]
    return Starlette(routes=routes)


class _Files(StaticFiles):
    """Files that a browser must revalidate each time, because the page may have been replaced by another version."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        response = super().file_response(*given, **named)
        response.headers.update({**HEADERS, "Cache-Control": "no-cache"})
        return response


async def _graphviz(_request: Request) -> Response:
    """Redirect Firefox, which requests the file at this path."""
    return RedirectResponse("static/js/graphvizlib.wasm", 302)
