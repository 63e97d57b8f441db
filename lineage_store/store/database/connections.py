"""SQLite files: how they are created, opened and set up.

In: the URL of a file that may not exist yet. Out: an engine that has not connected yet.
Promises: a file is created with mode 0600 and, unless the caller allows it, never on a network filesystem; the settings
of a file that another application made are not changed; a write-protected file is only read; an engine for reading only
creates no store, and no files beside a store that this user may not write. Does not know transactions (`engine`), nor
tables.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from sqlalchemy import Engine, FromClause, create_engine, event
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.exc import DisconnectionError, InvalidatePoolError, NoSuchModuleError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from lineage_store.errors import Cause, ConfigError, DatabaseUnavailableError, PermissionDeniedError
from lineage_store.finding_kinds import KINDS
from lineage_store.paths import (
    Identity,
    beside,
    filesystem_type,
    identity_of,
    is_network,
    refuse_network_filesystem,
)
from lineage_store.store.database import sql
from lineage_store.store.database.failures import UNABLE_TO_OPEN, is_damage

LEAST_VERSION = (3, 35)
"""The first version with RETURNING."""
BUSY_TIMEOUT_S = 5.0
_BUSY_PAUSE_S = 0.01
APPLICATION_ID = 0x4C537472
"""`LStr` in ASCII: marks our files (the command `file` shows it)."""
WAL_KEPT_BYTES = 64 * 1024 * 1024
"""SQLite cuts the write-ahead log to this size when it reuses it: a long reader may have made it longer."""
_STEPS_BETWEEN_LOOKS = 1_000
_CACHE_KIB = 64 * 1024
_WAL_VERSION = slice(18, 20)
"""The bytes of a file's header that say whether it is in WAL mode."""


def make_sqlite_engine(
    url: URL,
    path: Path | None,
    *,
    read_only: bool,
    allow_network_filesystem: bool,
    pool_size: int,
    statement_timeout_s: float,
) -> Engine:
    """Make an engine for the file `path`, or for a database in memory if it is None.

    Raises ConfigError, UnsafeStoreLocationError, PermissionDeniedError.
    """
    if sqlite3.sqlite_version_info < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise ConfigError(
            f"This Python has SQLite {sqlite3.sqlite_version}; {least} or newer is needed.",
            hint="Use a Python with a newer SQLite, or PostgreSQL.",
        )
    if path is not None:
        _refuse_out_of_reach(path)
    read_only = read_only or (path is not None and _is_only_read(path, allow_network_filesystem))
    connecting: dict[str, Any] = {"timeout": BUSY_TIMEOUT_S}
    if statement_timeout_s:
        connecting["factory"] = TimedConnection
    if path is None:
        engine = create_engine(url, connect_args=connecting)
    else:
        bounds = bounded(pool_size)
        engine = create_engine(url.set(database=str(path)), connect_args=connecting, **bounds)
    engine.dialect.statement_compiler = _HintingCompiler
    watch(engine, path, reads_snapshots=read_only)
    look_after(engine, pings=False)

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        if path is not None and read_only:
            arguments[0], options["uri"] = read_only_uri(path), True
        elif path is not None and not path.exists():
            _create_private(path)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: Any) -> None:
        if isinstance(connection, TimedConnection):
            connection.end_statements_after(statement_timeout_s)
        else:
            sql.install(connection, sql.matches)
        _prepare(connection, query_only=read_only or (path is not None and _is_write_protected(path)))

    return engine


def _prepare(connection: sqlite3.Connection, *, query_only: bool) -> None:
    connection.isolation_level = None  # else the driver begins transactions of its own
    harden(connection)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    if query_only:
        connection.execute("PRAGMA query_only = ON")
    elif _is_ours_or_empty(connection):
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")


