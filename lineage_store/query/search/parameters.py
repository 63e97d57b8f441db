"""Values of a condition become parameters, so that conditions of the same shape share their statements.

In: a value from an operator's reader. Out: the value with a `Parameter` in place of each number and text, and the
parameters' values by name. Promises: parameter names contain no text of the caller. Not replaced, and so part of the
shape: flags, NaN, kinds that are not finite, whether a value is missing or long, and lists of more than `_MOST` values.
Does not know SQL.
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
        """Return the value with parameters in place of numbers and texts, and keep these in `values`."""
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
        # names of metrics and user-defined values come from the caller
        name = f"v{len(self.values) + 1}_{subject.type if subject.type in NAMED else subject.name}"
        self.values[name] = value
        is_long = isinstance(value, str) and len(value) >= INDEXED_CHARACTERS
        return Parameter(name, not isinstance(value, str), is_long)
