"""Thinning a scalar: buckets tell in short of all its samples, and of each bucket few samples stay.

In: the samples of one series. Out: rows of `scalar_bucket`, and fewer of `scalar_sample`. Promises: what stays is as it
was written: of each bucket the first sample, the last, the least and the greatest finite one, and the first NaN and the
first infinity of each sign, so that a curve has every extreme at its step; no bucket lies on both sides of what a newer
file wrote again; the statistics of the series stay those of all that was written. Does not know which series, nor when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, delete, select, update

from lineage_store.store.catalog.thinnable import SeriesKey, Thinnable
from lineage_store.store.database.dialects import among, insert_plain
from lineage_store.store.schema.tables import log_file, scalar_bucket, scalar_sample, series
from lineage_store.store.statistics import Floats, Integers, Statistics, statistics
from lineage_store.store.writes import revisions

_ROWS_AT_A_TIME = 20_000


@dataclass(frozen=True, slots=True)
class Thinned:
    """What becomes of a series."""

    buckets: Sequence[dict[str, Any]]
    """Rows but for the key of the series."""
    kept: Sequence[int]
    """Steps of the samples that stay."""


def read_samples(connection: Connection, key: SeriesKey) -> tuple[Integers, Floats]:
    """Steps and values of a series, ascending."""
    sample = scalar_sample.c
    mine = (sample.job_id == key[0]) & (sample.series_no == key[1])
    query = select(sample.step, sample.value).where(mine).order_by(sample.step)
    with connection.execute(query, execution_options={"yield_per": _ROWS_AT_A_TIME}) as rows:
        parts = [tuple(zip(*part, strict=True)) for part in rows.partitions()]
    steps = np.concatenate([np.empty(0, np.int64), *(np.array(part[0], np.int64) for part in parts)])
    values = np.concatenate([np.empty(0), *(np.array(part[1], np.float64) for part in parts)])
    return steps, values  # NULL has become NaN


def thinned(steps: Integers, values: Floats, most: int, superseded_from: int | None) -> Thinned:
    """`most` buckets at most, with about as many samples each, cut where a newer file begins."""
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
    """Of the finite values of each bucket. Parts of it are summed up, for values may be as large as there are; rounded
    on the way, it would lie beside values that are all the same.
    """
    finite = np.isfinite(values)
    counts = np.maximum(np.bincount(number, finite), 1)
    means = np.bincount(number, np.where(finite, values, 0.0) / counts[number])
    for bucket, mean in zip(buckets, means.tolist(), strict=True):
        least, greatest = bucket.min_value, bucket.max_value
        yield None if least is None or greatest is None else min(max(mean, least), greatest)


def thin(connection: Connection, base_dir_id: int, of: Thinnable, found: Thinned) -> int:
    """Put buckets in the place of the samples that do not stay; how many went."""
    key = {"job_id": of.job_id, "series_no": of.series_no}
    sample, gone = scalar_sample.c, of.sample_count - len(found.kept)
    mine = (sample.job_id == of.job_id) & (sample.series_no == of.series_no)
    connection.execute(delete(scalar_sample).where(mine, ~among(connection, sample.step, found.kept)))
    insert_plain(connection, scalar_bucket, [key | row for row in found.buckets])
    this = (series.c.job_id == of.job_id) & (series.c.series_no == of.series_no)
    connection.execute(update(series).where(this).values(thinned_count=gone))
    file = (log_file.c.job_id == of.job_id) & (log_file.c.file_no == of.file_no)
    connection.execute(update(log_file).where(file).values(thinned=True))
    revisions.stamp(connection, base_dir_id, [of.job_id])
    return gone