def harden(connection: sqlite3.Connection) -> None:
    """Let nothing in a file's schema call a function that does more than compute, and read no page without checks."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def look_for_damage(path: Path, within_s: float) -> tuple[str | None, bool]:
    """Check the structure of every page, then rows against their indexes, for `within_s` at most.

    Return what SQLite says of the first damage, None if it found none, and whether it came to the end of the pages.
    """
    end = time.monotonic() + within_s
    is_checked = False
    with closing(sqlite3.connect(read_only_uri(path), uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
        harden(connection)
        connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS_BETWEEN_LOOKS)
        try:
            for check in ("quick_check", "integrity_check"):
                (said,) = connection.execute(f"PRAGMA {check}(1)").fetchone()
                is_checked = True
                if said != "ok":
                    return said.partition("\n")[0], True
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                return str(error), True
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
    return None, is_checked


def _refuse_out_of_reach(path: Path) -> None:
    """Raise PermissionDeniedError if this user may not even see whether the file exists."""
    try:
        path.stat()
    except PermissionError as error:
        raise PermissionDeniedError(
            f"The SQLite store {path} cannot be reached: this user may not enter its directory.",
            hint="Be its user, or read a snapshot that its user makes (`lineage-store backup FILE --mode 444`).",
            cause=Cause.CLOSED,
        ) from error
    except OSError:
        return


def _is_only_read(path: Path, allow_network_filesystem: bool) -> bool:
    """Return whether the file is a write-protected snapshot, which may be on a network filesystem and is only read.

    Raises UnsafeStoreLocationError if another file would be on a network filesystem.
    """
    if allow_network_filesystem:
        return False
    if _is_write_protected(path) and is_network(filesystem_type(path)):
        return True
    refuse_network_filesystem(path)
    return False


class _HintingCompiler(SQLiteCompiler):
    """Writes the hints of `Select.with_hint`, such as `INDEXED BY i`, which SQLAlchemy leaves out for SQLite."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:
        return text


def _is_ours_or_empty(connection: sqlite3.Connection) -> bool:
    """Return whether the file may be switched to WAL, which writes to it. `upgrade.check` reports files of others."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (schema_version,) = connection.execute("PRAGMA schema_version").fetchone()
    return bool(application_id == APPLICATION_ID or schema_version == 0)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch a file to WAL mode, if it is not in it yet; try again while the file is locked.

    SQLite's busy timeout does not apply here: SQLite requests this lock while it holds a read lock, and fails at once
    to avoid a deadlock. Of two processes that open a new file at the same time, one would fail.
    """
    give_up_at = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > give_up_at:
                raise
        time.sleep(_BUSY_PAUSE_S)


def _create_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise DatabaseUnavailableError(
            f"The SQLite store {path} cannot be made: {error.strerror}.", hint=UNABLE_TO_OPEN
        ) from error


def read_only_uri(path: Path) -> str:
    """Return the URI by which SQLite opens a file for reading only. Raises DatabaseUnavailableError if it cannot."""
    uri = f"file:{quote(os.fsencode(path))}?mode=ro"
    if not path.exists() or os.access(path, os.W_OK):
        return uri
    log, index = beside(path, "-wal"), beside(path, "-shm")
    if _has_write_ahead_log(path) and not (log.exists() and index.exists()):
        raise DatabaseUnavailableError(
            f"The SQLite store {path} cannot be read now: it keeps a write-ahead log, no process has it open, and "
            f"this user may not make {log.name} and {index.name}, without which SQLite does not read it.",
            hint="Read it while its user's daemon runs, read a snapshot that its user makes "
            "(`lineage-store backup FILE --mode 444`), or be its user.",
            cause=Cause.CLOSED,
        )
    return f"{uri}&readonly_shm=1"  # a -shm file that this user creates would lock the store's user out


