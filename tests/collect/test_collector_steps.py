"""The steps at which the collector collects: the arithmetic of the documentation's examples."""

from __future__ import annotations

import pytest

from lineage_store.collect.collector_options import plan_steps


def collected(total: int, frequency: int, tensor_frequency: int | None = None) -> tuple[list[int], list[int]]:
    """The steps of tensors, and those of all else; the first counts always."""
    steps = plan_steps(total, frequency, tensor_frequency)
    tensors, others = [1], [1]
    for step in range(2, total + 1):
        due = steps.at(step)
        if due.takes("tensor"):
            tensors.append(step)
        if due.takes("scalar"):
            others.append(step)
    return tensors, others


def test_of_600_steps_20_have_tensors_and_61_all_else() -> None:
    tensors, others = collected(600, 10)
    assert (len(tensors), len(others)) == (20, 61)
    assert tensors == [1, *range(31, 600, 31)]
    assert others == [1, *range(10, 601, 10)]


def test_of_20_steps_3_have_tensors_and_all_else() -> None:
    assert collected(20, 10) == ([1, 10, 20], [1, 10, 20])


@pytest.mark.parametrize(
    ("total", "frequency"), [(30, 1), (37, 1), (38, 1), (1000, 1), (10_000, 3), (199, 10)]
)
def test_tensors_have_no_more_than_20_steps_by_default(total: int, frequency: int) -> None:
    tensors, others = collected(total, frequency)
    assert len(tensors) <= 20
    assert len(tensors) <= len(others)


def test_tensors_of_a_short_training_are_those_of_its_first_20_steps() -> None:
    assert collected(30, 1)[0] == list(range(1, 21))


def test_tensors_have_a_frequency_of_their_own_when_asked_for() -> None:
    assert collected(100, 10, 30) == ([1, 30, 60, 90], [1, *range(10, 101, 10)])
    assert len(collected(100, 10, 1)[0]) == 100
