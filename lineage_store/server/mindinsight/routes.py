"""The ASGI application of MindInsight's API: its paths, what answers each, and what becomes of errors.

In: requests, of which the mount took the beginning of the path away. Out: answers with MindInsight's headers. Promises:
whatever goes wrong is answered in MindInsight's shape, with its code, and no answer tells a path of the server's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lineage_store.api import LineageStore, real_path
from lineage_store.errors import MindInsightException, TrainJobNotFoundError
from lineage_store.server import problems
from lineage_store.server.mindinsight import (
    graphs,
    histograms,
    images,
    jobs,
    landscapes,
    lineage,
    scalars,
    tensors,
)
from lineage_store.server.mindinsight.protocol import (
    NO_SUCH_METHOD,
    NO_SUCH_PATH,
    SYSTEM_ERROR,
    Picture,
    Query,
    RefusedError,
    no_such_job,
    to_json,
    wrong_value,
)
from lineage_store.server.mindinsight.site import IN_CACHE, Site
from lineage_store.server.state import State

log = logging.getLogger(__name__)

METHODS = ("GET", "POST", "PUT", "DELETE")
HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",
    "X-XSS-Protection": "1; mode=block",
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Allow-Methods": ", ".join(METHODS),
    "Content-Security-Policy": "img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; frame-src 'self'; "
    "frame-ancestors 'self'; default-src 'self'; script-src 'self' 'unsafe-eval'",
    "X-Download-Options": "noopen",
    "Cache-Control": "no-store",
    "Pragma": "no-cache",
}
"""Of every answer; its page evaluates scripts that it makes."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What answers a path; `heavy` when it reads log files."""

    answer: Callable[[Site, Query], Any]
    heavy: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """What answers a body; `needs_type` when a body that is not declared as JSON counts as none."""

    answer: Callable[[Site, Any], Any]
    needs_type: bool = False


GETS: Mapping[str, Endpoint] = {
    "datavisual/train-jobs": Endpoint(jobs.train_jobs),
    "datavisual/plugins": Endpoint(jobs.plugins),
    "datavisual/single-job": Endpoint(jobs.single_job),
    "datavisual/scalar/metadata": Endpoint(scalars.metadata),
    "datavisual/scalars": Endpoint(scalars.scalars),
    "datavisual/histograms": Endpoint(histograms.histograms, heavy=True),
    "datavisual/image/metadata": Endpoint(images.metadata),
    "datavisual/image/single-image": Endpoint(images.single_image),
    "datavisual/tensors": Endpoint(tensors.tensors, heavy=True),
    "datavisual/graphs/nodes": Endpoint(graphs.nodes, heavy=True),
    "datavisual/graphs/nodes/all": Endpoint(graphs.all_nodes, heavy=True),
    "datavisual/graphs/nodes/names": Endpoint(graphs.names, heavy=True),
    "datavisual/graphs/single-node": Endpoint(graphs.single_node, heavy=True),
    "datavisual/landscape/intervals": Endpoint(landscapes.intervals, heavy=True),
    "datavisual/landscape/landscapes": Endpoint(landscapes.landscapes, heavy=True),
    "datasets/dataset_graph": Endpoint(lineage.dataset_graph),
    "ui-config": Endpoint(lambda site, query: {"enable_debugger": False}),
}
POSTS: Mapping[str, Search] = {
    "datavisual/train-job-caches": Search(jobs.train_job_caches, needs_type=True),
    "lineagemgr/lineages": Search(lineage.lineages),
    "optimizer/targets/search": Search(lineage.targets),
}
ANNOTATIONS = "lineagemgr/lineages"
"""The one path that changes something."""


def application(state: State) -> Starlette:
    """The application that is mounted at `/v1/mindinsight`; it asks the store of `state`."""
    return Starlette(routes=[Route("/{path:path}", _Paths(state))])


class _Paths:
    """Every path of the API, as one ASGI application: MindInsight tells a wrong path from a wrong method itself."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._opened: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        response = await self._answered(Request(scope, receive))
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        try:
            found = await self._found(request)
        except RefusedError as error:
            return _refusal(error)
        except TrainJobNotFoundError:  # it was there a moment ago
            return _refusal(no_such_job(IN_CACHE))
        except MindInsightException as error:
            status = problems.status_of(error).value
            return _refusal(RefusedError(SYSTEM_ERROR.code, SYSTEM_ERROR.message, status))
        except Exception:
            log.exception("A request failed.")
            return _refusal(SYSTEM_ERROR)
        if isinstance(found, Picture):
            return Response(found.content, headers=HEADERS, media_type=found.media_type)
        return Response(found, headers=HEADERS, media_type="application/json")

    async def _found(self, request: Request) -> Picture | bytes:
        path, method = request.path_params["path"], request.method
        if method not in METHODS:
            raise NO_SUCH_METHOD
        text = request.scope["query_string"].decode("latin-1")
        query = Query(parse_qsl(text, keep_blank_values=True, errors="replace"))
        if method == "GET" and path in GETS:
            return await self._ask(lambda site: GETS[path].answer(site, query), heavy=GETS[path].heavy)
        if method == "POST" and path in POSTS:
            body = await _read_body(request, POSTS[path].needs_type)
            return await self._ask(lambda site: POSTS[path].answer(site, body), heavy=False)
        if method == "PUT" and path == ANNOTATIONS:
            return await self._annotate(request, query)
        raise NO_SUCH_METHOD if path in {*GETS, *POSTS} else NO_SUCH_PATH

    async def _ask(self, answer: Callable[[Site], Any], *, heavy: bool) -> Picture | bytes:
        def answered(store: LineageStore) -> Picture | bytes:
            found = answer(self._site(store))
            return found if isinstance(found, Picture) else to_json(found)

        return await self._state.ask(answered, heavy=heavy)

    async def _annotate(self, request: Request, query: Query) -> Picture | bytes:
        train_id, annotation = lineage.annotation(query, await _read_required(request))
        if not (self._state.settings.serve_allow_remarks or request.state.has_token):
            raise RefusedError(SYSTEM_ERROR.code, "This server takes no labels and remarks.", 403)

        def annotated(site: Site) -> dict[str, str]:
            lineage.require_lineage(site, train_id)
            if annotation:
                self._state.writable().annotate(site.base_dir, train_id, **annotation)
            return {"status": "success"}

        return await self._ask(annotated, heavy=False)

    def _site(self, store: LineageStore) -> Site:
        """The first base dir of the settings that the store knows; without settings the store's first."""
        settings = self._state.settings
        known = store.base_dirs()
        wanted = [path for each in settings.base_dirs if (path := str(real_path(each))) in known]
        if not settings.base_dirs:
            wanted = known
        return Site(store, next(iter(wanted), ""), settings.mindinsight_limits, self._opened)


async def _read_required(request: Request) -> Any:
    """The JSON of a body that must be there."""
    try:
        if _is_json(request):
            return json.loads(await request.body())
    except (ValueError, RecursionError):
        pass
    raise wrong_value("Json data parse failed.")


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip() == "application/json"


async def _read_body(request: Request, needs_type: bool) -> Any:
    """The JSON of a body; None where there is none."""
    content = await request.body()
    if not content or (needs_type and not _is_json(request)):
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        if needs_type:
            return None
        raise wrong_value("Json data parse failed.") from None


def _refusal(error: RefusedError) -> Response:
    content = to_json({"error_code": error.code, "error_msg": error.message})
    return Response(content, error.status, HEADERS, "application/json")
