"""Answers as JSON. In: what the Python API answers. Out: bytes, or a response."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import orjson
from starlette.responses import Response

from lineage_store.json_values import for_json, iso


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


def _shown(value: object) -> Any:
    return iso(value) if isinstance(value, datetime) else for_json(value)
