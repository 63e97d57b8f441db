"""Histograms of a tag over common buckets, as MindInsight draws them: from the least of all to the greatest. Pure.

In: the buckets of each sample as they were written. Out: for each as many rows [left, width, count] of equal width.
Promises: MindInsight's numbers to the last bit, which is why the order of additions must stay as it is. Counts are
rounded up bucket by bucket, so their sum may exceed the number of values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Bucket = tuple[float, float, int]
"""Left edge, width, count."""
MOST_BUCKETS = 90
"""MindInsight leaves out a histogram that was written with more."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram as it was written; `least` and `greatest` of its finite values."""

    buckets: Sequence[Bucket]
    least: float
    greatest: float

    @property
    def count(self) -> int:
        """The finite values."""
        return sum(count for _, _, count in self.buckets)


def histogram(buckets: Sequence[Bucket], least: float, greatest: float) -> Histogram:
    """A histogram of which NaN and infinite ends count as zero."""
    return Histogram(sorted(buckets, key=lambda bucket: bucket[0]), _finite(least), _finite(greatest))


def rebinned(histograms: Sequence[Histogram]) -> list[list[list[float]]]:
    """Each histogram's counts in buckets that all share."""
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
    """How many buckets so many values are drawn in."""
    for most, number in ((0, 1), (5, 2), (10, 3)):
        if count <= most:
            return number
    return math.ceil(count / 10) + 1 if count <= 280 else 30


def _counts(of: Histogram, least: float, width: float, number: int) -> list[int]:
    if of.count == 0:
        return [0] * number
    counts, position = [], 0
    for index in range(number):
        left = least + width * index
        position, estimate = _estimate(of.buckets, position, left, left + width)
        counts.append(math.ceil(_finite(estimate)))  # not finite where a width has too few bits
    return counts


def _estimate(buckets: Sequence[Bucket], position: int, left: float, right: float) -> tuple[int, float]:
    """The values between two edges, from a bucket on, and the bucket at which the next edge begins."""
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
