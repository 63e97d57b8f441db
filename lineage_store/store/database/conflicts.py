"""Retry a question that a standby has ended because it had to replay changes to the rows that the question read.

In: a function, or a class of methods. Out: the same with a retry. Promises: one retry, for no other failure; the retry
starts anew, in a snapshot of its own. A question that is part of another question is not retried by itself, because it
may run in the transaction of the whole. Does not know the questions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import isfunction, isgeneratorfunction
from typing import ParamSpec, TypeVar

from lineage_store.errors import DatabaseUnavailableError

CONFLICT = "conflict"
"""The cause in the `DatabaseUnavailableError` of a question that a standby has ended."""
P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)
_IS_PART: ContextVar[bool] = ContextVar("is_part", default=False)


def asked_again(question: Callable[P, T]) -> Callable[P, T]:
    """Retry a question once if a standby has ended it."""

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
    """Retry the public methods of a class, except those whose answer is produced bit by bit."""
    for name, method in list(vars(room).items()):
        bit_by_bit = isgeneratorfunction(method) or hasattr(method, "__wrapped__")
        if isfunction(method) and not name.startswith("_") and not bit_by_bit:
            setattr(room, name, asked_again(method))
    return room
