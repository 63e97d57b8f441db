"""Pages of a list: LIMIT and OFFSET for a statement that has an order.

In: a limit and a page number, or another count, as callers give them. Out: the page's statement, or an error that says
what is valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Select

from lineage_store.errors import LineageParamTypeError, LineageParamValueError
from lineage_store.texts import shown

S = TypeVar("S", bound=Select[Any])

_MOST_ROWS = 1 << 48


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list. Raises LineageParamTypeError and LineageParamValueError if there can be no such page."""

    limit: int | None = None
    """Rows per page; None: all rows are one page."""
    number: int = 0
    """From 0."""

    def __post_init__(self) -> None:
        check_count("limit", 1 if self.limit is None else self.limit)
        check_count("page", self.number, least=0)
        if self.limit is None and self.number:
            raise LineageParamValueError(f"There is no page {self.number} without a limit: all is one page.")
        if (self.limit or 0) * self.number > _MOST_ROWS:
            raise LineageParamValueError(f"Page {self.number} of {self.limit} rows is beyond any list.")

    def of(self, query: S) -> S:
        """Return the statement for this page of `query`, whose ORDER BY must be a total order."""
        if self.limit is None:
            return query
        return query.limit(self.limit).offset(self.limit * self.number)


def check_count(name: str, value: object, *, least: int = 1, most: int = _MOST_ROWS) -> None:
    """Raise LineageParamTypeError or LineageParamValueError unless a parameter is an int within these bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise LineageParamTypeError(f"{name} = {shown(value)} must be a whole number from {least} to {most}.")
    if not least <= value <= most:
        raise LineageParamValueError(f"{name} = {shown(value)} must be from {least} to {most}.")


ALL = Page()
