"""Check user-defined values, which are stored with the lineage.

In: a dict by name, or the environment's `MINDINSIGHT_HYPER_CONFIG`, which MindInsight's hyper-parameter optimizer sets.
Out: a checked, flat copy, in which a nested dict has the keys `a/b`. Values are str, float, or int of at most 32 bits
(the format's limit; 64 for metrics); a bool becomes 1 or 0, a list JSON, a numpy scalar Python's. `checked` refuses
anything else; `recordable` leaves it out with a warning. Both leave out text that cannot be written as UTF-8.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from lineage_store.collect.arguments import type_name
from lineage_store.errors import LineageParamTypeError, LineageParamValueError
from lineage_store.fields import BY_NAME
from lineage_store.plain_values import fits
from lineage_store.texts import shown

log = logging.getLogger(__name__)

UserValue = str | int | float
UserValues = dict[str, UserValue]

USER_INFO = "user_defined_info"
HYPER_CONFIG = "MINDINSIGHT_HYPER_CONFIG"
"""A JSON object in the environment; its `custom_lineage_data` is used for names that the user does not set."""
LONGEST_HYPER_CONFIG = 100_000
DEEPEST = 10
"""Maximum levels of dicts that are flattened, because a dict may contain itself."""
_OF_NUMPY: dict[str, Callable[[Any], UserValue]] = {"U": str, "b": int, "i": int, "u": int, "f": float}
"""Python's type by numpy's kind. `isinstance` is not enough: numpy's timedelta64 counts as an integer there."""


def checked_values(argument: str, values: object) -> UserValues:
    """Return a flat copy of `values`; None is empty. Text that has no UTF-8 is left out with a warning.

    Raises LineageParamTypeError for anything but a dict, for a key that is no str and for a value of another type,
    LineageParamValueError for an int beyond 32 bits.
    """
    kept = {}
    for key, value in entries(argument, values):
        name, plain = _typed(argument, key, value)
        try:
            _refuse_no_utf8(argument, name, plain)
        except LineageParamValueError as error:
            log.warning("%s It is not recorded.", error)
        else:
            kept[name] = plain
    return kept


def recordable(argument: str, values: object, *, bits: int = 32) -> UserValues:
    """Return a flat copy of the `values` that can be written; leave out each of the others with a warning.

    `bits`: maximum size of an integer. Raises LineageParamTypeError for anything but a dict or None.
    """
    kept = {}
    for key, value in entries(argument, values):
        try:
            name, plain = _typed(argument, key, value, bits)
            if not name:
                raise LineageParamValueError(f"{argument}: the value {shown(plain)} has no name.")
            _refuse_no_utf8(argument, name, plain)
        except (LineageParamTypeError, LineageParamValueError) as error:
            log.warning("%s It is not recorded.", error)
        except Exception as error:  # noqa: BLE001 - a value may be of a class that fails in any way
            log.warning(
                "%s: the value of %s cannot be read: %r It is not recorded.", argument, shown(key), error
            )
        else:
            kept[name] = plain
    return kept


def entries(argument: str, values: object) -> Iterable[tuple[object, object]]:
    """Return the entries of a dict, flattened; None has none. Raises LineageParamTypeError for anything else."""
    if values is None:
        return ()
    if not isinstance(values, Mapping):
        raise LineageParamTypeError(f"{argument} must be a dict or None, not {type_name(values)}.")
    return _flattened(values, "", DEEPEST)


def checked_user_info(key: object, value: object) -> tuple[str, UserValue]:
    """Return a key of `user_defined_info` and its value in the form in which they are written.

    Raises LineageParamTypeError for a wrong type of either, LineageParamValueError for an int beyond 32 bits, for text
    that has no UTF-8 and for a lineage field's name.
    """
    name, plain = _typed(USER_INFO, key, value)
    _refuse_no_utf8(USER_INFO, name, plain)
    if name in BY_NAME and not BY_NAME[name].ours:
        raise LineageParamValueError(f"{USER_INFO}: {name!r} is the name of a lineage field; choose another.")
    return name, plain


def from_environment() -> UserValues:
    """Return the values in `MINDINSIGHT_HYPER_CONFIG`; if it cannot be parsed, log a warning and ignore it."""
    text = os.environ.get(HYPER_CONFIG)
    if text is None:
        return {}
    if len(text) > LONGEST_HYPER_CONFIG:
        log.warning("%s is ignored: it is longer than %s characters.", HYPER_CONFIG, LONGEST_HYPER_CONFIG)
        return {}
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        log.warning("%s is ignored: it is no JSON: %s", HYPER_CONFIG, error)
        return {}
    if not isinstance(config, dict):
        log.warning("%s is ignored: it is no JSON object.", HYPER_CONFIG)
        return {}
    return checked_values(f"{HYPER_CONFIG}: custom_lineage_data", config.get("custom_lineage_data"))


def _flattened(values: Mapping[Any, Any], prefix: str, levels: int) -> Iterator[tuple[object, object]]:
    for key, value in values.items():
        name = _name_of(prefix, key) if prefix or isinstance(value, Mapping) else key
        if isinstance(value, Mapping) and levels and isinstance(name, str):
            yield from _flattened(value, f"{name}/", levels - 1)
        else:
            yield name, value


def _name_of(prefix: str, key: object) -> object:
    """Return the full name of a key; the key itself, which is refused later, if its class fails to convert to text."""
    try:
        return f"{prefix}{key}"
    except Exception:  # noqa: BLE001
        return key


def _typed(argument: str, key: object, value: object, bits: int = 32) -> tuple[str, UserValue]:
    """Return a key and its value with Python's types.

    Raises LineageParamTypeError for a key that is no str and for a value of another type, LineageParamValueError for an
    int that does not fit into `bits` bits.
    """
    if not isinstance(key, str):
        raise LineageParamTypeError(f"{argument}: the key {shown(key)} must be a str, not {type_name(key)}.")
    plain = _plain(value)
    if plain is None:
        raise LineageParamTypeError(
            f"{argument}: the value {shown(value)} of {key!r} must be a str, bool, int, float or a list of these, "
            f"not {type_name(value)}."
        )
    if isinstance(plain, int) and not fits(plain, bits):
        raise LineageParamValueError(
            f"{argument}: the value {shown(plain)} of {key!r} does not fit into {bits} bits; give it as str or float."
        )
    return key, plain


def _plain(value: object) -> UserValue | None:
    """Convert a str, bool, int, float or list, also of numpy, to what is written; return None for any other value."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, np.generic):
        python_type = _OF_NUMPY.get(value.dtype.kind)
        return None if python_type is None else python_type(value)
    if isinstance(value, list | tuple | np.ndarray):
        return _as_json(value)
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, str | int | float) else None


def _as_json(values: object) -> str | None:
    """Return a list as JSON; None if JSON cannot express it or it contains itself."""
    try:
        return json.dumps(values, default=_of_numpy)
    except (TypeError, ValueError, RecursionError):
        return None


def _of_numpy(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _OF_NUMPY:
        return value.tolist()
    raise TypeError(f"JSON has no {type_name(value)}")


def _refuse_no_utf8(argument: str, key: str, value: UserValue) -> None:
    for text in (key, value):
        try:
            str(text).encode()
        except UnicodeEncodeError as error:
            raise LineageParamValueError(
                f"{argument}: {shown(text)} (of {shown(key)}) has characters that UTF-8 has not."
            ) from error
