"""The files of MindInsight's own page, as its wheel has them in `mindinsight/ui/dist`, with the API beside them.

In: the directory, the API. Out: an application that answers `/`, the page's files, and what the page asks for.
Promises: nothing outside the directory is ever served, links included.
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
    """The application that is mounted at `/mindinsight`. Raises ConfigError for a directory without the page."""
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
    """Files for which a browser asks again each time, in case another version of the page is there."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        """A file, or that it has not changed."""
        response = super().file_response(*given, **named)
        response.headers.update({**HEADERS, "Cache-Control": "no-cache"})
        return response


async def _graphviz(_request: Request) -> Response:
    """Firefox asks for it here."""
    return RedirectResponse("static/js/graphvizlib.wasm", 302)
