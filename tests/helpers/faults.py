"""Databases that fail while a process writes to them: each fault is a block, and ends with it.

In: the engine of the writer, in this process. Out: every failure is raised by the database itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from helpers.databases import needs_databases
from helpers.engines import url_of
from helpers.ingesting import column
from lineage_store.store.database.db import open_engine, writing

_END_SESSIONS = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{}'"
_WITHOUT_SPACE = (  # in the session's own schema, which hides ours: the store's catalog stays as it is
    "CREATE TEMPORARY TABLE scalar_sample (LIKE scalar_sample)",
    "CREATE FUNCTION pg_temp.without_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$",
    "CREATE TRIGGER without_space BEFORE INSERT ON scalar_sample EXECUTE FUNCTION pg_temp.without_space()",
)


@contextmanager
def every_connection(engine: Engine, *statements: str) -> Iterator[None]:
    """Let an engine open new connections that begin with these statements; after the block, new ones without them."""
    mark, over = object(), threading.Event()

    def begin(connection: Any, record: ConnectionPoolEntry) -> None:
        if not over.is_set():
            record.info["fault"] = mark
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    def renew(_connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        if (record.info.get("fault") is mark) == over.is_set():
            raise DisconnectionError

    event.listen(engine, "connect", begin)
    event.listen(engine, "checkout", renew)
    yield
    over.set()


@contextmanager
def locked(engine: Engine) -> Iterator[None]:
    """Let another session hold a lock that every write needs. The caller shortens its own SQLite's busy timeout."""
    other = open_engine(url_of(engine))
    if engine.dialect.name == "sqlite":
        with every_connection(other, "PRAGMA busy_timeout = 30000"), writing(other):
            yield
    else:
        impatient = every_connection(engine, "SET lock_timeout = '1500ms'")
        with impatient, writing(other) as session:
            session.change(text("LOCK TABLE ingest_lease IN EXCLUSIVE MODE"))
            yield
    other.dispose()


@contextmanager
def full(engine: Engine) -> Iterator[None]:
    """Leave no room for new rows."""
    if engine.dialect.name == "sqlite":
        (pages,) = column(engine, "PRAGMA page_count")
        with every_connection(engine, f"PRAGMA max_page_count = {pages}"):
            yield
        return
    with every_connection(engine, *_WITHOUT_SPACE):
        yield


@contextmanager
def read_only(engine: Engine) -> Iterator[None]:
    """Let nobody write."""
    if engine.dialect.name == "sqlite":
        file = Path(str(engine.url.database))
        file.chmod(0o400)
        with every_connection(engine):
            yield
        file.chmod(0o600)
        return
    _alter_database(engine, "SET default_transaction_read_only = on")
    yield
    _alter_database(engine, "RESET default_transaction_read_only")


@contextmanager
def down(engine: Engine) -> Iterator[None]:
    """Let nobody connect."""
    if engine.dialect.name == "sqlite":
        directory = Path(str(engine.url.database)).parent
        away = directory.rename(directory.with_name("away"))
        with every_connection(engine):
            yield
        away.rename(directory)
        return
    _alter_database(engine, "ALLOW_CONNECTIONS false")
    yield
    _alter_database(engine, "ALLOW_CONNECTIONS true")


def _alter_database(engine: Engine, how: str) -> None:
    needs_databases(url_of(engine))
    name = engine.url.database
    administrator = create_engine(engine.url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} {how}"))
        connection.execute(text(_END_SESSIONS.format(name)))
    administrator.dispose()
