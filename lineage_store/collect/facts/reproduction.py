"""Collect what is needed to reproduce a training: its environment, and the parameters of its optimizer.

In: run arguments and an `Attempts`. Out: user-defined values, flat. An optimizer's parameters are the arguments of its
constructor: `init_args` for most in `mindspore.nn`, `defaults` in `mindspore.mint` and `mindspore.experimental`, for
others the attributes with the arguments' names.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from mindspore import Parameter, Tensor

from lineage_store.collect.attempts import Attempts
from lineage_store.collect.custom_values import UserValues, recordable
from lineage_store.collect.environment import collect_environment
from lineage_store.collect.facts.run import RunArguments, optimizer_of

_PLAIN = (str, bool, int, float)
_LIST_LENGTH = 16
"""Longer lists are not taken for parameters."""


def reproduction_of(run: RunArguments, attempts: Attempts) -> UserValues:
    """Return the result of `collect_environment`, with the parameters of the training's optimizer."""
    optimizer = attempts.ask("the optimizer", optimizer_of, run)
    parameters = attempts.ask("the optimizer's parameters", parameters_of, optimizer) or {}
    return recordable("collect_environment", collect_environment() | {"optimizer": parameters})


def parameters_of(optimizer: Any) -> dict[str, Any]:
    """Return the constructor arguments of an optimizer, such as weight decay, without the learning rate."""
    named = getattr(optimizer, "init_args", None) or getattr(optimizer, "defaults", None)
    if named is None:
        arguments = inspect.signature(type(optimizer)).parameters
        named = {name: getattr(optimizer, name) for name in arguments if hasattr(optimizer, name)}
    return {name: value for name, value in _plain(named) if name not in ("lr", "learning_rate")}


def _plain(named: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in named.items():
        if isinstance(value, Tensor | Parameter):
            # Through text, to get the shortest decimal, such as 0.8 instead of 0.800000011920929.
            value = float(str(value.asnumpy().reshape(-1)[0])) if value.size == 1 else None
        items = value if isinstance(value, list | tuple) and len(value) <= _LIST_LENGTH else [value]
        if all(isinstance(item, _PLAIN) for item in items):
            yield name, value
