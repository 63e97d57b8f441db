"""SQL: `Session`, an open transaction and the one way to run SQL in it; and what the two databases spell differently.

In: a statement, which is SQLAlchemy's, a `Query`, or a text in the driver's own SQL. Out: rows, values, or how many
rows were changed. Promises: a `Query` has the rows of its SELECT, with the same types; errors are SQLAlchemy's, whoever
ran the statement; when the database has gone, the connection is not used again; compiled statements are shared by all
engines of a process. Does not know how a transaction begins and ends (`db.reading`, `db.writing`), nor tables.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload
from typing import cast as as_type

from sqlalchemy import (
    ARRAY,
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Connection,
    CursorResult,
    DateTime,
    Dialect,
    Double,
    Engine,
    Executable,
    Insert,
    Integer,
    LargeBinary,
    Row,
    Select,
    Table,
    Text,
    TypeDecorator,
    Update,
    UpdateBase,
    any_,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    select,
    tuple_,
    type_coerce,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from lineage_store.plain_values import LARGEST_INTEGER

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
        return as_type("Kind", self.connection.dialect.name)

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
            return self._rows(statement, {**(as_type("Any", values) or {}), **named})
        return as_type("list[Any]", self._execute(statement, values, named).all())

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

    def mappings(
        self, statement: Executable, values: Values = None, /, **named: object
    ) -> list[dict[str, Any]]:
        """Return all rows, each as a dict by the names of its columns."""
        return list(map(dict, self._execute(statement, values, named).mappings()))

    def stream(
        self, statement: Query | Executable | str, size: int, values: Values = None, /, **named: object
    ) -> Iterator[list[Any]]:
        """Yield the rows in lists of at most `size`, without having all of them in memory."""
        if isinstance(statement, Query):
            yield from self._stream(statement, size, {**(as_type("Any", values) or {}), **named})
            return
        with self._execute(statement, values, named, yield_per=size) as found:
            for some in found.partitions():
                yield as_type("list[Any]", some)

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
        return as_type("datetime", self.value(_NOW[self.kind]))

    def savepoint(self) -> NestedTransaction:
        """Begin a part that can be rolled back alone: it is when the `with` block fails."""
        return self.connection.begin_nested()

    def _execute(
        self, statement: Executable | str, values: Values, named: Mapping[str, object], **options: Any
    ) -> CursorResult[*tuple[Any, ...]]:
        given: Any = {**as_type("Mapping[str, Any]", values or {}), **named} if named else values
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
        if dialect.is_disconnect(as_type("Any", error), connection.connection.dbapi_connection, cursor):
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


@contextmanager
def driver_errors(dialect: Dialect, statement: str | None = None) -> Iterator[None]:
    """Raise SQLAlchemy's errors instead of the driver's own."""
    failure = dialect.loaded_dbapi.Error
    try:
        yield
    except failure as error:
        raise DBAPIError.instance(statement, None, error, failure, dialect=dialect) from error


# ---- Compiled statements, shared by all engines of a process
# In: an engine that was just created. Out: the same engine, which uses what others compiled and lets them use its
# own. Promises: statements, parameters and answers stay the same; the number of cached statements is bounded. Why:
# SQLAlchemy caches compiled statements per engine. Each ingest needs some fifty, which take half a millisecond each
# to compile, and `filter_summary_lineage` without a store may open an engine per call.


_MOST = 1000


class _SharedCache(dict[Any, Any]):
    """Compiled statements, keyed by name and version of the database instead of by the dialect object of one engine."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_of_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self) >= _MOST:
            self.clear()
        super().__setitem__(_of_kind(key), compiled)


def _of_kind(key: Any) -> Any:
    dialect, *statement = key
    return dialect.name, dialect.server_version_info, *statement


_COMPILED = _SharedCache()


def share_compiled(engine: Engine) -> None:
    """Let the engine use the cache of compiled statements that all engines share."""
    engine.update_execution_options(compiled_cache=_COMPILED)


# ---- SQL that differs between SQLite and PostgreSQL


def one_of(dialect_name: str, column: ColumnElement[T], values: object) -> ColumnElement[bool]:
    """Return the condition of `among` for a cached statement; `listed` returns the value of its parameter `values`."""
    if dialect_name == "sqlite":
        return column.in_(select(func.json_each(values).table_valued("value").c.value))
    return column == any_(type_coerce(values, ARRAY(column.type)))


