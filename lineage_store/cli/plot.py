"""Draws curves as text: one curve in braille dots, 4 x 2 to a character; several curves by one letter each. Pure.

In: steps and values as arrays. Out: lines of text, with the ends of both axes.
Promises: the extremes of a long curve stay visible, because each column is drawn from its least to its greatest value.
Several curves share their axes. NaN and infinite values are not drawn, but counted below the plot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase

import numpy as np
from numpy.typing import ArrayLike, NDArray

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
LETTERS = ascii_lowercase + ascii_uppercase
"""One for each curve: the number of letters is the most curves in a plot."""
_BRAILLE = 0x2800
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot of a character, by row and column."""


def plot(steps: ArrayLike, values: ArrayLike, *, width: int = 72, height: int = 12, title: str = "") -> str:
    """Draw values over steps.

    Args:
        steps: [n], ascending. values: [n], NaN and infinities allowed.
        width, height: size of the plot in characters; the height does not include the title and the line of steps.
    """
    curve, told = _drawn(steps, values)
    lines = [title] if title else []
    if len(curve[0]):
        lines += _with_axes([curve], width, height)
    return "\n".join([*lines, *([told] if told else [])])


def plot_together(
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]], *, width: int = 72, height: int = 12, title: str = ""
) -> str:
    """Draw several curves on the same axes, one letter each, with a legend below; later curves cover earlier ones."""
    drawn = [_drawn(*curve) for curve in curves.values()]
    lines = [title] if title else []
    if any(len(steps) for (steps, _), _ in drawn):
        lines += _with_axes([curve for curve, _ in drawn], width, height)
    for letter, name, (_, told) in zip(LETTERS, curves, drawn, strict=False):
        lines.append(f"{letter} {name}{'  ' if told else ''}{told}")
    return "\n".join(lines)


def _drawn(steps: ArrayLike, values: ArrayLike) -> tuple[Curve, str]:
    """Return the finite part of a curve, and a sentence that counts the other values or says that there is none."""
    x, y = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    left_out = [(int(np.isnan(y).sum()), "NaN"), (int(np.isinf(y).sum()), "infinite")]
    counts = [f"{count} {word}" for count, word in left_out if count]
    told = f"Not drawn: {', '.join(counts)} of {len(y)} values." if counts else ""
    finite = np.isfinite(y)
    return (x[finite], y[finite]), told if len(y) else "There is nothing to draw."


def _with_axes(curves: Sequence[Curve], width: int, height: int) -> list[str]:
    x, y = (np.concatenate(column) for column in zip(*curves, strict=True))
    top, bottom = f"{y.max():.4g}", f"{y.min():.4g}"
    margin = max(len(top), len(bottom))
    columns = max(width - margin - 2, 8)
    labels = [top, *[""] * (height - 2), bottom]
    if len(curves) == 1:
        rows = _characters(_dots(_shares(x, x), _shares(y, y), columns * 2, height * 4))
    else:
        rows = _letters([(_shares(each, x), _shares(other, y)) for each, other in curves], columns, height)
    lines = [f"{label:>{margin}} ┤{row}" for label, row in zip(labels, rows, strict=True)]
    first, last = f"{x.min():.0f}", f"{x.max():.0f}"
    return [*lines, f"{'':>{margin}}  {first}{'step ' + last:>{columns - len(first)}}"]


def _letters(curves: Sequence[Curve], columns: int, height: int) -> list[str]:
    """Return rows of characters; each has the letter of the last curve that passes there."""
    found = np.full((height, columns), " ")
    for letter, (across, up) in zip(LETTERS, curves, strict=False):
        found[_dots(across, up, columns, height)] = letter
    return ["".join(row).rstrip() for row in found]


def _dots(across: NDArray[np.float64], up: NDArray[np.float64], columns: int, rows: int) -> NDArray[np.bool_]:
    """Return which dots a curve sets, [rows, columns], row 0 at the top; `across` and `up` are shares of the axes."""
    if not len(across):
        return np.zeros((rows, columns), bool)
    # A column without a value is crossed by the line between its neighbours.
    own = _places(across, columns)
    passed = np.arange(own.min(), own.max() + 1)
    between = np.interp(passed / (columns - 1), across, up)
    column = np.concatenate([own, passed])
    row = rows - 1 - _places(np.concatenate([up, between]), rows)
    least, greatest = np.full(columns, rows), np.full(columns, -1)
    np.minimum.at(least, column, row)
    np.maximum.at(greatest, column, row)
    for index in passed[1:]:  # close the gaps where the curve is steep, so that it is one line
        if least[index] > greatest[index - 1] + 1:
            least[index] = greatest[index - 1] + 1
        elif greatest[index] < least[index - 1] - 1:
            greatest[index] = least[index - 1] - 1
    place = np.arange(rows)[:, None]
    drawn: NDArray[np.bool_] = (place >= least) & (place <= greatest)
    return drawn


def _shares(values: NDArray[np.float64], among: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale values so that the least of `among` is 0 and the greatest 1; one half if all are equal."""
    scale = max(np.abs(among).max(), np.finfo(np.float64).smallest_subnormal)
    low, high = among.min() / scale, among.max() / scale
    return np.full(len(values), 0.5) if low == high else (values / scale - low) / (high - low)


def _places(shares: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.asarray(np.rint(shares * (count - 1)), np.int64)


def _characters(dots: NDArray[np.bool_]) -> list[str]:
    rows, columns = dots.shape
    cells = dots.reshape(rows // 4, 4, columns // 2, 2)
    codes = _BRAILLE + np.einsum("arbc,rc->ab", cells, _DOTS)
    return ["".join(map(chr, row)) for row in codes]
