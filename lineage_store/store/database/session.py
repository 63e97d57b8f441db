"""`Session`: an open transaction, and the one way to run SQL in it.

In: a statement, which is SQLAlchemy's, a `Query`, or a text in the driver's own SQL. Out: rows, values, or how many
rows were changed. Promises: a `Query` has the rows of its SELECT, with the same types; errors are SQLAlchemy's, whoever
ran the statement; when the database has gone, the connection is not used again. Does not know how a transaction begins
and ends (`db.reading`, `db.writing`), nor tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from sqlalchemy import (
    Boolean,
    Connection,
    CursorResult,
    Dialect,
    Executable,
    Insert,
    Row,
    Select,
    Table,
    Update,
    UpdateBase,
    bindparam,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from lineage_store.store.database.sql import (
    UtcTime,
    driver_errors,
    listed,
    listed_rows,
    one_of,
    rows_in,
    time_now,
)

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, ColumnElement, NestedTransaction
    from sqlalchemy.sql.selectable import TypedReturnsRows

T = TypeVar("T")
Kind = Literal["sqlite", "postgresql"]
Values = Mapping[str, Any] | Sequence[Any] | None
"""Values of parameters: by name, or for a text as its driver takes them."""

_REMEMBERED = 256
_MANY_ROWS = 100
"""From this many rows on, PostgreSQL gets a COPY: as fast as INSERTs for two rows, five times as fast for thousands."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A SELECT that is compiled once for each kind of database, and run by the driver's own cursor.

    Make it of the same object each time, of a module's constant or from a cached function: compiled statements are
    remembered by it. Its rows are plain tuples. Why: SQLAlchemy's execution takes seven times as long for a row, and
    twice as long for 100,000, because binding a statement and describing its rows takes longer than finding them.
    """

    select: Select[Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """The text and the parameters of a compiled statement, as a driver takes them."""

    text: str
    values: Mapping[str, Any]
    """The values of the parameters, by name."""
    places: Sequence[str] | None
    """The names of the parameters in order, if the text has only `?` for them; else None."""
    conversions: Sequence[tuple[int, Callable[[Any], Any]]] = ()
    """The columns that the driver returns otherwise than SQLAlchemy does, and how they are converted."""

    def arguments(self, given: Mapping[str, Any]) -> Mapping[str, Any] | tuple[Any, ...]:
        """Return the values as the driver takes them, with those in `given` in place of the statement's own."""
        values = {**self.values, **given}
        return values if self.places is None else tuple([values[name] for name in self.places])

    def converted(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return rows of the driver with points in time as aware UTC datetimes, and truth values as bool."""
        if not rows or not self.conversions:
            return rows
        columns: list[Any] = list(zip(*rows, strict=True))
        for place, convert in self.conversions:
            columns[place] = [None if value is None else convert(value) for value in columns[place]]
        return list(zip(*columns, strict=True))


class Session:
    """An open transaction.

    A statement is one of SQLAlchemy's, a `Query`, or a text, which goes to the driver as it is: without values, a % in
    it is a %. Values are given by name, as a mapping before them, or for a text as its driver takes them. All methods
    raise SQLAlchemy's DBAPIError. `connection` is for those that SQLAlchemy's own connection is handed to: Alembic,
    the creation of tables, the driver's cursors of COPY and of a staged insert.
    """

    __slots__ = ("connection",)

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def kind(self) -> Kind:
        """The kind of the database."""
        return cast("Kind", self.connection.dialect.name)

    @overload
    def rows(self, statement: Query, values: Values = None, /, **named: object) -> list[tuple[Any, ...]]: ...

    @overload
    def rows(
        self, statement: Executable | str, values: Values = None, /, **named: object
    ) -> list[Row[*tuple[Any, ...]]]: ...

    def rows(
        self, statement: Query | Executable | str, values: Values = None, /, **named: object
    ) -> list[Any]:
        """Return all rows."""
        if isinstance(statement, Query):
            return self._rows(statement, {**(cast("Any", values) or {}), **named})
        return cast("list[Any]", self._execute(statement, values, named).all())

    @overload
    def first(
        self, statement: Query, values: Values = None, /, **named: object
    ) -> tuple[Any, ...] | None: ...

    @overload
    def first(
        self, statement: Executable | str, values: Values = None, /, **named: object
    ) -> Row[*tuple[Any, ...]] | None: ...

    def first(self, statement: Query | Executable | str, values: Values = None, /, **named: object) -> Any:
        """Return the first row; None if there is none."""
        if isinstance(statement, Query):
            return next(iter(self.rows(statement, values, **named)), None)
        return self._execute(statement, values, named).first()

    @overload
    def one(self, statement: Query, values: Values = None, /, **named: object) -> tuple[Any, ...]: ...

    @overload
    def one(
        self, statement: Executable | str, values: Values = None, /, **named: object
    ) -> Row[*tuple[Any, ...]]: ...

    def one(self, statement: Query | Executable | str, values: Values = None, /, **named: object) -> Any:
        """Return the only row. Raises ValueError (a Query) or SQLAlchemy's InvalidRequestError for more or none."""
        if isinstance(statement, Query):
            (row,) = self.rows(statement, values, **named)
            return row
        return self._execute(statement, values, named).one()

    @overload
    def value(self, statement: TypedReturnsRows[T], values: Values = None, /, **named: object) -> T: ...

    @overload
    def value(
        self, statement: Query | Executable | str, values: Values = None, /, **named: object
    ) -> Any: ...

    def value(self, statement: Query | Executable | str, values: Values = None, /, **named: object) -> Any:
        """Return the first column of the first row; None if there is no row."""
        if isinstance(statement, Query):
            row = self.first(statement, values, **named)
            return None if row is None else row[0]
        return self._execute(statement, values, named).scalar()

    @overload
    def column(
        self, statement: TypedReturnsRows[T], values: Values = None, /, **named: object
    ) -> list[T]: ...

    @overload
    def column(
        self, statement: Query | Executable | str, values: Values = None, /, **named: object
    ) -> list[Any]: ...

    def column(
        self, statement: Query | Executable | str, values: Values = None, /, **named: object
    ) -> list[Any]:
        """Return the first column of all rows."""
        if isinstance(statement, Query):
            return [row[0] for row in self.rows(statement, values, **named)]
        return list(self._execute(statement, values, named).scalars())

    def stream(
        self, statement: Query | Executable | str, size: int, values: Values = None, /, **named: object
    ) -> Iterator[list[Any]]:
        """Yield the rows in lists of at most `size`, without having all of them in memory."""
        if isinstance(statement, Query):
            yield from self._stream(statement, size, {**(cast("Any", values) or {}), **named})
            return
        with self._execute(statement, values, named, yield_per=size) as found:
            for some in found.partitions():
                yield cast("list[Any]", some)

    def change(self, statement: Executable | str, values: Values = None, /, **named: object) -> int:
        """Execute a statement once, or once per row of a list; return how many rows of the table were affected.

        With rows, SQLAlchemy would process each value of each row. Here only points in time are converted, because the
        drivers take all other values unchanged. The compiled statement is cached by identity: pass the same object
        each time. Rows have the keys of the first; without rows nothing is executed.
        """
        if isinstance(values, list) and not values:
            return 0
        if isinstance(values, list) and isinstance(statement, UpdateBase):
            compiled = _compiled(statement, of_kind(self.connection.dialect), tuple(values[0]))
            result = self.connection.exec_driver_sql(compiled.text, compiled.parameters(values))
        else:
            result = self._execute(statement, values, named)
        affected = result.rowcount
        result.close()
        return affected

    def insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, all of which have the keys of the first. Raises IntegrityError for an existing key."""
        if len(rows) >= _MANY_ROWS and self.kind == "postgresql":
            names = tuple(rows[0])
            with copying(self, table, names) as sink:
                for row in rows:
                    sink.write_row([row[name] for name in names])
        elif rows:
            self.change(_insert(table), list(rows))

    def now(self) -> datetime:
        """Return the time of the database's clock, the only one that all hosts share. UTC."""
        return cast("datetime", self.value(_NOW[self.kind]))

    def savepoint(self) -> NestedTransaction:
        """Begin a part that can be rolled back alone: it is when the `with` block fails."""
        return self.connection.begin_nested()

    def _execute(
        self, statement: Executable | str, values: Values, named: Mapping[str, object], **options: Any
    ) -> CursorResult[*tuple[Any, ...]]:
        given: Any = {**cast("Mapping[str, Any]", values or {}), **named} if named else values
        if isinstance(statement, str):
            if given is None:
                options["no_parameters"] = True
            return self.connection.exec_driver_sql(statement, given, execution_options=options)
        return self.connection.execute(statement, given, execution_options=options)

    def _rows(self, query: Query, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        connection = self.connection
        statement, failure = (
            statement_of(query.select, connection.dialect),
            connection.dialect.loaded_dbapi.Error,
        )
        cursor: Any = connection.connection.cursor()
        try:
            cursor.execute(statement.text, statement.arguments(given))
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        except failure as error:
            raise self._named(error, statement, cursor) from error
        cursor.close()
        return statement.converted(rows)

    def _stream(self, query: Query, size: int, given: Mapping[str, Any]) -> Iterator[list[tuple[Any, ...]]]:
        connection = self.connection
        statement, failure = (
            statement_of(query.select, connection.dialect),
            connection.dialect.loaded_dbapi.Error,
        )
        pooled: Any = connection.connection
        with closing(pooled.cursor() if self.kind == "sqlite" else pooled.cursor("streamed")) as cursor:
            try:
                cursor.execute(statement.text, statement.arguments(given))
                while rows := cursor.fetchmany(size):
                    yield statement.converted(rows)
            except failure as error:
                raise self._named(error, statement, cursor) from error

    def _named(self, error: Exception, statement: Statement, cursor: Any) -> Exception:
        """Return the driver's error as SQLAlchemy's."""
        connection, dialect = self.connection, self.connection.dialect
        if dialect.is_disconnect(cast("Any", error), connection.connection.dbapi_connection, cursor):
            connection.invalidate(error)  # else the end of the transaction would fail too, and hide the cause
        failure = dialect.loaded_dbapi.Error
        return DBAPIError.instance(statement.text, None, error, failure, dialect=dialect)


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
    types = [column.type for column in compiled._result_columns]
    conversions = [
        (place, convert) for place, each in enumerate(types) if (convert := _conversion(each, dialect.name))
    ]
    return Statement(str(compiled), compiled.params, compiled.positiontup, conversions)


def _conversion(of: object, kind: str) -> Callable[[Any], Any] | None:
    """Return how a value of this type that the driver returned is converted; None: it is not."""
    if isinstance(of, UtcTime):
        return datetime.fromisoformat if kind == "sqlite" else _in_utc
    return bool if isinstance(of, Boolean) and kind == "sqlite" else None


def _in_utc(instant: datetime) -> datetime:
    return instant.astimezone(UTC)


_NOW = {kind: Query(select(time_now(kind))) for kind in ("sqlite", "postgresql")}


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    positions: tuple[str, ...] | None
    """The names of the parameters in order, if the driver takes them by position; else None."""
    own: Mapping[str, Any]
    """The statement's own values, which no row gives."""
    conversions: Mapping[str, Callable[[Any], Any]]

    def parameters(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        if self.own:
            rows = [{**self.own, **row} for row in rows]
        if self.conversions:
            rows = [
                {**row, **{name: convert(row[name]) for name, convert in self.conversions.items()}}
                for row in rows
            ]
        if self.positions is None:
            return list(rows)
        if len(self.positions) == 1:
            return [(row[self.positions[0]],) for row in rows]
        values = itemgetter(*self.positions)
        return [values(row) for row in rows]


@lru_cache(_REMEMBERED)
def _compiled(statement: UpdateBase, dialect: Dialect, names: Sequence[str]) -> _Compiled:
    compiled: Any = statement.compile(dialect=dialect, column_keys=list(names))
    convert = UtcTime().bind_processor(dialect)
    instants = (name for bind, name in compiled.bind_names.items() if isinstance(bind.type, UtcTime))
    conversions = dict.fromkeys(instants, convert) if convert and compiled.positional else {}
    own = {name: value for name, value in compiled.params.items() if name not in names}
    places = tuple(compiled.positiontup) if compiled.positional else None
    return _Compiled(str(compiled), places, own, conversions)


# ---- Statements for many rows or values


def upsert(session: Session, table: Table, keys: Sequence[str], changing: Sequence[str] = ()) -> Any:
    """Return an INSERT that sets the columns `changing` of an existing row with the same `keys`; none: it stays."""
    return _upsert(session.kind, table, tuple(keys), tuple(changing))


@cache
def _upsert(kind: Kind, table: Table, keys: Sequence[str], changing: Sequence[str]) -> Any:
    if kind == "sqlite":
        from sqlalchemy.dialects import sqlite as dialect
    else:
        from sqlalchemy.dialects import postgresql as dialect  # type: ignore[no-redef]  # slow to import
    statement: Any = dialect.insert(table)
    if not changing:
        return statement.on_conflict_do_nothing(index_elements=list(keys))
    changed = {name: statement.excluded[name] for name in changing}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=changed)


@cache
def _insert(table: Table) -> Insert:
    return insert(table)


def update_by_key(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Update one row of the table per given row.

    Args:
        rows: each with a value `of_<column>` for each column of the key, by which the row is found, and the new values
            of other columns by their names; all have the keys of the first.
    """
    if rows:
        session.change(_update(table, tuple(rows[0])), list(rows))


@cache
def _update(table: Table, names: Sequence[str]) -> Update:
    columns: dict[str, Any] = {name: bindparam(name) for name in names if not name.startswith("of_")}
    key = [table.c[name.removeprefix("of_")] == bindparam(name) for name in names if name.startswith("of_")]
    return update(table).where(*key).values(columns)


def among(session: Session, column: ColumnElement[T], values: Iterable[T]) -> ColumnElement[bool]:
    """Return the condition that a column has one of some values: like IN (…), with one parameter for all values."""
    return one_of(session.kind, column, listed(session.kind, values))


def among_rows(
    session: Session, columns: Sequence[ColumnElement[Any]], rows: Iterable[Sequence[int | str]]
) -> ColumnElement[bool]:
    """Return the condition that columns together equal one of some rows: like (a, b) IN ((1, 2), …), for any number."""
    values = listed_rows(session.kind, len(columns), rows)
    parameters: list[BindParameter[Any]] = [bindparam(None, value, unique=True) for value in values.values()]
    return rows_in(session.kind, columns, parameters)


# ---- PostgreSQL's COPY: many rows in or out at once, instead of one statement and answer per row


def copying(
    session: Session, table: Table, names: Sequence[str], form: str = "TEXT"
) -> AbstractContextManager[Any]:
    """Open a COPY into the columns `names`: write bytes of the format, or rows of values. Raises DBAPIError."""
    columns = ", ".join(f'"{name}"' for name in names)
    return _copy(session, f"COPY {table.name} ({columns}) FROM STDIN (FORMAT {form})")


@contextmanager
def copied(session: Session, statement: str) -> Iterator[Iterator[bytes]]:
    """Run a COPY … TO STDOUT; yield its bytes, message by message. Raises DBAPIError."""
    with _copy(session, statement) as source:
        yield iter(source)


@contextmanager
def _copy(session: Session, statement: str) -> Iterator[Any]:
    with driver_errors(session.connection.dialect, statement):
        cursor: Any = session.connection.connection.cursor()
        with cursor, cursor.copy(statement) as copy:
            yield copy
