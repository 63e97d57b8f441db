"""User-defined values that go with the lineage: which are taken, and where from.

In: a flat dict by name, and what MindInsight's optimizer of hyper-parameters left in `MINDINSIGHT_HYPER_CONFIG`.
Out: a checked copy. Values are str, float, or int within 32 bits, for which the format has room; anything else is
refused when a callback is made, not when it first writes.
"""

from __future__ import annotations

import json
import logging
import os

from lineage_store.collect.facts.int32 import fits_int32
from lineage_store.errors import LineageParamTypeError, LineageParamValueError
from lineage_store.fields import BY_NAME

log = logging.getLogger(__name__)

UserValues = dict[str, str | int | float]

HYPER_CONFIG = "MINDINSIGHT_HYPER_CONFIG"
"""A JSON object in the environment, whose `custom_lineage_data` is taken where the user gave no value of that name."""
LONGEST_HYPER_CONFIG = 100_000


def checked(argument: str, values: object) -> UserValues:
    """A copy of `values`; None is empty.

    Raises LineageParamTypeError for a key that is no str, a value that is no str, int or float, and anything but a
    dict; LineageParamValueError for an int that does not fit into 32 bits.
    """
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise LineageParamTypeError(f"{argument} must be a dict or None, not {type(values).__name__}.")
    for key, value in values.items():
        if not isinstance(key, str):
            raise LineageParamTypeError(f"{argument}: the key {key!r} must be a str.")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise LineageParamTypeError(
                f"{argument}: the value {value!r} of {key!r} must be a str, int or float."
            )
        if isinstance(value, int) and not fits_int32(value):
            raise LineageParamValueError(
                f"{argument}: the value {value} of {key!r} does not fit into 32 bits; give it as str or float."
            )
    return dict(values)


def checked_user_info(values: object) -> UserValues:
    """The same for `user_defined_info`, whose keys must not be names of lineage fields."""
    info = checked("user_defined_info", values)
    for key in info:
        if key in BY_NAME:
            raise LineageParamValueError(
                f"user_defined_info: {key!r} is the name of a lineage field; choose another."
            )
    return info


def from_environment() -> UserValues:
    """The values in `MINDINSIGHT_HYPER_CONFIG`; one that cannot be read is logged and ignored."""
    text = os.environ.get(HYPER_CONFIG)
    if text is None:
        return {}
    if len(text) > LONGEST_HYPER_CONFIG:
        log.warning("%s is ignored: it is longer than %s characters.", HYPER_CONFIG, LONGEST_HYPER_CONFIG)
        return {}
    try:
        config = json.loads(text)
    except ValueError as error:
        log.warning("%s is ignored: it is no JSON: %s", HYPER_CONFIG, error)
        return {}
    if not isinstance(config, dict):
        log.warning("%s is ignored: it is no JSON object.", HYPER_CONFIG)
        return {}
    return checked(f"{HYPER_CONFIG}: custom_lineage_data", config.get("custom_lineage_data"))
