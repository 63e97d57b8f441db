"""Named JSON values in a form that SQL can compare: a kind, and a number or a text.

In: a dict of named JSON values (metrics, user-defined values), or the JSON text of the metrics. Out: frozen rows in the
dict's order. Promises: numbers and bools that are equal in Python have the same number (True, 1 and 1.0, though they
differ in kind), except for integers beyond the range of floats, which are text, as lists and objects are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lineage_store.errors import LineageStoreError
from lineage_store.extreme_numbers import float_kind
from lineage_store.store.records import Valued
from lineage_store.texts import canonical_json, key, to_stored

DEEPEST_METRIC = 50
"""How many levels of lists and objects a metric may have: no real result has more, and they would exhaust the stack."""


class MetricTextError(LineageStoreError, ValueError):
    """The metric text of an evaluation is not a JSON object."""


def parse_metric(metric: str | None) -> dict[str, Any]:
    """Parse the metrics of an evaluation from their JSON text; None and an empty text give no metrics.

    Values keep their JSON types; NaN and Infinity are parsed as floats. Raises MetricTextError, a ValueError.
    """
    if not metric:
        return {}
    try:
        metrics = json.loads(metric)
    except (ValueError, RecursionError) as error:
        raise _refusal(metric, f"is no JSON: {error}") from error
    if not isinstance(metrics, dict):
        raise _refusal(metric, "is JSON, but no object of name: value")
    if _is_deeper(metrics, DEEPEST_METRIC):
        raise _refusal(metric, "is nested too deep")
    return metrics


def _refusal(metric: str, why: str) -> MetricTextError:
    return MetricTextError(f"The metric text {metric[:80]!r} of an evaluation {why}.")


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def named_values(values: Mapping[str, Any]) -> tuple[Valued, ...]:
    """Return a row for each name. Names with the same key are the same to the database: the last one wins."""
    rows = [
        Valued(position, to_stored(name), *_comparable(value))
        for position, (name, value) in enumerate(values.items())
    ]
    return tuple({key(row.name): row for row in rows}.values())


def _comparable(value: Any) -> tuple[str, float | None, str | None]:
    """Return (kind, number, text)."""
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
    except OverflowError:  # beyond the range of floats
        return "json", None, canonical_json(value)
