"""JSON bytes, as all answers of our own API have them. No web framework is imported, so that any process may make them.

In: plain values, datetimes, numpy arrays. Out: bytes; numbers in which NaN and infinities are spelled out.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lineage_store.json_values import for_json, iso


def to_json(content: Any) -> bytes:
    """Return JSON in UTF-8; surrogates in text that is not Unicode (names of files) are escaped."""
    try:
        return orjson.dumps(content, default=_shown, option=orjson.OPT_PASSTHROUGH_DATETIME)
    except TypeError:  # text with a surrogate, or a number beyond 64 bits
        return json.dumps(for_json(content), allow_nan=False).encode()


def numbers(array: NDArray[Any]) -> Any:
    """Return the numbers of an array as nested lists, in which NaN and infinities are spelled out."""
    plain = array.tolist()
    return plain if np.isfinite(array).all() else for_json(plain)


def _shown(value: object) -> Any:
    return iso(value) if isinstance(value, datetime) else for_json(value)
