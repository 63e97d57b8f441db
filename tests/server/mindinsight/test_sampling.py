"""Which samples MindInsight's sampling keeps."""

from __future__ import annotations

import pytest

from lineage_store.server.mindinsight.samples import Run, kept


def indexes(count: int, capacity: int) -> list[int]:
    return [index for _, index in kept([Run(0, range(count))], capacity)]


def test_what_has_room_is_kept() -> None:
    assert indexes(10, 10) == list(range(10))
    assert indexes(0, 10) == []


@pytest.mark.parametrize(
    ("count", "capacity", "expected"),
    [
        (15, 10, [1, 2, 3, 4, 8, 9, 10, 11, 13, 14]),
        (30, 20, [0, 2, 3, 4, 5, 6, 7, 8, 10, 13, 15, 17, 18, 21, 22, 23, 24, 25, 28, 29]),
    ],
)
def test_the_same_are_kept_as_by_its_server(count: int, capacity: int, expected: list[int]) -> None:
    assert indexes(count, capacity) == expected


def test_the_newest_is_always_kept() -> None:
    assert all(indexes(count, 10)[-1] == count - 1 for count in range(1, 300))


def test_a_restart_takes_the_curve_back() -> None:
    found = kept([Run(1, range(8)), Run(2, range(5, 7))], 10)
    assert found == [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]


def test_files_of_one_second_interleave_and_the_one_read_later_wins_a_step() -> None:
    assert kept([Run(1, [0, 2, 3]), Run(1, [1, 2])], 10) == [(0, 0), (1, 0), (1, 1), (0, 2)]