def _has_write_ahead_log(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(_WAL_VERSION.stop)[_WAL_VERSION] == b"\2\2"
    except OSError:
        return False


def _is_write_protected(path: Path) -> bool:
    """Return whether this user cannot write the file, or its mode lets nobody write it (root could all the same)."""
    if not path.exists():
        return False
    return not os.access(path, os.W_OK) or not path.stat().st_mode & 0o222


# ---- A statement timeout for SQLite, like PostgreSQL's `statement_timeout`
# In: a connection and seconds. Out: `sqlite3.OperationalError` (SQLITE_INTERRUPT) from a statement that takes longer,
# fetching its rows included. Promises: it ends with the row at which it is, also when each row takes long, because a
# thread interrupts it; a row takes no longer than a second, as `patterns` compares long texts in pieces. A signal
# during a statement still raises KeyboardInterrupt, although SQLite swallows the exceptions of its handlers.


T = TypeVar("T")

_STEPS_BETWEEN_CLOCK_READS = 500_000
"""Steps of SQLite's virtual machine between two looks for signals: each takes the GIL, which other threads need."""
_AGAIN_S = 0.05
"""Time between two interrupts of the same statement: one that comes just before it begins is lost."""


class _Deadline:
    """When the statement of a connection must have ended, and whether one is running."""

    __slots__ = ("at", "is_running", "lock")

    def __init__(self) -> None:
        self.at, self.is_running, self.lock = math.inf, False, threading.Lock()

    def is_over(self) -> bool:
        return time.monotonic() > self.at


class _TimedCursor(sqlite3.Cursor):
    """Starts its connection's deadline with each statement."""

    connection: TimedConnection

    def execute(self, *arguments: Any) -> Any:
        return self.connection.timed(super().execute, *arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self.connection.timed(super().executemany, *arguments)

    def fetchone(self) -> Any:
        return self.connection.interruptible(super().fetchone)

    def fetchmany(self, *arguments: Any) -> list[Any]:
        return self.connection.interruptible(super().fetchmany, *arguments)

    def fetchall(self) -> list[Any]:
        return self.connection.interruptible(super().fetchall)


class TimedConnection(sqlite3.Connection):
    """A connection whose statements can have a timeout."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seconds, self._deadline = math.inf, _Deadline()
        self._raised: BaseException | None = None
        sql.install(self, self._search)

    def end_statements_after(self, seconds: float) -> None:
        """Set the timeout of each statement from now on."""
        self._seconds = seconds
        self.set_progress_handler(self._deadline.is_over, _STEPS_BETWEEN_CLOCK_READS)
        _WATCH.add(self)

    def interrupt(self) -> None:
        """Let the running statement and every later one time out; called from another thread."""
        self._seconds = self._deadline.at = -math.inf
        super().interrupt()

    def cursor(self, *_: Any) -> Any:
        return super().cursor(_TimedCursor)

    def timed(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that begins a statement."""
        with self._deadline.lock:
            self._deadline.at = time.monotonic() + self._seconds
        return self.interruptible(call, *arguments)

    def interruptible(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run a call that executes a part of a statement; raise KeyboardInterrupt if a signal ended it."""
        self._deadline.is_running = True
        try:
            return call(*arguments)
        except sqlite3.OperationalError as error:
            if self._raised is not None:  # SQLite says only that a function raised something
                raised, self._raised = self._raised, None
                raise raised from error
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT and not self._deadline.is_over():
                raise KeyboardInterrupt from error
            raise
        finally:
            with self._deadline.lock:  # so that no interrupt hits the next statement
                self._deadline.is_running = False

    def _search(self, text: str, pattern: str) -> bool:
        try:
            return sql.matches(text, pattern, self._check)
        except BaseException as error:
            self._raised = error
            raise

    def _check(self) -> None:
        if self._deadline.is_over():
            late = sqlite3.OperationalError("interrupted")
            late.sqlite_errorcode = sqlite3.SQLITE_INTERRUPT
            raise late

    def interrupt_late(self) -> float:
        """Interrupt a statement that runs past its deadline; return the time before which none can."""
        with self._deadline.lock:
            now, deadline = time.monotonic(), self._deadline
            if deadline.is_running and deadline.is_over():
                with suppress(sqlite3.ProgrammingError):  # it was closed
                    super().interrupt()
            return max(now + _AGAIN_S, deadline.at if deadline.is_running else now + self._seconds)


class _Watch:
    """A thread that interrupts the late statements of this process; it sleeps while none can be late."""

    _changed: threading.Condition
    _connections: WeakSet[TimedConnection]
    _thread: threading.Thread | None

    def __init__(self) -> None:
        self.begin()

    def add(self, connection: TimedConnection) -> None:
        """Watch a connection from now on."""
        with self._changed:
            self._connections.add(connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="statement timeouts", daemon=True)
                self._thread.start()
            self._changed.notify()

    def begin(self) -> None:
        """Watch nothing yet: a fork has neither the thread nor a use for the connections of its parent."""
        self._changed, self._thread = threading.Condition(), None
        self._connections = WeakSet()

    def _watch(self) -> None:
        with self._changed:
            while True:
                at = min((each.interrupt_late() for each in list(self._connections)), default=math.inf)
                self._changed.wait(min(at - time.monotonic(), threading.TIMEOUT_MAX))


_WATCH = _Watch()
os.register_at_fork(after_in_child=_WATCH.begin)


# ---- Detect that a SQLite file or its write-ahead log was removed or replaced while open: writes to it would be lost
# In: an engine on a SQLite file. Out: at the next use of a connection, a `DatabaseUnavailableError` with the cause
# `gone` as long as there is no file, or `replaced`, once. A reader of snapshots connects anew without an error,
# because they are meant to be replaced. Promises: a removed file is not made anew as an empty one; a new file is
# never read with the write-ahead log of the old one, which SQLite would not notice; if the log alone was removed, its
# content is first written into the file if that is safe. Does not know the content of the files.


_NEVER_REMOVE = (
    "Never remove {} while the store is open: labels and remarks that were written last may be lost. Try again: what "
    "is missing of log files is read again."
)
"""Device and inode of a file."""


@dataclass(slots=True)
class _Known:
    """What an engine knows of a store's file, its write-ahead log (-wal) and the log's index (-shm)."""

    path: Path
    log: Path
    index: Path
    opened: bool = False
    old_log: Identity | None = None
    """The write-ahead log of a removed or replaced file, if the log is still in its place."""


def watch(engine: Engine, path: Path | None, *, reads_snapshots: bool) -> None:
    """Check at each use of a connection that the file is still the one that was opened; None: a database in memory."""
    if path is None:
        return
    log_path, index_path = beside(path, "-wal"), beside(path, "-shm")
    known = _Known(path, log_path, index_path)

    @event.listens_for(engine, "do_connect")
    def refuse(*_: Any) -> None:
        if known.opened and not path.exists():
            raise _gone(path)
        if known.old_log is not None and identity_of(log_path) == known.old_log:
            raise _replaced(
                path, f"Remove {log_path.name} and {index_path.name}: they belong to the old one."
            )

    @event.listens_for(engine, "connect")
    def remember(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info["file"], known.opened = identity_of(path), not reads_snapshots

    @event.listens_for(engine, "checkout")
    def compare(connection: sqlite3.Connection, record: ConnectionPoolEntry, _proxy: Any) -> None:
        found = identity_of(path)
        if found == record.info["file"]:
            _see_its_log(engine, known, connection, record)
            return
        if found is not None and (log := identity_of(log_path)) in _held_open():
            known.old_log = log
        if reads_snapshots:
            raise InvalidatePoolError
        engine.dispose()
        raise _gone(path) if found is None else _replaced(path, KINDS["database_replaced"].remedy)


def _see_its_log(
    engine: Engine, known: _Known, connection: sqlite3.Connection, record: ConnectionPoolEntry
) -> None:
    """Raise if the log that a connection writes is not in its place any more; first try to write it into the file."""
    log, index = identity_of(known.log), identity_of(known.index)
    opened = record.info.get("log")
    if opened is None or opened[0] == log:
        record.info["log"] = log and (log, index)  # SQLite makes the log when it first reads
        return
    if opened[1] == index:  # all processes still share this index, so a checkpoint is safe
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint(FULL)")
    engine.dispose()
    raise _replaced(known.path, _NEVER_REMOVE.format(known.log.name), lost=known.log.name)


def _held_open() -> set[Identity | None]:
    """Return the files that this process has open; none where there is no /proc."""
    try:
        return {identity_of(Path("/proc/self/fd", number)) for number in os.listdir("/proc/self/fd")} - {None}
    except OSError:
        return set()


def _gone(path: Path) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        f"The SQLite store {path} was removed while it was in use.",
        hint=KINDS["database_gone"].remedy,
        cause=Cause.GONE,
    )


def _replaced(path: Path, hint: str, *, lost: str | None = None) -> DatabaseUnavailableError:
    how = f"lost its write-ahead log {lost}" if lost else "was replaced by another file"
    return DatabaseUnavailableError(
        f"The SQLite store {path} {how} while it was in use.", hint=hint, cause=Cause.REPLACED
    )


# ---- Sessions of a PostgreSQL server: how they are connected and set up
# In: a URL for psycopg. Out: an engine that has not connected yet. Promises: a server that stops answering is noticed
# after about a minute; waiting for a lock and idling in a transaction are limited; no default that an administrator
# set changes the values that are read. Behind a pooler that lends a session per transaction (PgBouncer), no setting
# stays in the session: the settings are made in each transaction, and no statement is prepared by name. Does not know
# transactions (`engine`), nor tables.


CONNECTING = {
    "client_encoding": "UTF8",
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Parameters of libpq. Times are in seconds, `tcp_user_timeout` in milliseconds."""
_LONGEST_MS = 2**31 - 1
_IN_EACH_TRANSACTION = "lineage_store_in_each_transaction"
# - DateStyle, extra_float_digits: psycopg parses no other dates, and fewer digits would change floats.
# - plan_cache_mode: a generic plan does not fit the values of each condition: with one, the page of a rare network
#   sorted by a metric takes 16x as long, and its count 6x (100,000 jobs).
# - enable_mergejoin: for our conditions hash joins are as fast, and a page takes 1.3x as much CPU time merely because
#   the planner considers merge joins (page-*-postgresql-100k).
# - statement_timeout: a shorter one, which an administrator gave to the role, stays.
_SETTINGS = """
SELECT set_config('TimeZone', 'UTC', %(local)s), set_config('DateStyle', 'ISO', %(local)s),
  set_config('extra_float_digits', '1', %(local)s), set_config('idle_in_transaction_session_timeout', '60s', %(local)s),
  set_config('lock_timeout', '30s', %(local)s), set_config('plan_cache_mode', 'force_custom_plan', %(local)s),
  set_config('enable_mergejoin', 'off', %(local)s), set_config('statement_timeout',
    (CASE WHEN %(timeout_ms)s > 0 AND (ms = 0 OR ms > %(timeout_ms)s) THEN %(timeout_ms)s ELSE ms END)::bigint::text,
    %(local)s)
FROM (SELECT 1000 * extract(epoch FROM current_setting('statement_timeout')::interval) AS ms) here
"""


def make_postgresql_engine(
    url: URL, *, read_only: bool, pool_size: int, statement_timeout_s: float
) -> Engine:
    """Make an engine for a database of a server. Raises ConfigError if psycopg is not installed."""
    try:
        bounds = bounded(pool_size)
        engine = create_engine(url, connect_args=CONNECTING, isolation_level="READ COMMITTED", **bounds)
    except (ImportError, NoSuchModuleError) as error:
        raise ConfigError(
            "PostgreSQL needs the driver psycopg.", hint="Run: pip install 'lineage-store[postgresql]'"
        ) from error

    timeout_ms = min(max(1, round(statement_timeout_s * 1000)), _LONGEST_MS) if statement_timeout_s else 0

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: ConnectionPoolEntry) -> None:
        if _is_lent(connection):
            connection.prepare_threshold = None
            record.info[_IN_EACH_TRANSACTION] = {"local": True, "timeout_ms": timeout_ms}
        else:
            connection.execute(_SETTINGS, {"local": False, "timeout_ms": timeout_ms})
        connection.commit()
        connection.read_only = read_only or None  # None: the server's default, which may be read-only

    @event.listens_for(engine, "handle_error")
    def close_cursor(context: ExceptionContext) -> None:
        # SQLAlchemy leaves the cursor of a lost connection open, and psycopg warns of a server's cursor that is.
        cursor = getattr(context.execution_context, "cursor", None)
        if context.is_disconnect and cursor is not None:
            with suppress(Exception):
                cursor.close()

    look_after(engine, pings=True)
    return engine


def begin_transaction(connection: Any, info: Mapping[str, Any]) -> None:
    """Make the settings at the beginning of a transaction, if a pooler lends the session for this transaction only.

    Args:
        info: that of the pooled connection.
    """
    if settings := info.get(_IN_EACH_TRANSACTION):
        connection.execute(_SETTINGS, settings)


def _is_lent(connection: Any) -> bool:
    """Return whether a pooler is in between: the session's process is not the one named at the start of connecting."""
    found = connection.execute("SELECT pg_backend_pid()").fetchone() != (connection.info.backend_pid,)
    return bool(found)


# ---- The connection pool: when a pooled connection may be used again, and when it is closed or made anew
# In: an engine, whose pool's events are handled here. Out: each use gets a connection that answers and is not
# outdated. Promises: a thread that renews an engine's connections neither disturbs nor loses those that other threads
# use. Does not know what connections are used for, nor the kind of database.


WAIT_S = 30.0
"""How long a thread waits for a free connection."""
_RESTED_AFTER_S = 1.0
_RENEWED_AT, _CLOSED = "lineage_store_renewed_at", "lineage_store_closed"


def bounded(size: int) -> dict[str, Any]:
    """Return arguments of `create_engine` for at most `size` connections; a thread waits if none is free."""
    return {"pool_size": size, "max_overflow": 0, "pool_timeout": WAIT_S}


def size_of(engine: Engine) -> int:
    """Return how many connections an engine opens at most."""
    assert isinstance(engine.pool, QueuePool)
    return engine.pool.size()


def reconnect(engine: Engine) -> None:
    """Close the idle connections of the pool, and make those in use anew before they are used again.

    `Engine.dispose` would lose a connection that another thread is just acquiring: it would return to a discarded pool.
    Here the pool stays. But it no longer counts the connections that are in use, so it may exceed its limit by them.
    """
    engine.update_execution_options(**{_RENEWED_AT: time.monotonic()})
    engine.pool.dispose()


def look_after(engine: Engine, *, pings: bool) -> None:
    """Check before a connection is used again that `renew` was not called since and, with `pings`, that it answers.

    Only a connection that was idle for a while is pinged: a ping at each use (`pool_pre_ping`) costs a tenth of a small
    question's time. A new connection is not checked. One that was in use during `dispose` is closed when it is
    returned: nobody else would close it.
    """

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, record: Any, *_: Any) -> None:
        record.info["connected_at"] = time.monotonic()
        # Kept in `record_info`, because the record outlives its connections.
        record.record_info.setdefault("pool", engine.pool)

    @event.listens_for(engine, "checkin")
    def come_back(_connection: Any, record: Any) -> None:
        record.info["rests_since"] = time.monotonic()
        if record.record_info.get("pool") is not engine.pool or engine.get_execution_options().get(_CLOSED):
            record.close()

    @event.listens_for(engine, "checkout")
    def look(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        rests_since = record.info.get("rests_since")
        if rests_since is None:
            return
        if record.info["connected_at"] <= engine.get_execution_options().get(_RENEWED_AT, -math.inf):
            raise DisconnectionError
        if pings and time.monotonic() - rests_since >= _RESTED_AFTER_S:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise InvalidatePoolError from error


def close(engine: Engine) -> None:
    """Close an engine for good: a connection that another thread still uses is closed when that thread returns it."""
    engine.update_execution_options(**{_CLOSED: True})
    engine.dispose()
