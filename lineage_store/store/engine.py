"""Connections: one way in for SQLite and PostgreSQL, with the manners that each needs.

In: a database URL. Out: a SQLAlchemy engine, and the ways to use it: `reading`, `writing`, `glancing`.
Promises: a write transaction takes its lock at its beginning (`BEGIN IMMEDIATE`), so that it cannot fail half way for
want of it; a SQLite file is private to its user (0600) and never on a network filesystem; database failures surface as
`DatabaseUnavailableError` with the cause and without the password.
Does not know: tables.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, FromClause, create_engine, event, select
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.pool import PoolProxiedConnection

from lineage_store.errors import ConfigError, DatabaseUnavailableError
from lineage_store.store import pooling, replaced
from lineage_store.store.causes import UNABLE_TO_OPEN, cause_of
from lineage_store.store.dialects import time_now
from lineage_store.store.filesystem import filesystem_type, is_network, refuse_network_filesystem
from lineage_store.texts import without_passwords

BUSY_TIMEOUT_S = 5.0
APPLICATION_ID = 0x4C537472
"""`LStr`: marks our SQLite files (`file` shows it), and names our advisory lock on PostgreSQL."""
WAL_KEPT_BYTES = 64 * 1024 * 1024
"""A write-ahead log that a long reader made longer is cut to this when the reader has ended."""
_SQLITE_CACHE_KIB = 64 * 1024
_WRITE, _SYNCED = "lineage_store_write", "lineage_store_synced"
_POSTGRESQL = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""A server that has gone without a word is noticed within a minute (in s; the last in ms)."""
_SURE_FAILURES = frozenset({"42501", "25006", "25P03"})
"""SQLSTATE of insufficient_privilege, read_only_sql_transaction and idle_in_transaction_session_timeout: psycopg calls
none of them operational."""


def parse_url(url: str) -> URL:
    """Read a database URL; `postgresql://` means psycopg, whatever SQLAlchemy's default driver is."""
    try:
        parsed = make_url(url)
        url.encode()
    except (ArgumentError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"{without_passwords(url)!r} is not a database URL.",
            hint="Use sqlite:////path/to/file or postgresql://user@host/name.",
        ) from error
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        return parsed
    raise ConfigError(f"Database {parsed.drivername!r} is not supported.", hint="Use sqlite or postgresql.")


def open_engine(url: str, *, read_only: bool = False, allow_network_filesystem: bool = False) -> Engine:
    """Make an engine; nothing is connected yet. Raises ConfigError, UnsafeStoreLocationError."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite_engine(parsed, read_only, allow_network_filesystem)
    try:
        engine = create_engine(parsed, connect_args=_POSTGRESQL)
    except (ImportError, NoSuchModuleError) as error:
        raise ConfigError(
            "PostgreSQL needs the driver psycopg.", hint="Run: pip install 'lineage-store[postgresql]'"
        ) from error
    event.listen(engine, "connect", _prepare_postgresql)
    event.listen(engine, "begin", _begin_on_postgresql)
    pooling.look_after(engine, pings=True)
    pooling.close_what_comes_back_late(engine)
    return engine


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A read transaction: one consistent snapshot."""
    with _failures_named(engine), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextmanager
def glancing(engine: Engine) -> Iterator[pooling.Pooled]:
    """For statements each of its own: no transaction begins or ends. What fails takes its connection along."""
    with _failures_named(engine):
        pooled = pooling.Pooled(engine.dialect, connected(engine))
        driver: Any = pooled.connection.driver_connection
        by_itself = engine.dialect.name == "postgresql"  # SQLite's driver begins nothing by itself
        try:
            if by_itself:
                driver.autocommit = True
            yield pooled
            if by_itself:
                driver.autocommit = False
        except BaseException:
            pooled.invalidate()
            raise
        finally:
            pooled.connection.close()


def connected(engine: Engine) -> PoolProxiedConnection:
    """A connection as the driver knows it; closing it gives it back to the pool. Raises DatabaseUnavailableError."""
    failure = engine.dialect.loaded_dbapi.Error
    with _failures_named(engine):
        try:
            return engine.raw_connection()
        except failure as error:
            raise DBAPIError.instance(None, None, error, failure, dialect=engine.dialect) from error


@contextmanager
def writing(engine: Engine, *, synced: bool = True) -> Iterator[Connection]:
    """A write transaction that holds its lock from the beginning; committed at the end, rolled back on error.

    When COMMIT fails, nobody knows whether it happened: the connection is dropped, so that nothing of it can still
    come to pass, and whoever wrote reads the bookmarks again.

    Args:
        synced: on the disk when committed, with all that was committed before. Else a power cut, or the death of the
            server, may take it back as a whole: for what log files tell again.
    """
    with _failures_named(engine), engine.connect() as connection:
        connection = connection.execution_options(**{_WRITE: True, _SYNCED: synced})
        with connection.begin() as transaction:
            yield connection
            try:
                transaction.commit()
            except BaseException:
                connection.invalidate()
                raise


