"""Run SQL that other people wrote, so that it can read but do nothing else.

In: an engine and one statement. Out: column names and rows, as they are read.
Promises: nothing is changed. On SQLite a program of its own (`sqlite_reader`) refuses everything but reading; it can be
killed, even within a function. On PostgreSQL the statement runs in a READ ONLY transaction, and must begin
with a word such as SELECT, because such a transaction still lets COPY write files and run programs on the server; the
extended protocol allows one statement only; roles that READ ONLY does not bind, such as superusers, are refused (SET
ROLE would not help: a function called in a SELECT can set the role back); and so are functions that write, lock or run
text as SQL in such a transaction, too. A statement that has no row within the
timeout is ended; after its first row it may go on as long as somebody reads.
"""

from __future__ import annotations

import math
import re
import select
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from lineage_store.errors import (
    Cause,
    DatabaseUnavailableError,
    LineageParamTypeError,
    LineageParamValueError,
    LineageQuerySummaryDataError,
)
from lineage_store.finding_kinds import of_cause
from lineage_store.store.admin import sqlite_reader
from lineage_store.store.database import connections
from lineage_store.store.database.db import connected, open_engine, sqlite_path
from lineage_store.store.database.failures import cause_of, is_damage
from lineage_store.texts import meant, shown

if TYPE_CHECKING:
    import psycopg


_MISSING = re.compile(r'(?P<what>column|table|relation):? "?(?:\w+\.)?(?P<name>\w+)')
_STARTS_WITHIN_S = 30.0
"""How long the program that asks SQLite may take to start; its statement is not blamed for that."""
_ROWS_AT_A_TIME = 1000
_LONGEST = "1d"
"""PostgreSQL's statement_timeout, which ends statements whose client has disappeared."""
_ASKING = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "EXPLAIN", "SHOW"})
# Nested comments, which PostgreSQL knows and SQLite does not, do not match: nothing can be hidden behind them.
_BLANK = re.compile(r"(?:[\s(;]|--[^\r\n]*|/\*(?:(?!/\*|\*/).)*\*/)*", re.DOTALL)
_ONLY_READS = re.compile(
    r"array_(sample|shuffle)|clock_timestamp|current_query|currval|gen_random_uuid|lastval|random(_normal)?|setseed"
    r"|timeofday|txid_status|uuidv[47]|uuid_generate_\w+|gen_salt|gen_random_bytes"
    r"|pg_(blocking_pids|collation_actual_version|database_collation_actual_version|jit_available|lock_status"
    r"|notification_queue_usage|partition_(ancestors|tree)|prepared_xact|safe_snapshot_blocking_pids"
    r"|sequence_last_value|sleep(_for|_until)?|stat_clear_snapshot|wal_summary_contents|available_wal_summaries"
    r"|xact_(status|commit_timestamp(_origin)?)|is_(in_recovery|wal_replay_paused)"
    r"|(control|current_wal|get|last|stat_get)_\w+|(database|indexes|relation|table|tablespace|total_relation)_size)"
    r"|pg_stat_statements(_info)?"
)
"""Volatile functions that only read: of PostgreSQL, and of uuid-ossp, pgcrypto and pg_stat_statements."""
_OTHERS_THAT_WRITE = ("txid_current", "pg_current_xact_id", "crosstab", "crosstab2", "crosstab3", "crosstab4")
"""Not volatile, and yet: the first two write a transaction number, the others (tablefunc) run a text as SQL."""
_WORD = re.compile(r"\w+")
_CALLED = re.compile(r'(\w+)"?\s*[(/-]')
"""A word with an opening parenthesis behind it, or something that may be a comment before one."""
_WRITING = """
SELECT DISTINCT p.proname FROM pg_catalog.pg_proc p
WHERE (p.proname = ANY(%(words)s) AND p.pronamespace = 'pg_catalog'::regnamespace AND p.provolatile = 'v')
  OR (p.proname = ANY(%(called)s) AND (p.provolatile = 'v' OR p.proname = ANY(%(others)s)) AND EXISTS (
    SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'))
  OR (p.proname = ANY(%(called)s) AND p.proname = ANY(%(others)s))
ORDER BY 1"""
"""The functions that a statement may call and that may do more than read: the volatile ones of PostgreSQL and of
extensions (any other promises to have no effects), and `_OTHERS_THAT_WRITE`. An administrator's own are not among them:
a READ ONLY transaction restricts those too."""
_LIMITS = """
SELECT set_config('statement_timeout', %s, true), set_config('standard_conforming_strings', 'on', true),
  set_config('enable_mergejoin', 'on', true),
  set_config('join_collapse_limit', '16', true), set_config('from_collapse_limit', '16', true), session_user, (
  SELECT rolname FROM pg_roles
  WHERE pg_has_role(session_user, oid, 'MEMBER') AND (rolsuper OR rolreplication OR rolname IN (
    'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program'))
  ORDER BY rolname <> session_user, rolname LIMIT 1)"""
