"""Answers as JSON.

In: what the Python API returns. Out: bytes, or a response. An answer that depends on the store alone carries a token in
the header `Lineage-Since`: the answer has at least every change up to that token, and a client can follow the changes
from there. Its ETag is made of the token and the URL: a client that sends a current ETag gets 304, and nothing more is
read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from starlette.responses import Response

import lineage_store
from lineage_store.api import LineageStore
from lineage_store.server.json_bytes import to_json
from lineage_store.server.state import Asker

SINCE = "Lineage-Since"
"""The header that carries the token."""


class JsonResponse(Response):
    """A response with JSON content, in which `for_json` has already spelled out NaN and infinities."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


async def unless_known(
    ask: Asker,
    question: Callable[[LineageStore], Any],
    *,
    heavy: bool = False,
    lasts: bool = True,
) -> Response:
    """Return the answer to a question, or 304 if nothing has changed since the client got it.

    Args:
        heavy: as for `State.ask`.
        lasts: False for an answer that also changes with time: it has no ETag and is always made anew.
    """
    request = ask.request
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


def _etag(since: str, url: str) -> str:
    text = "\n".join([lineage_store.__version__, since, url])
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
