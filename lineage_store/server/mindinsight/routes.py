"""The ASGI application of MindInsight's API: its paths, the function that answers each, and error handling; its page.

In: requests below `/v1/mindinsight`; the directory of MindInsight's page (`mindinsight/ui/dist` of its wheel). Out:
answers with MindInsight's headers. Promises: every error, except a refusal by the guard, is answered in MindInsight's
form, with its code, and names no path on the server's disk. No file outside the page's directory is served, not even
through a symbolic link.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from lineage_store.api import LineageStore, known_base_dirs
from lineage_store.errors import (
    ConfigError,
    MindInsightException,
    PayloadTooCostlyError,
    RequestRefusedError,
    TrainJobNotFoundError,
)
from lineage_store.server import refusals
from lineage_store.server.asking import Asker, State
from lineage_store.server.decoding import Content, Decoding
from lineage_store.server.guard import refuse_remarks
from lineage_store.server.mindinsight import (
    graphs,
    histograms,
    landscapes,
    lineages,
    protocol,
    samples,
    site,
    tensors,
)
from lineage_store.server.mindinsight.protocol import QueryParameters, RefusedError, compact_json
from lineage_store.server.mindinsight.site import IN_CACHE, Site

log = logging.getLogger(__name__)

BEGIN = "/v1/mindinsight/"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How a path is answered: GET by its query, POST by its body of JSON."""

    answer: Callable[[Site, Any], Any]
    heavy: bool = False
    """Whether it reads log files."""
    keeps: bool = True
    """Whether the answer is cached until the store changes."""
    needs_type: bool = False
    """Whether a body without the content type of JSON counts as no body."""


GETS: Mapping[str, Endpoint] = {
    "datavisual/train-jobs": Endpoint(site.get_train_jobs),
    "datavisual/plugins": Endpoint(site.get_plugins, keeps=False),
    "datavisual/single-job": Endpoint(site.get_single_job),
    "datavisual/scalar/metadata": Endpoint(samples.get_scalar_metadata),
    "datavisual/scalars": Endpoint(samples.get_scalars),
    "datavisual/histograms": Endpoint(histograms.get_histograms, heavy=True),
    "datavisual/image/metadata": Endpoint(samples.get_image_metadata),
    "datavisual/image/single-image": Endpoint(samples.get_image, keeps=False),
    "datavisual/tensors": Endpoint(tensors.get_tensors, heavy=True),
    "datavisual/graphs/nodes": Endpoint(graphs.get_nodes, heavy=True),
    "datavisual/graphs/nodes/all": Endpoint(graphs.get_all_nodes, heavy=True),
    "datavisual/graphs/nodes/names": Endpoint(graphs.get_node_names, heavy=True),
    "datavisual/graphs/single-node": Endpoint(graphs.get_node, heavy=True),
    "datavisual/landscape/intervals": Endpoint(landscapes.get_intervals, heavy=True),
    "datavisual/landscape/landscapes": Endpoint(landscapes.get_landscapes, heavy=True),
    "datasets/dataset_graph": Endpoint(lineages.get_dataset_graph),
}
POSTS: Mapping[str, Endpoint] = {
    "datavisual/train-job-caches": Endpoint(site.load_jobs, keeps=False, needs_type=True),
    "lineagemgr/lineages": Endpoint(lineages.find_lineages),
    "optimizer/targets/search": Endpoint(lineages.find_targets),
}
CONFIG, NO_DEBUGGER = "ui-config", {"enable_debugger": False}
"""The first request of MindInsight's page, which shows a debugger unless told otherwise. It needs no store."""
ANNOTATIONS = "lineagemgr/lineages"
"""The path of the only PUT: it sets a label or remark."""
_KNOWN = frozenset({CONFIG, *GETS, *POSTS})


def add_to(app: FastAPI, prefix: str, state: State) -> None:
    """Make an application answer `/v1/mindinsight/…`, and `/mindinsight/` if the settings name the page's directory.

    Raises ConfigError when the page is not in that directory.
    """
    api = _Paths(state)
    app.mount(f"{prefix}{BEGIN}".rstrip("/"), api)
    if state.settings.mindinsight_ui:
        app.add_route(f"{prefix}/mindinsight", lambda request: RedirectResponse(f"{request.url.path}/", 308))
        app.mount(f"{prefix}/mindinsight", page_app(state.settings.mindinsight_ui, api))


