"""Thinning a series of scalars: its samples are summarised in buckets, and only a few samples of each bucket are kept.

In: the samples of one series. Out: rows of `scalar_bucket`, and fewer of `scalar_sample`. Promises: each bucket keeps,
unchanged, its first and last sample, the least and the greatest finite one, and the first NaN and the first infinity of
each sign, so that a curve has all extremes at their steps; no bucket has samples both before and after the step from
which a newer file wrote the series again; the series' statistics stay those of all samples. Does not know which series
are thinned, nor when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import delete, select, update

from lineage_store.store.catalog.retention import SeriesKey, Thinnable
from lineage_store.store.database.sql import Session, among
from lineage_store.store.records import Floats, Integers, Statistics, statistics
from lineage_store.store.schema.tables import (
    in_file,
    in_series,
    log_file,
    scalar_bucket,
    scalar_sample,
    series,
)
from lineage_store.store.writes import jobs

_ROWS_AT_A_TIME = 20_000


@dataclass(frozen=True, slots=True)
class Thinned:
    """The buckets of a series, and the samples that are kept."""

    buckets: Sequence[dict[str, Any]]
    """Rows of `scalar_bucket` without the key of the series."""
    kept: Sequence[int]
    """Steps of the samples that are kept, ascending."""


def read_samples(session: Session, key: SeriesKey) -> tuple[Integers, Floats]:
    """Return the steps, ascending, and the values of a series."""
    sample = scalar_sample.c
    query = select(sample.step, sample.value).where(in_series(scalar_sample, key)).order_by(sample.step)
    parts = [tuple(zip(*part, strict=True)) for part in session.stream(query, _ROWS_AT_A_TIME)]
    steps = np.concatenate([np.empty(0, np.int64), *(np.array(part[0], np.int64) for part in parts)])
    values = np.concatenate([np.empty(0), *(np.array(part[1], np.float64) for part in parts)])
    return steps, values  # NULL has become NaN


def thinned(steps: Integers, values: Floats, most: int, superseded_from: int | None) -> Thinned:
    """Divide samples into buckets of about equal size, and choose those to keep.

    Args:
        steps, values: of all samples, at least one, steps ascending.
        most: the greatest number of buckets.
        superseded_from: the step from which a newer file wrote the series again; a bucket begins there.
    """
    place = np.arange(len(steps))
    number = place * most // len(steps)
    if superseded_from is not None:
        number = place * (most - 1) // len(steps) + (steps >= superseded_from)
    number = np.unique(number, return_inverse=True)[1]
    found = statistics(number, steps, np.zeros(len(steps)), values)
    rows = [
        {
            "first_step": bucket.first_step,
            "last_step": bucket.last_step,
            "count": bucket.sample_count,
            "nan_count": bucket.nan_count,
            "inf_count": bucket.inf_count,
            "min": bucket.min_value,
            "max": bucket.max_value,
            "mean": mean,
        }
        for bucket, mean in zip(found, _means(found, number, values), strict=True)
    ]
    kept = {step for each in found for step in (each.first_step, each.last_step)}
    kept |= {step for each in found for step in (each.min_step, each.max_step) if step is not None}
    odd = np.flatnonzero(~np.isfinite(values))
    kind = np.where(np.isnan(values[odd]), 0, np.sign(values[odd])).astype(np.int64)
    firsts = odd[np.unique(number[odd] * 3 + kind, return_index=True)[1]]
    return Thinned(rows, sorted(kept | set(steps[firsts].tolist())))


def _means(buckets: Sequence[Statistics], number: Integers, values: Floats) -> Iterator[float | None]:
    """The mean of the finite values of each bucket, None if there are none.

    Each value is divided before summing, for a sum of very large values would overflow; the result is limited to the
    range of the values, which rounding may have left.
    """
    finite = np.isfinite(values)
    counts = np.maximum(np.bincount(number, finite), 1)
    means = np.bincount(number, np.where(finite, values, 0.0) / counts[number])
    for bucket, mean in zip(buckets, means.tolist(), strict=True):
        least, greatest = bucket.min_value, bucket.max_value
        yield None if least is None or greatest is None else min(max(mean, least), greatest)


def thin(session: Session, base_dir_id: int, of: Thinnable, found: Thinned) -> int:
    """Insert the buckets and delete the samples that are not kept; return how many were deleted."""
    gone = of.sample_count - len(found.kept)
    others = in_series(scalar_sample, of.key) & ~among(session, scalar_sample.c.step, found.kept)
    session.change(delete(scalar_sample).where(others))
    key = {"job_id": of.job_id, "series_no": of.series_no}
    session.insert(scalar_bucket, [key | row for row in found.buckets])
    session.change(update(series).where(in_series(series, of.key)).values(thinned_count=gone))
    file = in_file(log_file, (of.job_id, of.file_no))
    session.change(update(log_file).where(file).values(thinned=True))
    jobs.stamp(session, base_dir_id, [of.job_id])
    return gone