def one_of_rows(dialect_name: str, columns: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    """Return the condition of `among_rows` for a cached statement; `listed_rows` returns its parameters."""
    return rows_in(dialect_name, columns, list(map(bindparam, _row_names(dialect_name, len(columns)))))


def rows_in(
    dialect_name: str, columns: Sequence[ColumnElement[Any]], parameters: Sequence[BindParameter[Any]]
) -> ColumnElement[bool]:
    """Return the condition that columns together equal one of the rows in `parameters`, as `listed_rows` gives them."""
    if dialect_name == "sqlite":
        each = func.json_each(parameters[0]).table_valued("value").c.value
        items: Any = select(*(func.json_extract(each, f"$[{n}]") for n in range(len(columns))))
    else:
        typed = [type_coerce(of, ARRAY(column.type)) for of, column in zip(parameters, columns, strict=True)]
        names = [column.name for column in columns]
        items = select(func.unnest(*typed).table_valued(*names, name="given").render_derived())
    return tuple_(*columns).in_(items)


def listed_rows(dialect_name: str, width: int, rows: Iterable[Sequence[int | str]]) -> dict[str, object]:
    """Return rows of `width` values as parameters: one of JSON for SQLite, a list per column for PostgreSQL."""
    if dialect_name == "sqlite":
        return {"rows": json.dumps([list(row) for row in rows])}
    columns = list(zip(*rows, strict=True)) or [()] * width
    return dict(zip(_row_names(dialect_name, width), map(list, columns), strict=True))


def _row_names(dialect_name: str, width: int) -> list[str]:
    return ["rows"] if dialect_name == "sqlite" else [f"rows_{n}" for n in range(width)]


def listed(dialect_name: str, values: Iterable[Any]) -> object:
    """Return values as the value of one parameter: JSON for SQLite, a list for PostgreSQL."""
    return json.dumps(list(values)) if dialect_name == "sqlite" else list(values)


def total(dialect_name: str, numbers: ColumnElement[int]) -> ColumnElement[int]:
    """Return the sum of integers, 0 without rows, at most LARGEST_INTEGER: a sparse file may claim any size."""
    if dialect_name == "sqlite":  # sum() would fail on overflow; CAST stays within 64 bits
        return cast(func.total(numbers), BigInteger)
    return cast(func.least(func.coalesce(func.sum(numbers), 0), LARGEST_INTEGER), BigInteger)


def time_now(dialect_name: str) -> ColumnElement[datetime]:
    """Return the current time of the database's clock, not that of the beginning of the transaction."""
    if dialect_name == "sqlite":
        return literal_column("strftime('%Y-%m-%dT%H:%M:%fZ', 'now')", UtcTime())
    return literal_column("clock_timestamp()", UtcTime())


def instant_of(dialect_name: str, seconds: ColumnElement[Any]) -> ColumnElement[datetime]:
    """Return unix time in seconds, from 1970 to the year 9999, as a point in time, spelt as bound ones are."""
    if dialect_name == "sqlite":
        return func.strftime("%Y-%m-%dT%H:%M:%f000Z", seconds, "unixepoch", type_=UtcTime())
    return func.to_timestamp(seconds, type_=UtcTime())


def unix_ms(dialect_name: str) -> ColumnElement[int]:
    """Return the current time of the database's clock in whole milliseconds since 1970."""
    if dialect_name == "sqlite":
        return literal_column("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", BigInteger())
    return literal_column("CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)", BigInteger())


def time_in(dialect_name: str, seconds: ColumnElement[float]) -> ColumnElement[datetime]:
    """Return the time of the database's clock plus a number of seconds."""
    if dialect_name == "sqlite":
        return func.strftime("%Y-%m-%dT%H:%M:%fZ", "now", seconds.op("||")(" seconds"), type_=UtcTime())
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


# ---- Column types that mean the same on SQLite and PostgreSQL, and the part of a text that an index contains
# `UtcTime`: aware UTC datetimes; `timestamptz` on PostgreSQL, ISO 8601 text with a final Z on SQLite (which its date
# functions read). `Name`: text that compares by code point on both, as Python does. `prefix(text)`: on PostgreSQL,
# whose B-trees refuse texts above some 2,700 bytes, the first INDEXED_CHARACTERS characters; on SQLite the whole
# text. A text shorter than INDEXED_CHARACTERS is its own prefix, so comparing prefixes is enough for it.


Name = Text().with_variant(Text(collation="C"), "postgresql")
Key = Integer()
"""A surrogate key: four bytes on PostgreSQL; on SQLite an alias of the rowid."""
Bytes = LargeBinary()
Float64: Double[float] = Double()
INDEXED_CHARACTERS = 500
"""Characters of a text in PostgreSQL's indexes, of at most four bytes each."""


class UtcTime(TypeDecorator[datetime]):
    """An instant, in UTC, to the microsecond."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(Text())
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> object:
        if value is None or dialect.name != "sqlite":
            return value
        return _iso_text(value)

    def process_result_value(self, value: object, dialect: Dialect) -> datetime | None:
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        return value.astimezone(UTC) if isinstance(value, datetime) else None


@lru_cache(maxsize=256)
def _iso_text(instant: datetime) -> str:
    """Cached, because most rows of a write transaction have the same instant."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class prefix(FunctionElement[str]):  # noqa: N801 - a function of SQL
    """The part of a text that an index contains."""

    inherit_cache = True
    type = Name


@compiles(prefix)
def _whole_text(element: prefix, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(prefix, "postgresql")
def _first_characters(element: prefix, compiler: Any, **options: Any) -> str:
    return f"left({compiler.process(element.clauses, **options)}, {INDEXED_CHARACTERS})"


# ---- LIKE that can be interrupted, whatever the pattern and however long the text
# In: a text column, and a pattern in lower case with `%`, `_` and the escape ESCAPE. Out: a SQL predicate that
# ignores the case of A to Z on both databases. Promises: PostgreSQL interrupts its LIKE itself. SQLite does not, and
# compares each character of the pattern at each place of the text, so there its LIKE only gets texts of up to
# LONGEST_FOR_LIKE characters; longer ones are searched here, in pieces between which the statement may end.


ESCAPE = "#"
"""The escape character in SQL. Callers write a backslash, but databases differ in how it is quoted."""
LONGEST_FOR_LIKE = 2_000
"""With a pattern of 1,000 characters such a text takes SQLite some 10 ms at worst."""
PIECE = 20_000
"""Characters of a long text that are searched at a time, in 20 ms at worst."""
_NAME = "is_like_in_pieces"
_TOKEN = re.compile(rf"{ESCAPE}(?P<escaped>.)|(?P<any>%)|(?P<one>_)|(?P<literal>[^{ESCAPE}%_]+)", re.DOTALL)

Check = Callable[[], None]
"""Raises an exception when the search must end."""


class is_like(FunctionElement[bool]):  # noqa: N801 - a function of SQL
    """Whether a text matches a pattern in lower case."""

    inherit_cache = True
    type = Boolean()


@compiles(is_like)
def _by_the_database(element: is_like, compiler: Any, **options: Any) -> str:
    text, pattern = (compiler.process(each, **options) for each in element.clauses)
    # `lower` folds only ASCII: always in SQLite, and under the collation "C" in PostgreSQL
    return f"lower({text}) LIKE {pattern} ESCAPE '{ESCAPE}'"


@compiles(is_like, "sqlite")
def _in_pieces(element: is_like, compiler: Any, **options: Any) -> str:
    text, pattern = (compiler.process(each, **options) for each in element.clauses)
    long = f"length({text}) > {LONGEST_FOR_LIKE} THEN {_NAME}(lower({text}), {pattern})"
    return f"CASE WHEN {long} ELSE {_by_the_database(element, compiler, **options)} END"


def install(connection: sqlite3.Connection, search: Callable[[str, str], bool]) -> None:
    """Let a connection search long texts with `search`, which is like `matches`."""

    def answer(text: str | None, pattern: str | None) -> bool | None:
        return None if text is None or pattern is None else search(text, pattern)

    connection.create_function(_NAME, 2, answer, deterministic=True)


def matches(text: str, pattern: str, check: Check = lambda: None) -> bool:
    """Whether all of a text matches. Raises what `check` raises, which is called before each piece."""
    first, *others = _parts(pattern)
    if not others:
        return len(text) == first.length and first.begins(text, 0)
    *middle, last = others
    if len(text) < first.length + last.length or not first.begins(text, 0):
        return False
    place, end = first.length, len(text) - last.length
    for part in middle:
        found = part.find(text, place, end, check)
        if found is None:
            return False
        place = found + part.length
    return place <= end and last.begins(text, end)


class _Part:
    """What is between two `%`: it matches texts of one length."""

    def __init__(self, expression: str, length: int) -> None:
        self._expression, self.length = re.compile(expression, re.DOTALL), length

    def begins(self, text: str, place: int) -> bool:
        return self._expression.match(text, place) is not None

    def find(self, text: str, place: int, end: int, check: Check) -> int | None:
        """Return the first place where it matches before `end`."""
        while place <= end:
            check()
            found = self._expression.search(text, place, min(end, place + PIECE + self.length))
            if found:
                return found.start()
            place += PIECE + 1
        return None


@lru_cache(maxsize=64)
def _parts(pattern: str) -> tuple[_Part, ...]:
    parts, expression, length = [], "", 0
    for token in _TOKEN.finditer(pattern):
        if token["any"]:
            parts.append(_Part(expression, length))
            expression, length = "", 0
        else:
            literal = token["escaped"] or token["literal"] or ""
            expression += "." if token["one"] else re.escape(literal)
            length += 1 if token["one"] else len(literal)
    return (*parts, _Part(expression, length))


_NOW = {kind: Query(select(time_now(kind))) for kind in ("sqlite", "postgresql")}