class _Paths:
    """All paths of the API as one ASGI application, with MindInsight's own errors for wrong paths and methods.

    A path is looked up in a table: a router would try the pattern of one after the other.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._opened: set[str] = set()
        self._kept = protocol.KeptAnswers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].partition(BEGIN)[2]
        if path in _KNOWN:  # metrics read the template of a route from here
            scope.update(route=SimpleNamespace(path=f"{BEGIN}{path}"), root_path="")
        response = await self._answered(Request(scope, receive), path)
        await response(scope, receive, send)

    async def _answered(self, request: Request, path: str) -> Response:
        try:
            found = await self._found(request, path)
        except RefusedError as error:
            return _refusal(error)
        except TrainJobNotFoundError:  # removed while the request was being answered
            return _refusal(protocol.unknown_job(IN_CACHE))
        except PayloadTooCostlyError as error:
            return _refusal(protocol.too_costly(error.plugin, error.reason))
        except MindInsightException as error:
            status = refusals.status_of(error).value
            return _refusal(RefusedError(protocol.SYSTEM_ERROR.code, protocol.SYSTEM_ERROR.message, status))
        except Exception:
            log.exception("A request failed.")
            return _refusal(protocol.SYSTEM_ERROR)
        return Response(found.content, headers=protocol.HEADERS, media_type=found.media_type)

    async def _found(self, request: Request, path: str) -> Content:
        ask, method = Asker(self._state, request), request.method
        if method not in protocol.METHODS:
            raise protocol.NO_SUCH_METHOD
        text = request.scope["query_string"].decode("latin-1")
        query = QueryParameters(parse_qsl(text, keep_blank_values=True, errors="replace"))
        if method == "GET" and path == CONFIG:
            return Content(compact_json(NO_DEBUGGER))
        if method == "GET" and path in GETS:
            return await self._ask(ask, GETS[path], query, (path, text))
        if method == "POST" and path in POSTS:
            body = await _read_body(request, POSTS[path].needs_type)
            return await self._ask(ask, POSTS[path], body, (path, await request.body()))
        if method == "PUT" and path == ANNOTATIONS:
            return await self._annotate(ask, request, query)
        raise protocol.NO_SUCH_METHOD if path in _KNOWN else protocol.NO_SUCH_PATH

    async def _ask(self, ask: Asker, endpoint: Endpoint, given: Any, key: Hashable) -> Content:
        """Return the answer; of an endpoint that `keeps`, from the cache unless the store has changed since."""

        def made(store: LineageStore) -> Content | Decoding:
            with store.opened.snapshot():
                found = endpoint.answer(self._site(store), given)
            return found if isinstance(found, Content | Decoding) else Content(compact_json(found))

        def kept_or_made(store: LineageStore) -> tuple[Hashable, Content | Decoding | None]:
            now = (self._state.since(), len(self._opened), key)
            found = self._kept.get(now)
            return now, found if found is not None or endpoint.heavy else made(store)

        if not endpoint.keeps:
            return await ask.decoded(made, heavy=endpoint.heavy)
        now, found = await ask(kept_or_made)
        if not isinstance(found, Content):
            found = await ask.decoded(made, heavy=True)
        self._kept.keep(now, found)
        return found

    async def _annotate(self, ask: Asker, request: Request, query: QueryParameters) -> Content:
        train_id, annotation = lineages.annotation(query, await _read_required(request))
        try:
            refuse_remarks(request)
        except RequestRefusedError as error:
            raise RefusedError(
                protocol.SYSTEM_ERROR.code, error.message, refusals.status_of(error)
            ) from error

        def annotate(store: LineageStore) -> None:
            site = self._site(store)
            lineages.require_lineage(site, train_id)
            if annotation:
                self._state.annotate(
                    (site.base_dir, train_id), annotation.get("tag"), annotation.get("remark")
                )

        await ask.change(annotate)
        return Content(compact_json({"status": "success"}))

    def _site(self, store: LineageStore) -> Site:
        """Return the first base dir of the settings that the store knows; if they name none, the store's first."""
        settings = self._state.settings
        known = known_base_dirs(store, settings.base_dirs) if settings.base_dirs else list(store.base_dirs)
        return Site(store, next(iter(known), ""), settings.mindinsight_limits, self._opened)


async def _read_required(request: Request) -> Any:
    """Return the JSON of a body, which must not be missing. Raises RefusedError."""
    if _is_json(request):
        with suppress(ValueError, RecursionError):
            return json.loads(await request.body())
    raise protocol.wrong_value("Json data parse failed.")


def _is_json(request: Request) -> bool:
    main, _, sub = request.headers.get("content-type", "").partition(";")[0].strip().lower().partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))


async def _read_body(request: Request, needs_type: bool) -> Any:
    """Return the JSON of a body, or None if there is no body. Raises RefusedError."""
    content = await request.body()
    if not content or (needs_type and not _is_json(request)):
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        if needs_type:
            return None
        raise protocol.wrong_value("Json data parse failed.") from None


def _refusal(error: RefusedError) -> Response:
    content = compact_json({"error_code": error.code, "error_msg": error.message})
    headers = protocol.HEADERS | refusals.retry_headers(error.status)
    return Response(content, error.status, headers, "application/json")


def page_app(directory: str, api: ASGIApp) -> Starlette:
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
        response.headers.update({**protocol.HEADERS, "Cache-Control": "no-cache"})
        return response


async def _graphviz(_request: Request) -> Response:
    """Redirect Firefox, which requests the file at this path."""
    return RedirectResponse("static/js/graphvizlib.wasm", 302)