def database_time(connection: Connection) -> datetime:
    """The database's clock, the only one that hosts share. UTC."""
    return connection.execute(_NOW[connection.dialect.name]).scalar_one()


_NOW = {name: select(time_now(name)) for name in ("sqlite", "postgresql")}


def safe_url(url: str | URL) -> str:
    """A URL fit for logs and messages: no password."""
    return without_passwords(make_url(url).render_as_string(hide_password=True))


def identity(url: URL) -> str:
    """What names a store, whoever connects to it: no user, no password, no options."""
    path = sqlite_path(url.render_as_string(hide_password=False))
    if path is not None:
        return f"sqlite:///{os.path.realpath(path)}"
    host, port = url.host or url.query.get("host", ""), url.port or url.query.get("port", 5432)
    return f"{url.get_backend_name()}://{host}:{port}/{url.database or url.username or ''}"


def sqlite_path(url: str) -> Path | None:
    """The file behind a SQLite URL; None for PostgreSQL and for a database in memory."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database)).expanduser().absolute()


@contextmanager
def _failures_named(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        sure = getattr(error.orig, "sqlstate", None) in _SURE_FAILURES
        unfit_url = isinstance(error, ProgrammingError) and error.statement is None
        if not (sure or unfit_url or isinstance(error, OperationalError | InterfaceError)):
            raise
        raise unavailable(engine, error) from error


def unavailable(engine: Engine, error: DBAPIError) -> DatabaseUnavailableError:
    """Say which database failed, why, and what to do."""
    cause = str(error.orig).strip().splitlines()[0] if error.orig else type(error).__name__
    cause = without_passwords(cause)
    path = sqlite_path(engine.url.render_as_string(hide_password=False))
    why = cause_of(error.orig, cause, path)
    return DatabaseUnavailableError(
        f"The database {safe_url(engine.url)} failed: {cause}.", hint=why.remedy, cause=why.kind
    )


def _sqlite_engine(url: URL, read_only: bool, allow_network_filesystem: bool) -> Engine:
    path = sqlite_path(url.render_as_string(hide_password=False))
    if path is not None:
        if not (read_only or allow_network_filesystem):
            # A published snapshot belongs to someone else: it can be read, from anywhere, and not written.
            read_only = _is_write_protected(path) and is_network(filesystem_type(path))
            if not read_only:
                refuse_network_filesystem(path)
        url = url.set(database=str(path))
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    engine.dialect.statement_compiler = _HintingCompiler
    replaced.watch(engine, path, reads_snapshots=read_only)
    pooling.look_after(engine, pings=False)

    @event.listens_for(engine, "do_connect")
    def create_private(_dialect: Any, _record: Any, _args: Any, _kwargs: Any) -> None:
        if path is not None and not path.exists() and not read_only:
            _create_private(path)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA cache_size = -{_SQLITE_CACHE_KIB}")
        if read_only or (path is not None and _is_write_protected(path)):
            connection.execute("PRAGMA query_only = ON")
        elif _is_ours_or_empty(connection):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")

    event.listen(engine, "begin", _begin_on_sqlite)
    return engine


def _begin_on_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if not options.get(_WRITE):
        connection.exec_driver_sql("BEGIN")
        return
    connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if options.get(_SYNCED) else 'NORMAL'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_on_postgresql(connection: Connection) -> None:
    if not connection.get_execution_options().get(_SYNCED, True):
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")


class _HintingCompiler(SQLiteCompiler):
    """`Select.with_hint` reaches SQLite too, as in `FROM t INDEXED BY i`; SQLAlchemy leaves it out."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:
        return text


def _is_ours_or_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file may be touched: switching to WAL writes to it. Whose it is is told by `upgrade.check`."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (schema_version,) = connection.execute("PRAGMA schema_version").fetchone()
    return bool(application_id == APPLICATION_ID or schema_version == 0)


def _create_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise DatabaseUnavailableError(
            f"The SQLite store {path} cannot be made: {error.strerror}.", hint=UNABLE_TO_OPEN
        ) from error


def _is_write_protected(path: Path) -> bool:
    """Whether this user cannot write the file, or nobody is meant to (root can all the same)."""
    if not path.exists():
        return False
    return not os.access(path, os.W_OK) or not path.stat().st_mode & 0o222


def _prepare_postgresql(connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'UTC'")
        cursor.execute("SET idle_in_transaction_session_timeout = '60s'")
        cursor.execute("SET lock_timeout = '30s'")
        # A statement that hangs ends; the limit that an administrator gave to a role stays.
        cursor.execute(
            "SELECT set_config('statement_timeout', '15min', false)"
            " WHERE current_setting('statement_timeout') = '0'"
        )
        # The server's C library gives memory back after each statement and asks for it again, page fault by page fault,
        # until it once freed as large a piece as this: without it, a page's statement takes a quarter longer.
        cursor.execute("SELECT length(repeat(repeat(' ', 512), 1024))")
        # One condition's values say nothing about the next one's: some match a thousandth of the jobs, some all.
        cursor.execute("SET plan_cache_mode = force_custom_plan")
    connection.commit()
