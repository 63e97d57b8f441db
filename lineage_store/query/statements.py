"""Statements as a driver takes them: text and parameters, made once and run as often as the question is asked.

In: an open connection and a `Select` that the compiler keeps. Out: the rows as the driver reads them, which is all that
integers, floats and text need. Promises: what runs is what SQLAlchemy would run, by the same connection, in the same
transaction. Why: SQLAlchemy takes longer to look up and bind a statement than a database to find a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, CursorResult, Dialect, Select
from sqlalchemy.sql.compiler import SQLCompiler

_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Statement:
    """What a driver is given."""

    text: str
    values: Mapping[str, Any]
    """Of its parameters, by name."""
    places: Sequence[str] | None
    """Names of the parameters in order, where the text has only places for them."""

    def arguments(self, given: Mapping[str, Any]) -> Mapping[str, Any] | tuple[Any, ...]:
        """The values as the driver takes them, some of them `given` anew."""
        values = {**self.values, **given}
        return values if self.places is None else tuple([values[name] for name in self.places])


def run(connection: Connection, select: Select[Any], **given: object) -> CursorResult[Any]:
    """The rows; `given` are values of parameters by name."""
    statement = statement_of(select, connection.dialect)
    return connection.exec_driver_sql(statement.text, statement.arguments(given))


@lru_cache(_REMEMBERED)
def statement_of(select: Select[Any], dialect: Dialect) -> Statement:
    """The statement for a kind of database; lists of values are written out."""
    compiled = select.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(compiled, SQLCompiler)
    return Statement(str(compiled), compiled.params, compiled.positiontup)
