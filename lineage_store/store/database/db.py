"""Engines and transactions, the same for SQLite and PostgreSQL.

In: a database URL. Out: a SQLAlchemy engine, and the ways to use it: `reading`, `writing`, `connected`.
Promises: on SQLite a write transaction acquires the write lock at its beginning (`BEGIN IMMEDIATE`), so that it cannot
fail later because another one has the lock; when the database or a connection fails, `DatabaseUnavailableError` is
raised, with the cause and without the password. Other errors of a statement stay SQLAlchemy's.
Does not know how files and sessions are set up (`sqlite`, `postgresql`), nor tables.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, Select, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as NoConnectionFreeError
from sqlalchemy.pool import PoolProxiedConnection

from lineage_store.config import Settings
from lineage_store.errors import (
    Cause,
    ConfigError,
    DatabaseUnavailableError,
    LineageParamTypeError,
    LineageParamValueError,
    PermissionDeniedError,
    ReadOnlyStoreError,
)
from lineage_store.store.database import connections
from lineage_store.store.database.failures import cause_of, is_damage
from lineage_store.store.database.sql import Session, driver_errors, share_compiled
from lineage_store.texts import shown, shown_url, without_passwords

if TYPE_CHECKING:
    from sqlalchemy import Connection

_WRITE, _SYNCED = "lineage_store_write", "lineage_store_synced"
_READ_ONLY = "lineage_store_read_only"
_WRITES = "lineage_store_writes"
_DEFAULTS = Settings()
_SURE_FAILURES = frozenset({"42501", "25006", "25P03"})
"""SQLSTATE of insufficient_privilege, read_only_sql_transaction and idle_in_transaction_session_timeout: failures for
which psycopg does not raise OperationalError."""


def parse_url(url: str) -> URL:
    """Parse a database URL; `postgresql://` means psycopg, whatever SQLAlchemy's default is. Raises ConfigError."""
    try:
        parsed = make_url(url)
        url.encode()
    except (ArgumentError, ValueError):  # a port that is no number, text that is no UTF-8
        raise _no_url(url) from None  # the error may quote the URL, and with it a password
    if "\0" in url:
        raise _no_url(url)
    if "@" in (parsed.host or ""):
        raise ConfigError(
            f"The database URL {shown_url(url)!r} has an @ too many.",
            hint="Write %40 for an @ in a password.",
        )
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        _check_names_a_file(parsed, shown_url(url))
        return parsed
    raise ConfigError(f"Database {parsed.drivername!r} is not supported.", hint="Use sqlite or postgresql.")


def _no_url(url: str) -> ConfigError:
    return ConfigError(
        f"{shown_url(url)!r} is not a database URL.",
        hint="Use sqlite:///file, sqlite:////absolute/path/to/file or postgresql://user@host:5432/name.",
    )


def _check_names_a_file(url: URL, shown: str) -> None:
    """Refuse a SQLite URL with a host, a user or options. Raises ConfigError."""
    if url.query:
        raise ConfigError(
            f"The database URL {shown!r} has options, and SQLite's takes none.",
            hint=f"Write {shown.partition('?')[0]} alone.",
        )
    if url.username or url.password or url.host or url.port:
        path = shown.partition("://")[2]
        raise ConfigError(
            f"The database URL {shown!r} names a host or user, and SQLite has none.",
            hint=f"Write sqlite:///{path} with three slashes; with four, the path begins at the root.",
        )


