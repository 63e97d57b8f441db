"""The learning rates of an optimizer, at its start and at any step.

In: an optimizer of `mindspore.nn`, `mindspore.mint` or `mindspore.experimental`. Out: one float per parameter group.
A rate is a parameter (fixed, or set from outside between steps), or a schedule: a cell that MindSpore makes of a list
and of a one-dimensional tensor, or that the user gave. Promises: a schedule is asked, not guessed at, with the same
argument that the optimizer gives it; the optimizer stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, nn


def initial(optimizer: Any) -> float | None:
    """The rate that training starts with; with several groups, the first one's.

    A rate that is a parameter is taken as it is now: only schedules remember where they began.
    """
    groups = getattr(optimizer, "param_groups", None)
    if groups:
        return _number(groups[0].get("initial_lr", groups[0]["lr"]))
    rates = at_step(optimizer, 1)
    return rates[0] if rates else None


def at_step(optimizer: Any, step: int) -> list[float]:
    """The rate of each group in the step of that number, counted from 1."""
    groups = getattr(optimizer, "param_groups", None)
    if groups:
        return [_number(group["lr"]) for group in groups]
    rates = optimizer.learning_rate
    if not isinstance(rates, tuple | nn.CellList):
        return [_rate(rates, step)]
    # One for each parameter, the same object for all of a group.
    return [_rate(rate, step) for rate in {id(rate): rate for rate in rates}.values()]


def _rate(rate: Any, step: int) -> float:
    # A fixed rate beside groups with schedules; its own cell would answer with a rounding error.
    if type(rate).__name__ == "_ConvertToCell":
        rate = rate.learning_rate
    if isinstance(rate, nn.Cell):
        # The optimizer's counter of finished steps, one int32 in a list: what a schedule is asked with.
        rate = rate(Tensor(np.array([step - 1], np.int32)))
    return _number(rate)


def _number(value: Any) -> float:
    return float(np.ravel(value.asnumpy() if hasattr(value, "asnumpy") else value)[0])
