"""Checks of values that come back to the store in tokens, cursors and manifests, which anyone may have changed.

In: values parsed from JSON. Out: whether the database can compare a column with them. Pure.
"""

from __future__ import annotations

from typing import TypeGuard

from lineage_store.texts import is_storable


def is_integer(value: object, *, bits: int = 64) -> TypeGuard[int]:
    """Whether a value is an integer, and no bool, that fits into a column of so many bits."""
    return type(value) is int and -(1 << bits - 1) <= value < 1 << bits - 1


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is a text that a column can hold."""
    return isinstance(value, str) and is_storable(value)
