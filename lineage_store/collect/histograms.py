"""Compute an array's histogram with the same arithmetic as MindSpore's writer.

In: an array of booleans, integers or floats. Out: a serialised Histogram message. Promises: the same bits as from
MindSpore 2.10, on every numpy from 1.26; and a histogram where MindSpore's arithmetic fails, as for unsigned zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.collect.wire_bytes import double_field, length_field, varint_field
from lineage_store.eventlog.mindspore.wire import summary_pb2

_HISTOGRAM, _BUCKET = summary_pb2.Summary.Histogram, summary_pb2.Summary.Histogram.bucket

_MANY_VALUES, _MOST_BUCKETS = 880, 90
_VALUES_A_BUCKET = 10
_FEW = ((5, 2), (10, 3))
"""(n, buckets): up to n values get that many buckets."""
_OF_BOOLEANS = np.array([0.0, 0.5, 1.0])
"""The edges of a bucket for False and one for True; MindSpore's writer fails for booleans."""


def encode(values: NDArray[Any]) -> bytes:
    """Return the serialised Histogram. Its buckets span the finite values; without any there are no buckets."""
    is_boolean = values.dtype == np.bool_
    if is_boolean:
        values = values.astype(np.uint8)
    finite = np.isfinite(values)
    valid = int(np.count_nonzero(finite))
    nan_count = pos_inf_count = neg_inf_count = 0
    if valid < values.size:
        invalid = (np.isnan, np.isposinf, np.isneginf)
        nan_count, pos_inf_count, neg_inf_count = (int(np.count_nonzero(kind(values))) for kind in invalid)
    counts = (
        varint_field(_HISTOGRAM.NAN_COUNT_FIELD_NUMBER, nan_count)
        + varint_field(_HISTOGRAM.POS_INF_COUNT_FIELD_NUMBER, pos_inf_count)
        + varint_field(_HISTOGRAM.NEG_INF_COUNT_FIELD_NUMBER, neg_inf_count)
    )
    total = varint_field(_HISTOGRAM.COUNT_FIELD_NUMBER, values.size)
    if not valid:
        return counts + total
    # The last bits of a sum depend on its order: like MindSpore, add zeros in place of values that are not finite.
    filled = values if valid == values.size else np.where(finite, values, values.dtype.type(0))
    limits = np.finfo(values.dtype) if values.dtype.kind == "f" else np.iinfo(values.dtype)
    least = float(values.min(where=finite, initial=limits.max))
    greatest = float(values.max(where=finite, initial=limits.min))
    with np.errstate(over="ignore"):
        sum_of_all = float(filled.sum(dtype=np.float64))
    edges = _OF_BOOLEANS if is_boolean else _edges(least, greatest, bucket_count(valid), values.dtype)
    return (
        _buckets(values, edges)
        + counts
        + double_field(_HISTOGRAM.MAX_FIELD_NUMBER, greatest)
        + double_field(_HISTOGRAM.MIN_FIELD_NUMBER, least)
        + double_field(_HISTOGRAM.SUM_FIELD_NUMBER, sum_of_all)
        + total
    )


def bucket_count(valid: int) -> int:
    """Return the number of buckets for `valid` finite values; `valid` is 1 or more."""
    for most, buckets in _FEW:
        if valid <= most:
            return buckets
    return valid // _VALUES_A_BUCKET + 1 if valid <= _MANY_VALUES else _MOST_BUCKETS


def _buckets(values: NDArray[Any], edges: NDArray[Any]) -> bytes:
    counts, _ = np.histogram(values, bins=edges)
    buckets = zip(edges.tolist(), np.diff(edges).tolist(), counts.tolist(), strict=False)
    encoded = bytearray()
    for left, width, held in buckets:
        place = double_field(_BUCKET.LEFT_FIELD_NUMBER, left) + double_field(
            _BUCKET.WIDTH_FIELD_NUMBER, width
        )
        bucket = place + varint_field(_BUCKET.COUNT_FIELD_NUMBER, held)
        encoded += length_field(_HISTOGRAM.BUCKETS_FIELD_NUMBER, bucket)
    return bytes(encoded)


def _edges(least: float, greatest: float, buckets: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    if not least < greatest:
        least, greatest = least - 0.5, greatest + 0.5
    with np.errstate(all="ignore"):
        edges = np.linspace(least, greatest, buckets + 1, dtype=dtype)
    rising = bool((edges[1:] >= edges[:-1]).all())
    return edges if rising else np.linspace(least, greatest, buckets + 1)
