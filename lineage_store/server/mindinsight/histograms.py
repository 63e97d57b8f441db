"""`datavisual/histograms`: the histograms of a tag, with the same buckets from the least value of all to the greatest.

In: the buckets of each sample as they were written. Out: for each sample the same number of rows [left, width,
count], all of one width. Promises: MindInsight's numbers to the last bit, which is why the order of additions must
not change. Counts are rounded up in each bucket, so that their sum may exceed the number of values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lineage_store.plugins import HISTOGRAM
from lineage_store.server.decoding import Content, Decoding
from lineage_store.server.mindinsight.protocol import QueryParameters, compact_json, nothing_of
from lineage_store.server.mindinsight.samples import (
    GONE,
    NO_DATA,
    KeptPayload,
    in_process,
    kept_payloads,
    stored_tag,
)
from lineage_store.server.mindinsight.site import Site

Bucket = tuple[float, float, int]
"""Left edge, width, count."""
MOST_BUCKETS = 90
"""MindInsight leaves out a histogram that was written with more buckets."""


def get_histograms(site: Site, query: QueryParameters) -> Content | Decoding:
    """Return the histograms of a tag."""
    train_id, tag = query.required("train_id"), query.required("tag")
    job = site.job(train_id)
    stored = stored_tag(job, HISTOGRAM, tag, nothing_of(HISTOGRAM, NO_DATA))
    found = kept_payloads(site, job, HISTOGRAM, stored, most_long=MOST_BUCKETS)
    return in_process(_shown, found, train_id, tag, found)


def _shown(train_id: str, tag: str, payloads: Sequence[KeptPayload]) -> Content:
    drawn = rebinned([_read(each) for each in payloads])
    shown = [
        {"wall_time": each.wall_time, "step": each.step, "buckets": buckets}
        for each, buckets in zip(payloads, drawn, strict=True)
    ]
    return Content(compact_json({"train_id": train_id, "tag": tag, "histograms": shown}))


def _read(payload: KeptPayload) -> WrittenHistogram:
    read = payload.read(nothing_of(HISTOGRAM, GONE))
    columns = (read.left.tolist(), read.width.tolist(), read.count.tolist())
    return histogram(list(zip(*columns, strict=True)), read.statistics.min, read.statistics.max)


@dataclass(frozen=True, slots=True)
class WrittenHistogram:
    """A histogram as it was written; `least` and `greatest` are of its finite values."""

    buckets: Sequence[Bucket]
    least: float
    greatest: float

    @property
    def count(self) -> int:
        """How many finite values the histogram counts."""
        return sum(count for _, _, count in self.buckets)


def histogram(buckets: Sequence[Bucket], least: float, greatest: float) -> WrittenHistogram:
    """Return a histogram with sorted buckets, in which NaN and infinite ends are replaced by zero."""
    return WrittenHistogram(sorted(buckets, key=lambda bucket: bucket[0]), _finite(least), _finite(greatest))


def rebinned(histograms: Sequence[WrittenHistogram]) -> list[list[list[float]]]:
    """Return each histogram as rows [left, width, count] of common buckets."""
    filled = [each for each in histograms if each.count > 0]
    least = min((each.least for each in filled), default=0.0)
    greatest = max((each.greatest for each in filled), default=0.0)
    number = bucket_number(max((each.count for each in filled), default=0))
    if greatest == least:
        least, greatest = least - 0.5, greatest + 0.5
    width = (greatest - least) / number
    return [
        [
            [least + width * index, width, count]
            for index, count in enumerate(_counts(each, least, width, number))
        ]
        for each in histograms
    ]


def bucket_number(count: int) -> int:
    """Return in how many buckets MindInsight draws `count` values."""
    for most, number in ((0, 1), (5, 2), (10, 3)):
        if count <= most:
            return number
    return math.ceil(count / 10) + 1 if count <= 280 else 30


def _counts(of: WrittenHistogram, least: float, width: float, number: int) -> list[int]:
    if of.count == 0:
        return [0] * number
    counts, position = [], 0
    for index in range(number):
        left = least + width * index
        position, estimate = _estimate(of.buckets, position, left, left + width)
        counts.append(math.ceil(_finite(estimate)))  # not finite if the width underflows
    return counts


def _estimate(buckets: Sequence[Bucket], position: int, left: float, right: float) -> tuple[int, float]:
    """Estimate how many values lie between two edges, from the bucket at `position` on.

    Returns the position to continue from at the next edge, and the estimate.
    """
    begin, wide, _ = buckets[min(position, len(buckets) - 1)]
    if right <= begin:
        return position, 0.0
    while left >= begin + wide:
        position += 1
        if position >= len(buckets):
            break
        begin, wide, _ = buckets[position]
    estimate = 0.0
    while position < len(buckets):
        begin, wide, count = buckets[position]
        end = begin + wide
        overlap = min(right, end) - max(left, begin)
        estimate += count if wide == 0 else overlap / wide * count
        if not right > end:
            break
        position += 1
    return position, estimate


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
