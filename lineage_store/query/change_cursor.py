"""The cursor of a reader of changes: a place in the revisions of each base dir, encoded as a token.

In: places by base dir, or a token. Out: a token, which is text that fits into a URL or a header, or the places of one.
Promises: a token holds everything that is needed to go on, so it stays valid when processes restart; text that is no
token, or holds values that no database can hold, raises LineageParamValueError. Pure.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from lineage_store.errors import LineageParamValueError
from lineage_store.query.returned_values import is_integer, is_text
from lineage_store.texts import shown

_MOST_CHARACTERS = 1 << 24
"""The size limit of an unpacked token, so that a short one cannot fill the memory: room for 100,000 base dirs."""


class Place(NamedTuple):
    """A place in the changes of one base dir, which are ordered by revision, then by train id."""

    known_since: int
    """When the store first saw the base dir, unix us; a base dir that was forgotten and came back has a new time."""
    revision: int
    train_id: str
    """The reader has all earlier revisions, and of this one the changes of jobs up to this train id (stored)."""


Cursor = Mapping[str, Place]
"""Places by base dir (stored path)."""


def encode(cursor: Cursor) -> str:
    """Return the token of a cursor."""
    text = json.dumps(cursor, separators=(",", ":"))
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 1)).decode().rstrip("=")


def decode(token: str, name: str = "since") -> Cursor:
    """Return the cursor of a token. Raises LineageParamValueError, with the parameter's `name`, when it is no token."""
    try:
        packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        found = json.loads(zlib.decompressobj().decompress(packed, _MOST_CHARACTERS))
        places = {path: Place(*place) for path, place in found.items()}
        if not all(is_text(path) and _is_place(place) for path, place in places.items()):
            raise TypeError
    except (ValueError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise LineageParamValueError(
            f"{name} = {shown(token)} is no token of changes.",
            hint="Give the `since` of an earlier answer as it was, or 'now'.",
        ) from error
    return places


def _is_place(place: Place) -> bool:
    return is_integer(place.known_since) and is_integer(place.revision) and is_text(place.train_id)
