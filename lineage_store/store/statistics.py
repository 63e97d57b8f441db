"""The statistics of series, computed for many series at once. Pure.

In: columns of samples. Out: statistics, a row per series.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Statistics(NamedTuple):
    """The columns of `series` that are computed from its samples; values are None for payloads and for NaN."""

    sample_count: int
    first_step: int
    first_wall_time: float | None
    first_value: float | None
    last_step: int
    last_wall_time: float | None
    last_value: float | None
    earliest_wall_time: float | None = None
    """May be less than `first_wall_time`: clocks are set back, and a file may go back in its steps."""
    latest_wall_time: float | None = None
    min_value: float | None = None
    min_step: int | None = None
    max_value: float | None = None
    max_step: int | None = None
    nan_count: int = 0
    inf_count: int = 0


def statistics(
    number: Integers, steps: Integers, wall_times: Floats, values: Floats | None
) -> list[Statistics]:
    """Return the statistics of each series.

    Args:
        number: for each sample, the index of its series: 0, 1 … without a gap, ascending.
        steps: ascending and distinct within each series.
        wall_times: unix s; NaN where a sample has none.
        values: None for payloads; may hold NaN and infinities.
    """
    first = np.flatnonzero(np.diff(number, prepend=-1))
    last = np.append(first[1:], len(number)) - 1
    nothing: list[None] = [None] * len(first)
    columns: list[list[Any]] = [
        (last - first + 1).tolist(),
        steps[first].tolist(),
        _nullable(wall_times[first]),
        nothing if values is None else _nullable(values[first]),
        steps[last].tolist(),
        _nullable(wall_times[last]),
        nothing if values is None else _nullable(values[last]),
        _nullable(np.fmin.reduceat(wall_times, first)),
        _nullable(np.fmax.reduceat(wall_times, first)),
    ]
    if values is not None:
        columns += _of_values(number, steps, values, first)
    return [Statistics(*row) for row in zip(*columns, strict=True)]


def _of_values(number: Integers, steps: Integers, values: Floats, first: Integers) -> tuple[list[Any], ...]:
    """Return the lists min_value, min_step, max_value, max_step, nan_count and inf_count."""
    finite = np.isfinite(values)
    least = _extremes(np.minimum, np.where(finite, values, np.inf), number, steps, first)
    greatest = _extremes(np.maximum, np.where(finite, values, -np.inf), number, steps, first)
    counts = (np.add.reduceat(which, first, dtype=np.int64) for which in (np.isnan(values), np.isinf(values)))
    return *least, *greatest, *(count.tolist() for count in counts)


def _extremes(
    extreme: np.ufunc, finite: Floats, number: Integers, steps: Integers, first: Integers
) -> tuple[list[Any], list[Any]]:
    """Return the extreme of each series and the lowest step that has it; None and None if no value is finite."""
    found = extreme.reduceat(finite, first)
    equal = np.flatnonzero(finite == found[number])
    at = equal[np.flatnonzero(np.diff(number[equal], prepend=-1))]
    known = np.isfinite(finite[at]).tolist()
    return tuple(  # type: ignore[return-value]
        [each if is_known else None for each, is_known in zip(column[at].tolist(), known, strict=True)]
        for column in (finite, steps)
    )


def _nullable(numbers: Floats) -> list[float | None]:
    return [nullable(number) for number in numbers.tolist()]


def nullable(number: float) -> float | None:
    """Return None, SQL's NULL, for NaN; else the number."""
    return None if number != number else float(number)
