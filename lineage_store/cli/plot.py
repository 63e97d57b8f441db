"""A curve as text: braille dots, four to a character's height and two to its width.

In: steps and values as arrays. Out: lines of text with both axes' ends. Pure.
Promises: the extremes of a long curve stay visible (each column draws its least to its greatest value); what is NaN or
infinite is not drawn, and counted below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_BRAILLE = 0x2800
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""Bit of each dot of a character, by row and column."""


def plot(steps: ArrayLike, values: ArrayLike, *, width: int = 72, height: int = 12, title: str = "") -> str:
    """Draw values over steps.

    Args:
        steps: [n], ascending. values: [n], NaN and infinities allowed.
        width, height: of the whole plot, in characters; the title and the line of steps come in addition.
    """
    x, y = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    drawn = np.isfinite(y)
    lines = [title] if title else []
    if drawn.any():
        lines += _with_axes(x[drawn], y[drawn], width, height)
    left_out = [(int(np.isnan(y).sum()), "NaN"), (int(np.isinf(y).sum()), "infinite")]
    counts = [f"{count} {word}" for count, word in left_out if count]
    if counts:
        lines.append(f"Not drawn: {', '.join(counts)} of {len(y)} values.")
    elif not drawn.any():
        lines.append("There is nothing to draw.")
    return "\n".join(lines)


def _with_axes(x: NDArray[np.float64], y: NDArray[np.float64], width: int, height: int) -> list[str]:
    top, bottom = f"{y.max():.4g}", f"{y.min():.4g}"
    margin = max(len(top), len(bottom))
    columns = max(width - margin - 2, 8)
    labels = [top, *[""] * (height - 2), bottom]
    rows = _characters(_dots(x, y, columns * 2, height * 4))
    lines = [f"{label:>{margin}} ┤{row}" for label, row in zip(labels, rows, strict=True)]
    first, last = f"{x[0]:.0f}", f"{x[-1]:.0f}"
    return [*lines, f"{'':>{margin}}  {first}{'step ' + last:>{columns - len(first)}}"]


def _dots(x: NDArray[np.float64], y: NDArray[np.float64], columns: int, rows: int) -> NDArray[np.bool_]:
    """Which dots are set, [rows, columns], row 0 at the top."""
    across, up = _shares(x), _shares(y)
    # Where a column has no value of its own, the line between its neighbours passes.
    between = np.interp(np.linspace(0, 1, columns), across, up)
    column = np.concatenate([_places(across, columns), np.arange(columns)])
    row = rows - 1 - _places(np.concatenate([up, between]), rows)
    least, greatest = np.full(columns, rows), np.full(columns, -1)
    np.minimum.at(least, column, row)
    np.maximum.at(greatest, column, row)
    for index in range(1, columns):  # close the gaps of steep places, so that the curve is one line
        if least[index] > greatest[index - 1] + 1:
            least[index] = greatest[index - 1] + 1
        elif greatest[index] < least[index - 1] - 1:
            greatest[index] = least[index - 1] - 1
    place = np.arange(rows)[:, None]
    drawn: NDArray[np.bool_] = (place >= least) & (place <= greatest)
    return drawn


def _shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where each value stands between the least (0) and the greatest (1); one half when all are equal."""
    scaled = values / max(np.abs(values).max(), np.finfo(np.float64).smallest_subnormal)
    low, high = scaled.min(), scaled.max()
    return np.full(len(values), 0.5) if low == high else (scaled - low) / (high - low)


def _places(shares: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.asarray(np.rint(shares * (count - 1)), np.int64)


def _characters(dots: NDArray[np.bool_]) -> list[str]:
    rows, columns = dots.shape
    cells = dots.reshape(rows // 4, 4, columns // 2, 2)
    codes = _BRAILLE + np.einsum("arbc,rc->ab", cells, _DOTS)
    return ["".join(map(chr, row)) for row in codes]
