"""How strongly hyper-parameters correlate with results, as MindInsight's model lineage page shows it. Pure.

In: jobs in the shape of `filter_lineage`. Out: for each metric and the loss a histogram, and for each tunable number
the magnitude of its Pearson correlation with the result. Promises: MindInsight's numbers and order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.extreme_numbers import WORD_BY_KIND
from lineage_store.fields import LISTED

METRIC, USER = "[M]", "[U]"
LOSS = "loss"
NOT_A_NUMBER, FEW_SAMPLES, UNDEFINED = 1, 2, 3
"""MindInsight's reason codes: why a hyper-parameter has no importance."""
_BUCKETS = 5
_LEAST_SAMPLES = 3
_TUNABLE = [field.name for field in LISTED if field.tunable]
_NAN = WORD_BY_KIND["nan"]
"""NaN in the answers of `filter_lineage`. An infinity is a text to MindInsight: such a column is not numeric."""
_LARGEST = 1e300
"""Larger magnitudes count as missing, because the distance of two of them may overflow."""
_FINEST = 1e-14
"""Values whose relative distance is smaller count as equal: float64 has no buckets between them."""
Column = Sequence[float | None]


def analysed(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return MindInsight's answer about these jobs."""
    models = [each["model_lineage"] for each in objects if "model_lineage" in each]
    user_keys = _keys(model["user_defined"] for model in models)
    parameters = {name: [model[name] for model in models] for name in _TUNABLE}
    parameters |= {f"{USER}{key}": [model["user_defined"].get(key) for model in models] for key in user_keys}
    results = {LOSS: [model[LOSS] for model in models]}
    metrics = _keys(model["metric"] for model in models)
    results |= {f"{METRIC}{key}": [model["metric"].get(key) for model in models] for key in metrics}
    numbers = {name: column for name, values in parameters.items() if (column := _column(values))}
    targets = {name: column for name, values in results.items() if (column := _column(values))}
    return {
        "metadata": {
            "train_ids": [each["summary_dir"] for each in objects],
            "possible_hyper_parameters": [{"name": name, "data": data} for name, data in numbers.items()],
            "unrecognized_params": [
                {"name": name, "unselected": True, "reason_code": NOT_A_NUMBER}
                for name in parameters
                if name.startswith(USER) and name not in numbers
            ],
        },
        "targets": [_target(name, targets[name], numbers) for name in sorted(targets)],
    }


def _target(name: str, data: Column, numbers: Mapping[str, Column]) -> dict[str, Any]:
    told = [{"name": each, **_importance(column, data)} for each, column in numbers.items()]
    told.sort(key=lambda each: (-each["importance"], each["name"].startswith("["), each["name"]))
    return {"name": name, "buckets": _buckets(data), "hyper_parameters": told, "data": data}


def _importance(parameter: Column, target: Column) -> dict[str, Any]:
    pairs = [(x, y) for x, y in zip(parameter, target, strict=True) if x is not None and y is not None]
    if len(pairs) < _LEAST_SAMPLES:
        return {"importance": 0, "reason_code": FEW_SAMPLES}
    xs, ys = np.array(pairs, np.float64).T
    with np.errstate(all="ignore"):
        correlation = float(np.corrcoef(ys, xs)[0, 1])
    if math.isnan(correlation):
        return {"importance": 0, "reason_code": UNDEFINED}
    return {"importance": abs(correlation)}


def _buckets(data: Column) -> list[list[float]]:
    values: NDArray[np.float64] = np.array([value for value in data if value is not None], np.float64)
    least, greatest = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    finest = max(_FINEST * max(abs(least), abs(greatest)), 1 / _LARGEST)
    if greatest - least <= finest:
        least, greatest = least - max(0.5, finest), greatest + max(0.5, finest)
    counts, edges = np.histogram(values, _BUCKETS, (least, greatest))
    widths = edges[1:] - edges[:-1]
    return [
        [float(left), float(width), float(count)]
        for left, width, count in zip(edges[:-1], widths, counts, strict=True)
    ]


def _column(values: Sequence[Any]) -> list[float | None] | None:
    """Return the values as numbers, missing ones as None; or None if some value is not a number."""
    present = [value for value in values if value is not None]
    if not present or not all(map(_is_number, present)):
        return None
    if len(present) == len(values) and all(isinstance(value, int) for value in map(_usable, present)):
        return list(present)
    return [None if (value := _usable(each)) is None else float(value) for each in values]


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or value == _NAN


def _usable(value: Any) -> int | float | None:
    """Return a number that can be computed with; None if it is missing, NaN or too large."""
    return value if isinstance(value, int | float) and abs(value) <= _LARGEST else None


def _keys(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all mappings, in the order in which they first appear."""
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))
