"""Statements that are compiled once and then run by the driver itself, without SQLAlchemy's execution.

In: an open connection and a `Select`; pass the same object each time, because compiled statements are cached by it.
Out: the driver's rows: integers, floats and text need no further conversion. Promises: the statement is the one that
SQLAlchemy would run, on the same connection, in the same transaction, with the same errors; SQLAlchemy's events are not
sent. Why: with SQLAlchemy's execution a page takes 1.4 to 1.7x as long (page-*-sqlite-100k), because binding a
statement and describing its rows takes longer than finding them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, Select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class Statement:
    """The text and the parameters of a compiled statement, as a driver takes them."""

    text: str
    values: Mapping[str, Any]
    """The values of the parameters, by name."""
    places: Sequence[str] | None
    """The names of the parameters in order, if the text has only `?` for them; else None."""

    def arguments(self, given: Mapping[str, Any]) -> Mapping[str, Any] | tuple[Any, ...]:
        """Return the values as the driver takes them, with those in `given` in place of the statement's own."""
        values = {**self.values, **given}
        return values if self.places is None else tuple([values[name] for name in self.places])


def run(connection: Connection, select: Select[Any], **given: object) -> list[tuple[Any, ...]]:
    """Return the rows of a SELECT; `given` are values of parameters by name. Raises SQLAlchemy's DBAPIError."""
    statement, failure = statement_of(select, connection.dialect), connection.dialect.loaded_dbapi.Error
    cursor: Any = connection.connection.cursor()
    try:
        cursor.execute(statement.text, statement.arguments(given))
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    except failure as error:
        if connection.dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor):
            connection.invalidate(error)  # else the end of the transaction would fail too, and hide the cause
        raise DBAPIError.instance(statement.text, None, error, failure, dialect=connection.dialect) from error
    cursor.close()
    return rows


@contextmanager
def driver_errors(dialect: Dialect, statement: str | None = None) -> Iterator[None]:
    """Raise SQLAlchemy's errors instead of the driver's own."""
    failure = dialect.loaded_dbapi.Error
    try:
        yield
    except failure as error:
        raise DBAPIError.instance(statement, None, error, failure, dialect=dialect) from error


def execute_as_written(connection: Connection, statement: str) -> None:
    """Execute a statement without parameters, whose names may contain a %."""
    connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def statement_of(select: Select[Any], dialect: Dialect) -> Statement:
    """Return a SELECT compiled for the kind of database; each list of values gets a parameter per value."""
    return _statement_of(select, of_kind(dialect))


def of_kind(dialect: Dialect) -> Dialect:
    """Return one dialect for all engines of the same kind: they share compiled statements, and no cache keeps them."""
    return _OF_KIND.setdefault(dialect.name, dialect)


_OF_KIND: dict[str, Dialect] = {}


@lru_cache(_REMEMBERED)
def _statement_of(select: Select[Any], dialect: Dialect) -> Statement:
    compiled = select.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(compiled, SQLCompiler)
    return Statement(str(compiled), compiled.params, compiled.positiontup)
