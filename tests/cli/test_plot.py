"""Curves as text."""

from __future__ import annotations

import numpy as np
import pytest

from lineage_store.cli.plot import plot, plot_together

EMPTY = "\u2800"


def rows_of(text: str) -> list[str]:
    return [line.split("┤", 1)[1] for line in text.splitlines() if "┤" in line]


def test_a_falling_curve_falls() -> None:
    rows = rows_of(plot([1, 2, 3], [3.0, 2.0, 1.0], width=30, height=5))
    first = [next(index for index, char in enumerate(row) if char != EMPTY) for row in rows]
    assert len(rows) == 5
    assert first == sorted(first)
    assert rows[0][0] != EMPTY
    assert rows[-1][-1] != EMPTY


def test_axes_name_the_extremes() -> None:
    text = plot(np.arange(10, 21), np.linspace(0.25, 8, 11), width=40, title="loss of ./run_1")
    lines = text.splitlines()
    assert lines[0] == "loss of ./run_1"
    assert lines[1].split("┤")[0].strip() == "8"
    assert lines[-2].split("┤")[0].strip() == "0.25"
    assert lines[-1].split() == ["10", "step", "20"]
    assert all(len(line) <= 40 for line in lines)


def test_one_spike_among_very_many_values_stays_visible() -> None:
    values = np.zeros(100_000)
    values[54_321] = 1.0
    top = rows_of(plot(np.arange(100_000), values, width=60, height=8))[0]
    assert sum(char != EMPTY for char in top) == 1


def test_a_curve_is_one_line_without_gaps() -> None:
    rows = rows_of(plot([0, 1], [0.0, 1.0], width=40, height=10))
    assert all(any(row[column] != EMPTY for row in rows) for column in range(len(rows[0])))
    assert all(row.strip(EMPTY) for row in rows)


def test_nan_and_infinities_are_counted_not_drawn() -> None:
    text = plot([1, 2, 3, 4], [1.0, float("nan"), float("inf"), 2.0])
    assert text.splitlines()[-1] == "Not drawn: 1 NaN, 1 infinite of 4 values."
    assert "nan" not in text.replace("NaN", "")


@pytest.mark.parametrize("values", [[5.0, 5.0], [5.0]])
def test_a_constant_is_drawn_in_the_middle(values: list[float]) -> None:
    rows = rows_of(plot(range(len(values)), values, height=9))
    assert [index for index, row in enumerate(rows) if row.strip(EMPTY)] == [4]


def test_the_whole_range_of_floats_can_be_drawn() -> None:
    rows = rows_of(plot([1, 2], [-1.7e308, 1.7e308], height=4))
    assert rows[0].strip(EMPTY)
    assert rows[-1].strip(EMPTY)


def test_nothing_to_draw_is_said() -> None:
    assert plot([], [], title="loss") == "loss\nThere is nothing to draw."
    assert plot([1], [float("nan")]) == "Not drawn: 1 NaN of 1 values."


def test_several_curves_have_one_pair_of_axes_and_a_letter_each() -> None:
    falling, flat = ([0, 10], [4.0, 0.0]), ([5, 10], [2.0, 2.0])
    text = plot_together({"./falls": falling, "./flat": flat}, width=40, height=9, title="loss")
    lines, rows = text.splitlines(), rows_of(text)
    assert lines[0] == "loss"
    assert lines[-2:] == ["a ./falls", "b ./flat"]
    assert lines[-3].split() == ["0", "step", "10"]
    assert (rows[0][0], rows[-1][-1]) == ("a", "a")
    (level,) = [row for row in rows if "b" in row]
    assert rows.index(level) == 4
    assert level.index("b") == pytest.approx(len(rows[-1]) / 2, abs=1)
    assert all(len(line) <= 40 for line in lines)


def test_of_several_curves_each_tells_what_is_not_drawn() -> None:
    text = plot_together({"x": ([1, 2], [1.0, float("nan")]), "y": ([], []), "z": ([1], [float("inf")])})
    assert text.splitlines()[-3:] == [
        "a x  Not drawn: 1 NaN of 2 values.",
        "b y  There is nothing to draw.",
        "c z  Not drawn: 1 infinite of 1 values.",
    ]
    assert plot_together({"x": ([], []), "y": ([], [])}).splitlines()[0] == "a x  There is nothing to draw."
