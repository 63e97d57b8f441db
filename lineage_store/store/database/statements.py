"""Statements as a driver takes them: text and parameters, made once and run as often as the question is asked.

In: an open connection and a `Select` that the compiler keeps. Out: the rows as the driver reads them, which is all that
integers, floats and text need. Promises: what runs is what SQLAlchemy would run, by the same connection, in the same
transaction, and fails with the same errors; SQLAlchemy's events do not tell of it. Why: SQLAlchemy takes longer to bind
a statement and to describe its rows than a database to find a page: 1.4 to 1.7x of it all (page-*-sqlite-100k).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Select
from sqlalchemy.exc import DBAPIError
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


def run(connection: Connection, select: Select[Any], **given: object) -> list[tuple[Any, ...]]:
    """The rows; `given` are values of parameters by name."""
    statement, failure = statement_of(select, connection.dialect), connection.dialect.loaded_dbapi.Error
    cursor: Any = connection.connection.cursor()
    try:
        cursor.execute(statement.text, statement.arguments(given))
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    except failure as error:
        if connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor):
            connection.invalidate(error)  # else the transaction's end would fail too, and hide why
        raise DBAPIError.instance(statement.text, None, error, failure, dialect=connection.dialect) from error
    cursor.close()
    return rows


def execute_as_written(connection: Connection, statement: str) -> None:
    """Execute a statement in which names of others stand: a % in one is no place for a parameter."""
    connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def statement_of(select: Select[Any], dialect: Dialect) -> Statement:
    """The statement for a kind of database; lists of values are written out."""
    return _statement_of(select, of_kind(dialect))


def of_kind(dialect: Dialect) -> Dialect:
    """The same dialect for all engines of a kind: what was compiled for one serves all, and keeps none of them."""
    return _OF_KIND.setdefault(dialect.name, dialect)


_OF_KIND: dict[str, Dialect] = {}


@lru_cache(_REMEMBERED)
def _statement_of(select: Select[Any], dialect: Dialect) -> Statement:
    compiled = select.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(compiled, SQLCompiler)
    return Statement(str(compiled), compiled.params, compiled.positiontup)
