"""Histograms over common buckets."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from lineage_store.server.mindinsight.histograms import bucket_number, histogram, rebinned


def test_counts_are_shared_out_and_rounded_up_bucket_by_bucket() -> None:
    third = 2 / 3
    assert rebinned([histogram([(0.0, 1.0, 4), (1.0, 1.0, 6)], 0.0, 2.0)]) == [
        [[0.0, third, 3], [third, third, 4], [2 * third, third, 4]]
    ]


def test_equal_values_stand_in_the_middle() -> None:
    (found,) = rebinned([histogram([(3.0, 0.0, 12)], 3.0, 3.0)])
    assert found == [[2.5, 1 / 3, 0], [2.8333333333333335, 1 / 3, 12], [3.1666666666666665, 1 / 3, 0]]


def test_nothing_at_all_is_one_empty_bucket() -> None:
    assert rebinned([histogram([], math.nan, math.inf)]) == [[[-0.5, 1.0, 0]]]


def test_ends_that_are_not_finite_count_as_zero() -> None:
    (found,) = rebinned([histogram([(-1.0, 2.0, 3)], -math.inf, math.nan)])
    assert [bucket[0] for bucket in found] == [-0.5, 0.0]


def test_the_number_of_buckets_follows_the_largest_count() -> None:
    counts = [0, 1, 5, 6, 10, 11, 20, 21, 280, 281]
    assert [bucket_number(count) for count in counts] == [1, 2, 2, 3, 3, 3, 3, 4, 29, 30]


edges = st.floats(-100, 100).map(lambda number: round(number, 3))
buckets = st.lists(st.tuples(edges, st.floats(0, 50), st.integers(0, 1000)), max_size=20)


@given(st.lists(st.tuples(buckets, edges, edges), max_size=5))
def test_all_histograms_share_their_edges(
    drawn: list[tuple[list[tuple[float, float, int]], float, float]],
) -> None:
    found = rebinned([histogram(each, min(ends), max(ends)) for each, *ends in drawn])
    assert len({tuple((left, width) for left, width, _ in each) for each in found}) <= 1