def open_engine(
    url: str,
    *,
    read_only: bool = False,
    allow_network_filesystem: bool = False,
    pool_size: int = _DEFAULTS.pool_size,
    statement_timeout_s: float = _DEFAULTS.statement_timeout_s,
) -> Engine:
    """Make an engine without connecting. Raises ConfigError, UnsafeStoreLocationError, PermissionDeniedError.

    Args:
        read_only: the store is never written or created; `writing` raises ReadOnlyStoreError.
        pool_size, statement_timeout_s: as in the settings.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = connections.make_sqlite_engine(
            parsed,
            sqlite_path(url),
            read_only=read_only,
            allow_network_filesystem=allow_network_filesystem,
            pool_size=pool_size,
            statement_timeout_s=statement_timeout_s,
        )
        event.listen(engine, "begin", _begin_on_sqlite)
    else:
        engine = connections.make_postgresql_engine(
            parsed, read_only=read_only, pool_size=pool_size, statement_timeout_s=statement_timeout_s
        )
        event.listen(engine, "begin", _begin_on_postgresql)
    engine.update_execution_options(**{_READ_ONLY: read_only, _WRITES: [None]})
    share_compiled(engine)
    return engine


def apart(engine: Engine, *, allow_network_filesystem: bool = False) -> Engine:
    """Make a second engine for the same database, with connections of its own; does not connect."""
    url, read_only = engine.url.render_as_string(hide_password=False), is_read_only(engine)
    return open_engine(url, read_only=read_only, allow_network_filesystem=allow_network_filesystem)


def is_read_only(engine: Engine) -> bool:
    """Return whether the engine was opened for reading only."""
    return bool(engine.get_execution_options()[_READ_ONLY])


def require_writable(engine: Engine) -> None:
    """Raise ReadOnlyStoreError if the engine was opened for reading only."""
    if is_read_only(engine):
        raise ReadOnlyStoreError(
            f"The store {safe_url(engine.url)} is open read-only: it cannot be changed.",
            hint="Open it without read_only, as somebody who may write.",
        )


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Run a read transaction, which sees one consistent snapshot. Raises DatabaseUnavailableError."""
    with _failures_named(engine), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin(), cancellable(connection):
            yield Session(connection)


def connected(engine: Engine) -> PoolProxiedConnection:
    """Return the driver's connection from the pool; closing it returns it. Raises DatabaseUnavailableError."""
    with _failures_named(engine), driver_errors(engine.dialect):
        return engine.raw_connection()


@contextmanager
def writing(engine: Engine, *, synced: bool = True) -> Iterator[Session]:
    """Run a write transaction: commit at the end of the block, roll back on an error.

    When COMMIT fails, it is unknown whether the database committed. The connection is closed then, so that the database
    cannot commit later, and the caller must read the bookmarks again.

    Raises ReadOnlyStoreError if the engine was opened for reading only, DatabaseUnavailableError.

    Args:
        synced: whether COMMIT waits until this and all earlier transactions are on disk. If not, a power cut or a crash
            of the server may undo the whole transaction: only for rows that can be read from log files again.
    """
    require_writable(engine)
    with _failures_named(engine), engine.connect() as connection:
        connection = connection.execution_options(**{_WRITE: True, _SYNCED: synced})
        with connection.begin() as transaction:
            yield Session(connection)
            try:
                transaction.commit()
            except BaseException:
                connection.invalidate()
                raise
            finally:
                note_write(engine)


def note_write(engine: Engine) -> None:
    """Note that this engine may have written something."""
    engine.get_execution_options()[_WRITES][0] = object()


def last_write(engine: Engine) -> object:
    """Return an object that is another one after each write by this engine; None before the first write."""
    return engine.get_execution_options()[_WRITES][0]


def safe_url(url: str | URL) -> str:
    """Return a URL without its password, for logs and messages."""
    return shown_url(make_url(url).render_as_string(hide_password=True))


def identity(url: URL) -> str:
    """Return a name of the store that is the same whoever connects: without user, password and options."""
    path = sqlite_path(url)
    if path is not None:
        return f"sqlite:///{os.path.realpath(path)}"
    host, port = url.host or url.query.get("host", ""), url.port or url.query.get("port", 5432)
    return f"{url.get_backend_name()}://{host}:{port}/{url.database or url.username or ''}"


def sqlite_path(url: str | URL) -> Path | None:
    """Return the file of a SQLite URL; None for PostgreSQL and for a database in memory. Raises ConfigError."""
    parsed = parse_url(url) if isinstance(url, str) else url
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database)).expanduser().absolute()


