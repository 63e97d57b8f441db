"""The learning rates of an optimizer: what they began with, and what its last step took.

In: an optimizer of `mindspore.nn`, `mindspore.mint` or `mindspore.experimental`. Out: one float per parameter group.
A rate is a parameter (fixed, or set from outside between steps), a list, or a schedule: a cell that MindSpore or the
user wrote. Promises: the training goes on as if nobody had asked. A schedule is not guessed at but compiled and run, on
a copy and with the argument that the optimizer gives it; MindSpore's generators of random numbers are put back. One
whose answer depends on more than the step (it keeps state or draws random numbers), or that reaches for what is not
its own and so not copied with it, raises LineageLogError.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from mindspore import Tensor, get_rng_state, nn, set_rng_state
from mindspore.common.seed import _KERNEL_SEED

from lineage_store.collect.facts.foreign_names import reaches_for
from lineage_store.errors import LineageLogError

_MOST_COPIED = 2**20
"""Elements in the parameters of a schedule; one with more holds a network."""


class LearningRates:
    """The rates of one optimizer, with the copies of its schedules."""

    def __init__(self, optimizer: Any) -> None:
        while isinstance(optimizer, nn.LARS):  # whose own rate is a placeholder
            optimizer = optimizer.opt
        self._optimizer = optimizer
        self._groups = getattr(optimizer, "param_groups", None)
        self._copies: dict[int, nn.Cell] = {}

    def initial(self) -> float | None:
        """The rate that training starts with; with several groups, the first one's.

        A rate that is a parameter is taken as it is now: only lists and schedules remember where they began.
        """
        if self._groups:
            return _number(self._groups[0].get("initial_lr", self._groups[0]["lr"]))
        rates = self._at(0)
        return rates[0] if rates else None

    def last(self) -> list[float]:
        """The rate of each group in the last step of the optimizer, before the first one in that one."""
        if self._groups:
            return [_number(group["lr"]) for group in self._groups]
        return self._at(max(0, int(_number(self._optimizer.global_step)) - 1))

    def _at(self, step: int) -> list[float]:
        """The rate of each group after so many steps."""
        rates = self._optimizer.learning_rate
        if not isinstance(rates, tuple | nn.CellList):
            return [self._rate(rates, step)]
        # One for each parameter, the same object for all of a group.
        return [self._rate(rate, step) for rate in {id(rate): rate for rate in rates}.values()]

    def _rate(self, rate: Any, step: int) -> float:
        kind = type(rate).__name__
        if kind == "_ConvertToCell":  # a fixed rate beside groups with schedules
            return _number(rate.learning_rate)
        if kind == "_IteratorLearningRate":  # a list
            return float(rate.learning_rate.asnumpy()[step])
        return self._asked(rate, step) if isinstance(rate, nn.Cell) else _number(rate)

    def _asked(self, schedule: nn.Cell, step: int) -> float:
        # The optimizer's counter of finished steps, one int32 in a list: what a schedule is asked with.
        counter = Tensor(np.array([step], np.int32))
        kernels, default = dict(_KERNEL_SEED), get_rng_state()
        try:
            asked = self._copy_of(schedule)
            answers = {repr(_number(asked.compile_and_run(counter))) for _ in range(2)}
        finally:
            _KERNEL_SEED.clear()
            _KERNEL_SEED.update(kernels)
            set_rng_state(default)
        if len(answers) > 1 or _contents(asked) != _contents(schedule):
            raise LineageLogError(
                f"The schedule {type(schedule).__name__} keeps state or draws random numbers: its rates are not told."
            )
        return float(answers.pop())

    def _copy_of(self, schedule: nn.Cell) -> nn.Cell:
        """The copy, whose parameters are as the schedule's are now."""
        if foreign := next(reaches_for(schedule), None):
            name = type(schedule).__name__
            raise LineageLogError(
                f"The schedule {name} reaches for {foreign}, which is not its own: its rates are not told."
            )
        if sum(each.size for each in schedule.get_parameters()) > _MOST_COPIED:
            raise LineageLogError(f"The schedule {type(schedule).__name__} holds too much to be copied.")
        if id(schedule) not in self._copies:
            self._copies[id(schedule)] = copy.deepcopy(schedule)
        copied = self._copies[id(schedule)]
        for ours, theirs in zip(copied.get_parameters(), schedule.get_parameters(), strict=True):
            ours.set_data(Tensor(theirs.asnumpy()))
        return copied


def _contents(cell: nn.Cell) -> list[bytes]:
    return [each.asnumpy().tobytes() for each in cell.get_parameters()]


def _number(value: Any) -> float:
    return float(np.ravel(value.asnumpy() if hasattr(value, "asnumpy") else value)[0])
