"""The cursor of a list of jobs: the place of one job in it, encoded as a token.

In: a place, or a token. Out: a token, which is text that fits into a URL, or its place. Promises: every place that is
returned can be compared in SQL; text that is no token raises LineageParamValueError. Pure.
"""

from __future__ import annotations

import base64
import json
from typing import NamedTuple

from lineage_store.errors import LineageParamValueError
from lineage_store.query.returned_values import is_integer, is_text
from lineage_store.texts import shown

_KEY_BITS = 32
"""The size of the key of a base dir."""


class Place(NamedTuple):
    """The place of a job among jobs that are ordered by update time, the newest first, then by id."""

    update_time: int
    train_id: str
    """As the store has it."""
    base_dir_id: int


def encode(place: Place) -> str:
    """Return the token of a place."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode()


def decode(token: str) -> Place:
    """Return the place of a token. Raises LineageParamValueError when it is no token."""
    try:
        place = Place(*json.loads(base64.urlsafe_b64decode(token)))
        is_key = is_integer(place.base_dir_id, bits=_KEY_BITS)
        if not (is_integer(place.update_time) and is_text(place.train_id) and is_key):
            raise TypeError
    except (ValueError, TypeError, RecursionError) as error:
        raise LineageParamValueError(
            f"after = {shown(token)} is no cursor of a list of jobs.",
            hint="Give the cursor of the last job of the page before as it was.",
        ) from error
    return place
