"""A dataset pipeline in the order of keys that MindInsight's tables show. Pure.

In: a pipeline as the store has it. Out: the same: what an operation is, its switches, numbers and lists, then what is
nested. Lists keep their order.
"""

from __future__ import annotations

from typing import Any

_NESTED = ("operations", "sampler", "children")
_TYPES = (str, bool, int, float, list)


def in_order(value: Any) -> Any:
    """A part of a pipeline with its keys in order."""
    if isinstance(value, list):
        return [in_order(each) for each in value]
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value, key=lambda key: _rank(key, value[key]))}
    return value


def _rank(key: str, value: Any) -> tuple[int, str]:
    if key in _NESTED:
        return len(_TYPES) + _NESTED.index(key), key
    return next((rank for rank, type_ in enumerate(_TYPES) if isinstance(value, type_)), 0), key