"""The last column: a role that the session may become and that may do more than read and write tables, if there is one.
By functions a superuser can do anything, a role with REPLICATION can make and drop slots, and the other three can use
the server's files and programs."""
_ONLY_READING = (
    "Only reading is allowed here, one statement at a time: SELECT, WITH, VALUES, TABLE, EXPLAIN or SHOW."
)
_NO_EFFECTS = "Statements may only read and compute here."
_ONLY_READERS = (
    "Ask as a role that is neither a superuser nor close to one: `lineage-store db grant --reader ROLE` (or --analyst) "
    "gives it the right to read."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a statement."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    """To be read inside the block of `run`; reading may raise LineageQuerySummaryDataError."""


@dataclass(slots=True)
class _Deadline:
    """The time by which the first row must be there."""

    seconds: float
    at: float
    ran_out: bool = False

    def lift(self) -> None:
        """Remove the deadline, because the first row is there."""
        self.at = math.inf


@contextmanager
def run_statement(engine: Engine, statement: str, *, timeout_s: float) -> Iterator[Answer]:
    """Run one statement for the length of the block.

    Raises LineageQuerySummaryDataError if the statement is wrong, writes, or takes longer than `timeout_s` to its first
    row; LineageParamValueError if it is empty or no UTF-8, or if `timeout_s` is not above 0; LineageParamTypeError if
    it is no text, or `timeout_s` no number; DatabaseUnavailableError if there is no connection, or a standby has ended
    the statement.
    """
    if not isinstance(statement, str):
        raise LineageParamTypeError(f"The SQL statement must be a text, not {type(statement).__name__}.")
    if _without_blank(statement) == "":
        raise LineageParamValueError("There is no SQL statement.", hint="Give one SELECT.")
    if not statement.isascii() and statement != statement.encode("utf-8", "ignore").decode():
        raise LineageParamValueError("The SQL statement holds bytes that are no UTF-8 text.")
    if not isinstance(timeout_s, int | float):
        raise LineageParamTypeError(f"timeout_s = {shown(timeout_s)} must be a number of seconds.")
    if not timeout_s > 0:  # nor is NaN
        raise LineageParamValueError(f"A statement cannot end after {timeout_s} s.", hint="Give more than 0.")
    runner = _run_sqlite if engine.dialect.name == "sqlite" else _run_postgresql
    with runner(engine, statement, _Deadline(timeout_s, time.monotonic() + timeout_s)) as answer:
        yield answer


@contextmanager
def _run_sqlite(engine: Engine, statement: str, deadline: _Deadline) -> Iterator[Answer]:
    url, path = engine.url.render_as_string(hide_password=False), sqlite_path(engine.url)
    reader = open_engine(url, read_only=True, allow_network_filesystem=True, statement_timeout_s=0)
    try:
        connected(reader).close()  # says in our words why the file cannot be read
    finally:
        reader.dispose()
    database = ":memory:" if path is None else connections.read_only_uri(path)
    # -I and -S: import nothing but the standard library
    program = [sys.executable, "-I", "-S", sqlite_reader.__file__]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:  # noqa: S603
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            sqlite_reader.send(process.stdin, (database, statement))
            with _refusals_named(sqlite3.Error, deadline):
                _next(process, _Deadline(_STARTS_WITHIN_S, time.monotonic() + _STARTS_WITHIN_S))
                deadline.at = time.monotonic() + deadline.seconds
                columns, first = _next(process, deadline)
                deadline.lift()
                more = iter(partial(_next, process, deadline), None)
                yield Answer(columns, chain(first, chain.from_iterable(rows for _, rows in more)))
        finally:
            process.kill()


def _next(process: subprocess.Popen[bytes], deadline: _Deadline) -> Any:
    """Return the next columns and rows of the program that asks SQLite; None behind the last ones.

    Raises the error of SQLite. At the deadline, the program is killed.
    """
    assert process.stdout is not None
    said, waits_s = select.poll(), max(0.0, deadline.at - time.monotonic())
    said.register(process.stdout, select.POLLIN)
    if not said.poll(None if waits_s == math.inf else waits_s * 1000):
        process.kill()
        deadline.ran_out = True
        raise sqlite3.OperationalError("interrupted")
    try:
        kind, *content = sqlite_reader.receive(process.stdout)
    except EOFError:
        process.kill()
        raise sqlite3.OperationalError(f"the program that ran it ended: exit code {process.wait()}") from None
    if kind == sqlite_reader.ERROR:
        name, message, code = content
        error: sqlite3.Error = getattr(sqlite3, name, sqlite3.Error)(message)
        error.sqlite_errorcode = code
        raise error
    return content if kind == sqlite_reader.ROWS else None


@contextmanager
def _run_postgresql(engine: Engine, statement: str, deadline: _Deadline) -> Iterator[Answer]:
    import psycopg

    _refuse_unless_asking(statement)
    pooled: Any = connected(engine)
    connection: psycopg.Connection[Any] = pooled.driver_connection
    chunk = _ROWS_AT_A_TIME if psycopg.capabilities.has_stream_chunked() else 1
    try:
        connection.read_only = True
        with _refusals_named(psycopg.Error, deadline), connection.cursor() as cursor:
            connections.begin_transaction(connection, pooled.info)
            cursor.execute(_LIMITS, [_LONGEST])
            _refuse_unbound(*(cursor.fetchone() or ())[-2:])
            _refuse_writing(cursor, statement)
            # `stream` uses the extended protocol: `SELECT 1; COMMIT; DROP …` is an error, not three statements.
            rows = cursor.stream(statement.encode(), size=chunk)
            with _cancelled_at(deadline, connection):
                first = next(rows, None)
                if first is None:  # `stream` sets the columns with the first row only
                    cursor.execute(statement.encode(), binary=True)  # by the extended protocol, too
            yield _answer(cursor.description, chain(() if first is None else [first], rows))
    finally:
        pooled.invalidate()  # because the session was made READ ONLY


@contextmanager
def _cancelled_at(deadline: _Deadline, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Cancel the connection's statement at the deadline, unless the block has ended by then.

    The server's statement_timeout is of no use here, because it also counts the time in which rows are read.
    """

    import psycopg

    def cancel() -> None:
        deadline.ran_out = True
        with suppress(psycopg.Error):
            connection.cancel_safe()

    timer = threading.Timer(deadline.at - time.monotonic(), cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _refuse_unless_asking(statement: str) -> None:
    verb = re.split(r"\W", _without_blank(statement), maxsplit=1)[0].upper()
    if verb not in _ASKING:
        raise _refused(f"it begins with {verb!r}" if verb else "it does not begin with a word", _ONLY_READING)


def _refuse_unbound(user: str, unbound: str | None) -> None:
    if unbound is not None:
        how = "" if unbound == user else f", as a member of {unbound!r}"
        raise _refused(f"no READ ONLY transaction binds the role {user!r}{how}", _ONLY_READERS)


def _refuse_writing(cursor: psycopg.Cursor[Any], statement: str) -> None:
    """Refuse a statement that has the name of a function that writes, locks, or runs a text as SQL.

    Names are searched for in the text as it is, constants and comments included: nothing can be hidden, but in an
    identifier with escapes, which is refused.
    """
    if re.search(r'(?i)\bu&"', statement):
        raise _refused(
            'identifiers with escapes (U&"…") are not allowed here', "Write the name without escapes."
        )
    text = statement.lower()
    words = {"words": [*{*_WORD.findall(text)}], "called": [*{*_CALLED.findall(text)}]}
    cursor.execute(_WRITING, {**words, "others": [*_OTHERS_THAT_WRITE]})
    if names := [name for (name,) in cursor.fetchall() if not _ONLY_READS.fullmatch(name)]:
        raise _refused(f"{names[0]} writes, locks, or runs a text as SQL", _NO_EFFECTS)


def _without_blank(statement: str) -> str:
    """Return the statement without the blanks, comments, parentheses and semicolons before its first word."""
    return _BLANK.sub("", statement, count=1)


def _answer(description: Any, rows: Iterator[tuple[Any, ...]]) -> Answer:
    return Answer(tuple(str(column[0]) for column in description or ()), rows)


@contextmanager
def _refusals_named(errors: type[Exception], deadline: _Deadline) -> Iterator[None]:
    try:
        yield
    except errors as error:
        if is_damage(error):
            hint = of_cause(Cause.DAMAGED).remedy
            raise DatabaseUnavailableError(
                f"The SQLite file is damaged: {error}.", hint=hint, cause=Cause.DAMAGED
            ) from error
        if deadline.ran_out:
            raise LineageQuerySummaryDataError(
                f"The statement took longer than {deadline.seconds:g} s to its first row and was cancelled.",
                hint="Narrow it down, or allow more with --timeout SECONDS.",
            ) from error
        words = str(error).strip().splitlines()[0].rstrip(".")
        cause, remedy = cause_of(error, words, None)
        if cause == Cause.CONFLICT:
            raise DatabaseUnavailableError(
                f"The statement was cancelled: {words}.", hint=remedy, cause=cause
            ) from error
        raise _refused(words, _hint(words)) from error


def _refused(cause: str, hint: str | None) -> LineageQuerySummaryDataError:
    return LineageQuerySummaryDataError(f"The statement was refused: {cause}.", hint=hint)


def _hint(cause: str) -> str | None:
    if any(word in cause for word in ("not authorized", "read-only", "readonly", "prohibited")):
        return _ONLY_READING
    if "permission denied" in cause:
        return "Ask the owner of the database for the right to read: `lineage-store db grant --reader ROLE`."
    if any(word in cause for word in ("no such table", "no such column", "does not exist")):
        told = "docs/schema.md lists the views and their columns; so does the table schema_doc (PostgreSQL: \\d+)."
        return f"{_meant(cause)} {told}".lstrip()
    return None


def _meant(cause: str) -> str:
    """Return a text that names the views or columns closest to the missing one; "" if none is missing or close."""
    from lineage_store.store.schema.views import VIEWS

    if (missing := _MISSING.search(cause)) is None:
        return ""
    if missing["what"] == "column":
        return meant(missing["name"], (column.name for view in VIEWS for column in view.columns))
    return meant(missing["name"], (view.name for view in VIEWS))
