"""An array's histogram, by the very arithmetic of MindSpore's writer.

In: an array of booleans, integers or floats. Out: a filled Histogram message. Promises: bit for bit what MindSpore
2.10 writes, on every numpy from 1.26; and a histogram where MindSpore's arithmetic fails, as for unsigned zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.eventlog.wire import summary_pb2

_MANY_VALUES, _MOST_BUCKETS = 880, 90
_VALUES_A_BUCKET = 10
_FEW = ((5, 2), (10, 3))
"""Up to so many values, so many buckets."""


def fill(histogram: summary_pb2.Summary.Histogram, values: NDArray[Any]) -> None:
    """Count `values` into the message; buckets span the finite ones, and there are none without finite ones."""
    if values.dtype == np.bool_:
        values = values.astype(np.uint8)
    finite = np.isfinite(values)
    valid = int(np.count_nonzero(finite))
    histogram.count = values.size
    histogram.nan_count = int(np.count_nonzero(np.isnan(values)))
    histogram.pos_inf_count = int(np.count_nonzero(np.isposinf(values)))
    histogram.neg_inf_count = int(np.count_nonzero(np.isneginf(values)))
    if not valid:
        return
    # The order of a sum shows in its last bits: MindSpore adds zeros in the places of what is not finite.
    filled = values if valid == values.size else np.where(finite, values, values.dtype.type(0))
    histogram.min = float(values.min(where=finite, initial=_greatest(values.dtype)))
    histogram.max = float(values.max(where=finite, initial=_least(values.dtype)))
    with np.errstate(over="ignore"):
        histogram.sum = float(filled.sum(dtype=np.float64))
    edges = _edges(histogram.min, histogram.max, bucket_count(valid), values.dtype)
    counts, _ = np.histogram(values, bins=edges)
    for left, width, count in zip(edges.tolist(), np.diff(edges).tolist(), counts.tolist(), strict=False):
        histogram.buckets.add(left=left, width=width, count=count)


def bucket_count(valid: int) -> int:
    """How many buckets so many finite values get, at least one of them."""
    for most, buckets in _FEW:
        if valid <= most:
            return buckets
    return valid // _VALUES_A_BUCKET + 1 if valid <= _MANY_VALUES else _MOST_BUCKETS


def _edges(least: float, greatest: float, buckets: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if not least < greatest:
        least, greatest = least - 0.5, greatest + 0.5
    with np.errstate(all="ignore"):
        edges = np.linspace(least, greatest, buckets + 1, dtype=dtype)
    rising = bool((edges[1:] >= edges[:-1]).all())
    return edges if rising else np.linspace(least, greatest, buckets + 1)


def _greatest(dtype: np.dtype[Any]) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _least(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
