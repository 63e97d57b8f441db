"""A JSON value as SQL can compare it: its kind, and the number or the text that stands for it.

In: a dict of named JSON values (metrics, user-defined values). Out: frozen rows in the dict's order.
Promises: equal values have equal rows, as Python's == has it (True, 1 and 1.0 have one number).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lineage_store.store.records import Valued
from lineage_store.texts import canonical_json, key, to_stored


def named_values(values: Mapping[str, Any]) -> tuple[Valued, ...]:
    """One row per name; of names with one key, which are one to the database, the last."""
    rows = [
        Valued(position, to_stored(name), *_comparable(value))
        for position, (name, value) in enumerate(values.items())
    ]
    return tuple({key(row.name): row for row in rows}.values())


def float_kind(value: float) -> str:
    """finite, nan, +inf or -inf."""
    if math.isnan(value):
        return "nan"
    return "finite" if math.isfinite(value) else "+inf" if value > 0 else "-inf"


def _comparable(value: Any) -> tuple[str, float | None, str | None]:
    """(kind, number, text)."""
    match value:
        case None:
            return "null", None, None
        case bool():
            return "bool", float(value), None
        case int():
            return _integer(value)
        case float():
            kind = float_kind(value)
            return ("float" if kind == "finite" else kind), (None if kind == "nan" else value), None
        case str():
            return "text", None, to_stored(value)
        case _:
            return "json", None, canonical_json(value)


def _integer(value: int) -> tuple[str, float | None, str | None]:
    try:
        return "int", float(value), None
    except OverflowError:  # beyond any float: it keeps its text and equals only itself
        return "json", None, canonical_json(value)