@contextmanager
def _failures_named(engine: Engine) -> Iterator[None]:
    try:
        yield
    except NoConnectionFreeError as error:
        raise _no_connection_free(engine) from error
    except DBAPIError as error:
        sure = getattr(error.orig, "sqlstate", None) in _SURE_FAILURES
        unfit_url = isinstance(error, ProgrammingError) and error.statement is None
        is_failure = isinstance(error, OperationalError | InterfaceError) or is_damage(error.orig)
        if not (sure or unfit_url or is_failure):
            raise
        raise unavailable(engine, error) from error
    except sqlite3.DatabaseError as error:  # of a cursor of the driver's own
        if not is_damage(error):
            raise
        raise _unavailable(engine, error, str(error)) from error


def unavailable(engine: Engine, error: DBAPIError) -> DatabaseUnavailableError:
    """Return an error that says which database failed, why, and what to do."""
    said = str(error.orig).strip().splitlines()[0] if error.orig else type(error).__name__
    return _unavailable(engine, error.orig, said)


def _unavailable(engine: Engine, error: BaseException | None, said: str) -> DatabaseUnavailableError:
    words = without_passwords(said)
    cause, remedy = cause_of(error, words, sqlite_path(engine.url))
    kind = PermissionDeniedError if cause == Cause.DENIED else DatabaseUnavailableError
    return kind(f"The database {safe_url(engine.url)} failed: {words}.", hint=remedy, cause=cause)


def _no_connection_free(engine: Engine) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        f"All connections of this process to the database {safe_url(engine.url)} are in use, and none came back within "
        f"{connections.WAIT_S:g} s.",
        hint=f"Allow more than {connections.size_of(engine)} with the limit pool_size, "
        "or ask with fewer threads at once.",
        cause=Cause.BUSY,
    )


def _begin_on_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get(_WRITE):
        connection.exec_driver_sql("BEGIN")
        return
    connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get(_SYNCED) else 'NORMAL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_on_postgresql(connection: Connection) -> None:
    connections.begin_transaction(connection.connection.driver_connection, connection.info)
    if not connection.get_execution_options().get(_SYNCED, True):
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")


# ---- Pages of a list: LIMIT and OFFSET for a statement that has an order
# In: a limit and a page number, or another count, as callers give them. Out: the page's statement, or an error that
# says what is valid.


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


UNPAGED = Page()


# ---- A question whose answer nobody waits for any more is cancelled: from another thread, its running statement fails
# like one that takes too long. Its connections are not used again, because a cancellation may reach the server late.


class Cancellation:
    """The handle to cancel one question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: list[Any] = []
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """End the question's running statement, from another thread, and let it run no other statement."""
        with self._lock:
            self._cancelled.set()
            for connection in self._connections:
                end = connection.interrupt if hasattr(connection, "interrupt") else connection.cancel
                end()

    @contextmanager
    def covers(self) -> Iterator[None]:
        """Make this handle cancel what the block runs."""
        before = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(before)

    @contextmanager
    def _watches(self, connection: Connection) -> Iterator[None]:
        driver = connection.connection.dbapi_connection
        with self._lock:
            self._require_somebody()
            self._connections.append(driver)
        try:
            yield
        finally:
            with self._lock:
                self._connections.remove(driver)
                if self._cancelled.is_set():
                    connection.invalidate()
        self._require_somebody()

    def _require_somebody(self) -> None:
        if self._cancelled.is_set():
            raise DatabaseUnavailableError("The client no longer waits for this answer.", cause=Cause.TIMEOUT)


_CURRENT: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


@contextmanager
def cancellable(connection: Connection) -> Iterator[None]:
    """End the block's statements on `connection` when the current question is cancelled.

    Raises DatabaseUnavailableError with the cause "timeout" if the question was cancelled before or meanwhile.
    """
    current = _CURRENT.get()
    if current is None:
        yield
        return
    with current._watches(connection):
        yield
