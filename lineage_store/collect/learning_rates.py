"""The learning rates of an optimizer: the initial ones, and those of its last step.

In: an optimizer of `mindspore.nn`, `mindspore.mint` or `mindspore.experimental`. Out: one float per parameter group.
A rate is a parameter (fixed, or set from outside between steps), a list, or a schedule: a cell that MindSpore or the
user wrote. Promises: the training is not affected. A copy of the schedule is compiled and run with the same argument
as the optimizer's, and the state of MindSpore's random generators is restored. A schedule whose result depends on
more than the step (it keeps state or draws random numbers), or that uses objects outside of itself, which a copy would
share and running it might change, raises LineageLogError. Which it uses is read in its code, never by running it, and
a name counts unless it is known to have no side effect.
"""

from __future__ import annotations

import builtins
import copy
import dis
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from mindspore import Tensor, get_rng_state, nn, ops, set_rng_state
from mindspore._c_expression.typing import Type
from mindspore.common.seed import _KERNEL_SEED

from lineage_store.errors import LineageLogError

_MOST_COPIED = 2**20
"""Maximum number of elements in the parameters of a schedule; one with more contains a network."""
_COMPUTING = ("mindspore", "numpy", "math")
_CONSTANTS = (bool, int, float, str, type(None), Type, ops.Primitive)
_REFUSED = frozenset(
    {"random", "type", "__class__", "__dict__", "setattr", "globals", "open", "exec", "eval", "next"}
)
"""Builtins and attributes with which code can reach or change objects outside the cell."""


class LearningRates:
    """The rates of one optimizer, with the copies of its schedules."""

    def __init__(self, optimizer: Any) -> None:
        while isinstance(optimizer, nn.LARS):  # its own rate is a placeholder
            optimizer = optimizer.opt
        self._optimizer = optimizer
        self._groups = getattr(optimizer, "param_groups", None)
        self._copies: dict[int, nn.Cell] = {}

    def initial(self) -> float | None:
        """Return the initial rate; with several groups, the first group's.

        For a rate that is a parameter, return its present value: only lists and schedules know their initial one.
        """
        if self._groups:
            return _number(self._groups[0].get("initial_lr", self._groups[0]["lr"]))
        rates = self._at(0)
        return rates[0] if rates else None

    def last(self) -> list[float]:
        """Return the rate of each group in the optimizer's last step; before the first step, the rate of that."""
        if self._groups:
            return [_number(group["lr"]) for group in self._groups]
        return self._at(max(0, int(_number(self._optimizer.global_step)) - 1))

    def _at(self, step: int) -> list[float]:
        """Return the rate of each group after `step` steps."""
        rates = self._optimizer.learning_rate
        if not isinstance(rates, tuple | nn.CellList):
            return [self._rate(rates, step)]
        # There is one rate per parameter; all parameters of a group have the same object.
        return [self._rate(rate, step) for rate in {id(rate): rate for rate in rates}.values()]

    def _rate(self, rate: Any, step: int) -> float:
        kind = type(rate).__name__
        if kind == "_ConvertToCell":  # a fixed rate beside groups with schedules
            return _number(rate.learning_rate)
        if kind == "_IteratorLearningRate":  # a list
            return float(rate.learning_rate.asnumpy()[step])
        return self._asked(rate, step) if isinstance(rate, nn.Cell) else _number(rate)

    def _asked(self, schedule: nn.Cell, step: int) -> float:
        # A schedule's argument is the optimizer's counter of finished steps, an int32 of shape (1,).
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
                f"The schedule {type(schedule).__name__} has state or draws random numbers: its rates are not recorded."
            )
        return float(answers.pop())

    def _copy_of(self, schedule: nn.Cell) -> nn.Cell:
        """Return the copy of a schedule, with the present values of its parameters."""
        if foreign := next(reaches_for(schedule), None):
            name = type(schedule).__name__
            raise LineageLogError(
                f"The schedule {name} reaches for {foreign}, which is not its own: its rates are not recorded."
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


def reaches_for(cell: nn.Cell) -> Iterator[str]:
    """Yield the names in the code of a cell and of its inner cells that refer to something outside of them.

    Not constants, functions and classes of MindSpore and numpy, nor modules that only compute; the user's functions are
    searched in turn. `random` of Python or numpy always is: a dataset's threads draw from the same generators
    meanwhile, so that their state could not be restored.
    """
    for _, each in cell.cells_and_names():
        if not _is_computing(type(each)):
            yield from _of_function(type(each).construct, each, set())


def _of_function(function: Callable[..., Any], cell: nn.Cell, seen: set[CodeType]) -> Iterator[str]:
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType):
        yield repr(function)
    elif function.__code__ not in seen:
        seen.add(function.__code__)
        closed_over = inspect.getclosurevars(function).nonlocals
        for name, is_attribute in _names(function.__code__):
            if name in _REFUSED:
                yield name
            elif not is_attribute:
                found = function.__globals__.get(name, getattr(builtins, name, None))
                yield from _of_value(name, found, cell, seen)
            elif callable(own := getattr(cell, name, None)) and not isinstance(own, nn.Cell):
                yield from _of_value(name, own, cell, seen)
        for name, value in closed_over.items():
            yield from _of_value(name, value, cell, seen)


def _of_value(name: str, value: object, cell: nn.Cell, seen: set[CodeType]) -> Iterator[str]:
    if isinstance(value, MethodType) and value.__self__ is cell:
        value = value.__func__
    if isinstance(value, FunctionType) and not _is_computing(value):
        yield from _of_function(value, cell, seen)
    elif not (isinstance(value, _CONSTANTS) or _is_computing(value)):
        yield name


def _is_computing(value: object) -> bool:
    """Return whether `value` is a module of MindSpore, numpy or math, or a function or class of those or a builtin."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in _COMPUTING
    if not (isinstance(value, type) or inspect.isroutine(value)):
        return False
    return str(value.__module__).partition(".")[0] in (*_COMPUTING, "builtins")


def _names(code: CodeType) -> Iterator[tuple[str, bool]]:
    """Yield (name, whether it is an attribute) of the globals and attributes that code and its inner functions use."""
    for each in dis.get_instructions(code):
        if each.opname.endswith(("_GLOBAL", "_ATTR", "_METHOD", "_NAME")):
            yield str(each.argval), each.opname.endswith(("_ATTR", "_METHOD"))
        elif each.opname.startswith("IMPORT"):
            yield "random", True
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
