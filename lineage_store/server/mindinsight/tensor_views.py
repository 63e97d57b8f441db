"""A tensor as MindInsight shows it: a slice of at most two dimensions, statistics, a histogram. Pure.

In: an array, the text of a slice such as `[0,:,::2]`. Out: nested lists and plain numbers. Promises: MindInsight's
numbers; in slices, NaN and infinities are texts.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.server.mindinsight.protocol import wrong_value
from lineage_store.server.mindinsight.rebinning import Histogram, bucket_number, histogram

MOST_OPEN_DIMENSIONS = 2
Array = NDArray[Any]
Index = tuple[int | slice, ...]


def read_slice(text: str) -> Index:
    """Return the index that a text such as `[0,1:3,:]` stands for. Raises RefusedError."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        raise wrong_value(
            "Invalid shape. The type of shape should be str and start with `[` and end with `]`. "
            f"Received: {text}."
        )
    inside = text[1:-1].strip()
    entries = [entry.strip() for entry in inside.split(",")] if inside else []
    if sum(":" in entry for entry in entries) > MOST_OPEN_DIMENSIONS:
        raise wrong_value(
            f"Invalid shape. At most {MOST_OPEN_DIMENSIONS} dimensions are specified. Received: {inside}"
        )
    return tuple(map(_read_entry, entries))


def _read_entry(entry: str) -> int | slice:
    bounds = [bound.strip() for bound in entry.split(":")]
    try:
        if len(bounds) == 1:
            return int(entry)
        return slice(*(int(bound) if bound else None for bound in bounds))
    except (TypeError, ValueError):
        raise wrong_value(f"Invalid shape. Convert int from str failed. input_str: {entry}") from None


def sliced(array: Array, index: Index) -> Array:
    """Return a part of the array. Raises RefusedError if the index does not fit."""
    if array.size == 0:
        return array
    if len(index) != array.ndim:
        raise wrong_value("Invalid dims. The length of param dims and tensor shape should be the same.")
    try:
        return np.asarray(array[index])
    except (IndexError, ValueError):
        raise wrong_value(
            f"Invalid shape. Shape unmatched. Received: {index}, tensor shape: {array.shape}"
        ) from None


def as_lists(array: Array) -> Any:
    """Return the elements as nested lists, or as one number; NaN and infinities as texts."""
    elements = array.astype(np.float64).tolist()
    return elements if np.isfinite(array).all() else _spelt(elements)


def statistics(part: Array, whole: Array) -> dict[str, float]:
    """Return MindInsight's statistics of a part, and of the whole tensor under names that begin with `overall_`."""
    overall = _statistics(whole)
    finite = whole[np.isfinite(whole)]
    counted = {
        "zero_count": float((finite == 0).sum()),
        "neg_zero_count": float((finite < 0).sum()),
        "pos_zero_count": float((finite > 0).sum()),
    }
    every = {f"overall_{name}": value for name, value in (overall | counted).items()}
    return (overall if part is whole else _statistics(part)) | every


def _statistics(array: Array) -> dict[str, float]:
    finite = array[np.isfinite(array)]
    return {
        "max": float(finite.max()) if finite.size else 0.0,
        "min": float(finite.min()) if finite.size else 0.0,
        "avg": float(finite.mean(dtype=np.float64)) if finite.size else 0.0,
        "count": array.size,
        "nan_count": int(np.isnan(array).sum()),
        "neg_inf_count": int(np.isneginf(array).sum()),
        "pos_inf_count": int(np.isposinf(array).sum()),
    }


def histogram_of(array: Array) -> Histogram:
    """Return a histogram of the finite elements, with the buckets that MindInsight chooses for a tensor."""
    finite = array[np.isfinite(array)]
    if not finite.size:
        return histogram([], 0.0, 0.0)
    least, greatest = float(finite.min()), float(finite.max())
    ends = (least - 0.5, greatest + 0.5) if least == greatest else (least, greatest)
    edges = np.linspace(*ends, bucket_number(finite.size) + 1)
    counts, _ = np.histogram(finite, edges)
    widths = np.diff(edges).tolist()
    return histogram(list(zip(edges[:-1].tolist(), widths, counts.tolist(), strict=True)), least, greatest)


def _spelt(value: Any) -> Any:
    if isinstance(value, list):
        return [_spelt(each) for each in value]
    if math.isnan(value):
        return "NAN"
    return value if math.isfinite(value) else "INF" if value > 0 else "-INF"
