"""Values leave a condition and become parameters, so that questions of one shape share their statements.

In: what an operator's reader made of a value. Out: the same with a `Parameter` in the place of each number and text,
and their values by name. Promises: no name holds anything of the caller's. What is not lifted is part of the shape:
flags, NaN, which values are not finite, missing or long, and lists of more than `_MOST`. Does not know SQL.
"""

from __future__ import annotations

import math

from lineage_store.query.search.literals import Choices, Number, Parameter
from lineage_store.query.search.operators import Value
from lineage_store.query.search.tree import NAMED, Subject
from lineage_store.store.database.types import INDEXED_CHARACTERS

_MOST = 64


class Parameters:
    """The parameters of one condition."""

    def __init__(self) -> None:
        self.values: dict[str, Number | str] = {}

    def lift(self, value: Value, subject: Subject) -> Value:
        """The value with parameters in it."""
        match value:
            case bool() | None | Parameter():
                return value
            case Choices():
                return self._choices(value, subject)
            case float() if math.isnan(value):
                return None
        return self._parameter(value, subject)

    def _choices(self, choices: Choices, subject: Subject) -> Choices:
        if choices.count > _MOST:
            return choices
        numbers, strings, documents = (
            tuple(self._parameter(value, subject) for value in values)
            for values in (choices.numbers, choices.texts, choices.documents)
        )
        return Choices(numbers, strings, documents, choices.kinds, choices.missing)

    def _parameter(self, value: Number | str | Parameter, subject: Subject) -> Parameter:
        if isinstance(value, Parameter):
            return value
        # the names of others are the caller's
        name = f"v{len(self.values) + 1}_{subject.type if subject.type in NAMED else subject.name}"
        self.values[name] = value
        is_long = isinstance(value, str) and len(value) >= INDEXED_CHARACTERS
        return Parameter(name, not isinstance(value, str), is_long)
