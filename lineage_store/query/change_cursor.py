"""How far somebody has followed the changes of a store: a place in the revisions of each base dir, and its token.

In: places by base dir. Out: a token, text that fits into a URL or a header, and the places again. Promises: a token
needs no memory of who gave it, so it outlives every process; one that is none is refused in words. Pure.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from lineage_store.errors import LineageParamValueError

_MOST_CHARACTERS = 1 << 24
"""Of an unpacked token, so that a short one cannot fill the memory: a hundred thousand base dirs."""


class Place(NamedTuple):
    """A place in the changes of one base dir, in their order: by revision, then by train id."""

    known_since: int
    """Since when the store knows the base dir, unix us: one that was forgotten and came back is another one."""
    revision: int
    train_id: str
    """Of this revision all has been told up to this train id (stored), and of those before everything."""


Cursor = Mapping[str, Place]
"""Places by base dir (stored path)."""


def encode(cursor: Cursor) -> str:
    """The token of some places."""
    text = json.dumps(cursor, separators=(",", ":"))
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 1)).decode().rstrip("=")


def decode(token: str) -> Cursor:
    """The places of a token. Raises LineageParamValueError."""
    try:
        packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        found = json.loads(zlib.decompressobj().decompress(packed, _MOST_CHARACTERS))
        places = {path: Place(*place) for path, place in found.items()}
        if not all(list(map(type, place)) == [int, int, str] for place in places.values()):
            raise TypeError
    except (ValueError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise LineageParamValueError(
            f"since = {str(token)[:80]!r} is no token of changes.",
            hint="Give the `since` of an earlier answer as it was, or 'now'.",
        ) from error
    return places
