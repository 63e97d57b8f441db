"""A JSON value as SQL can compare it: its kind, and the number or the text that stands for it.

In: a dict of named JSON values (metrics, user-defined values), or the text that holds the metrics. Out: frozen rows in
the dict's order. Promises: equal values have equal rows, as Python's == has it (True, 1 and 1.0 have one number).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from lineage_store.errors import LineageStoreError
from lineage_store.store.records import Valued
from lineage_store.texts import canonical_json, key, to_stored

DEEPEST_METRIC = 50
"""Levels of lists and objects in a metric; deeper ones are nobody's result, and would exhaust the stack of a reader."""


class MetricTextError(LineageStoreError, ValueError):
    """The metric text of an evaluation is no JSON object."""


def parse_metric(metric: str | None) -> dict[str, Any]:
    """The metrics in the JSON text of an evaluation; absent or empty text holds none.

    Values keep their JSON types; NaN and Infinity are read as floats. Raises MetricTextError, a ValueError.
    """
    if not metric:
        return {}
    try:
        metrics = json.loads(metric)
    except (ValueError, RecursionError) as error:
        raise MetricTextError(
            f"The metric text {metric[:80]!r} of an evaluation is no JSON: {error}."
        ) from error
    if not isinstance(metrics, dict):
        raise MetricTextError(
            f"The metric text {metric[:80]!r} of an evaluation is JSON, but no object of name: value."
        )
    if _is_deeper(metrics, DEEPEST_METRIC):
        raise MetricTextError(f"The metric text {metric[:80]!r} of an evaluation is nested too deep.")
    return metrics


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


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
