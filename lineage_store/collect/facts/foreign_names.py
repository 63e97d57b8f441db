"""Find what a cell's code uses outside the cell, which a copy of the cell would share and running it might change.

In: a cell of the user's. Out: names. Promises: code is read, never run; a name is reported unless it is known to have
no side effect. Constants, functions and classes of MindSpore and numpy, and modules that only compute are not
reported; the user's functions are searched in turn. `random` of Python or numpy is always reported: a dataset's
threads draw from the same generators meanwhile, so that their state could not be restored.
"""

from __future__ import annotations

import builtins
import dis
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from mindspore import nn, ops
from mindspore._c_expression.typing import Type

_COMPUTING = ("mindspore", "numpy", "math")
_CONSTANTS = (bool, int, float, str, type(None), Type, ops.Primitive)
_REFUSED = frozenset(
    {"random", "type", "__class__", "__dict__", "setattr", "globals", "open", "exec", "eval", "next"}
)
"""Builtins and attributes with which code can reach or change objects outside the cell."""


def reaches_for(cell: nn.Cell) -> Iterator[str]:
    """Yield the names in the code of a cell and of its inner cells that refer to something outside of them."""
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
