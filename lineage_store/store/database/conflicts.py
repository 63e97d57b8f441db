"""Questions that a standby ended, because it had to replay what they were reading: they are asked once more.

In: a question, or a class of them. Out: the same, which is asked again where the standby ended it. Promises: once, and
for no other failure; the second time sees a state of its own. A question that is part of another is not asked again by
itself: its transaction may be that of the whole. Does not know what is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from typing import ParamSpec, TypeVar

from lineage_store.errors import DatabaseUnavailableError

CONFLICT = "conflict"
"""The cause of the error."""
P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)
_IS_PART: ContextVar[bool] = ContextVar("is_part", default=False)


def asked_again(question: Callable[P, T]) -> Callable[P, T]:
    """Let a question be asked once more where a standby ended it."""

    @wraps(question)
    def ask(*arguments: P.args, **named: P.kwargs) -> T:
        if _IS_PART.get():
            return question(*arguments, **named)
        whole = _IS_PART.set(True)
        try:
            return question(*arguments, **named)
        except DatabaseUnavailableError as error:
            if error.cause != CONFLICT:
                raise
            return question(*arguments, **named)
        finally:
            _IS_PART.reset(whole)

    return ask


def all_asked_again(room: C) -> C:
    """Let the public methods of a class be asked again, but for those that answer bit by bit."""
    for name, method in list(vars(room).items()):
        bit_by_bit = isgeneratorfunction(method) or hasattr(method, "__wrapped__")
        if isfunction(method) and not name.startswith("_") and not bit_by_bit:
            setattr(room, name, asked_again(method))
    return room
