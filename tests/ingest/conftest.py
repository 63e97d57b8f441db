"""Fixtures for ingest: an engine on an empty store, and an empty base dir.

On PostgreSQL the tests of this folder share a database, emptied before each: that takes a tenth of the time of
making one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from helpers import databases
from lineage_store.store.engine import open_engine
from lineage_store.store.schema import metadata


@pytest.fixture(scope="session")
def shared_postgres_url(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A migrated PostgreSQL database for all tests of this folder."""
    with databases.postgres_database(postgres_server, template=postgres_template) as url:
        yield url


@pytest.fixture
def postgres_url(shared_postgres_url: str) -> str:
    """An empty, migrated PostgreSQL database, to which nobody else is connected."""
    engine = open_engine(shared_postgres_url)
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    tables = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
    with engine.begin() as connection:
        connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"))
        connection.execute(text(f"TRUNCATE {tables}"))
    engine.dispose()
    return shared_postgres_url


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An empty store; the test runs on each kind of database."""
    opened = open_engine(database_url)
    yield opened
    opened.dispose()


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[Engine]:
    """An empty store on SQLite, for what cannot depend on the database."""
    opened = open_engine(sqlite_url)
    yield opened
    opened.dispose()


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """An empty base dir."""
    path = tmp_path / "base"
    path.mkdir()
    return path
