"""Answers as JSON.

In: what the Python API answers. Out: bytes, or a response. An answer that follows from the store alone carries the
place in the store's changes that it is not behind, from which to follow them, and an ETag made of that: who has the
answer already is told so, and nothing is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

import lineage_store
from lineage_store.api import LineageStore
from lineage_store.json_values import for_json, iso
from lineage_store.server.state import Asker

SINCE = "Lineage-Since"
"""The header with the token of that place."""


class JsonResponse(Response):
    """Any answer of the Python API as JSON; NaN and infinities in it were spelled by `for_json` before."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


def to_json(content: Any) -> bytes:
    """JSON in UTF-8; text that is no Unicode (names of files) with its surrogates escaped."""
    try:
        return orjson.dumps(content, default=_shown, option=orjson.OPT_PASSTHROUGH_DATETIME)
    except TypeError:  # text with a surrogate, or a number beyond 64 bits
        return json.dumps(for_json(content), allow_nan=False).encode()


async def unless_known(
    request: Request,
    ask: Asker,
    question: Callable[[LineageStore], Any],
    *,
    heavy: bool = False,
    lasts: bool = True,
) -> Response:
    """The answer to a question, or (304) that nothing has changed since the client was given it.

    One that does not last, for it changes with the time, is given each time.
    """
    known = request.headers.get("if-none-match", "")

    def answer(store: LineageStore) -> tuple[dict[str, str], bytes | None]:
        since = ask.state.since()
        etag = _etag(since, str(request.url))
        headers = {"ETag": etag, SINCE: since} if lasts else {SINCE: since}
        if lasts and etag.removeprefix("W/") in known:
            return headers, None
        with store.snapshot():
            return headers, to_json(question(store))

    headers, content = await ask(answer, heavy=heavy)
    if content is None:
        return Response(None, 304, headers)
    return Response(content, headers=headers, media_type="application/json")


def _etag(*what: str) -> str:
    text = "\n".join([lineage_store.__version__, *what])
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def _shown(value: object) -> Any:
    return iso(value) if isinstance(value, datetime) else for_json(value)
