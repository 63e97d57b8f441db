"""Fixtures for folders whose tests ingest: an engine on an empty store, and an empty base dir.

A conftest imports the names that its folder needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.engines import opened


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An empty store; the test runs on each kind of database."""
    with opened(database_url) as engine:
        yield engine


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[Engine]:
    """An empty store on SQLite, for behaviour that does not depend on the database."""
    with opened(sqlite_url) as engine:
        yield engine


@pytest.fixture
def postgres_engine(postgres_url: str) -> Iterator[Engine]:
    """An empty store on PostgreSQL, for features that SQLite does not have."""
    with opened(postgres_url) as engine:
        yield engine


@pytest.fixture
def base_dir(tmp_path: Path) -> Path:
    """An empty base dir."""
    path = tmp_path / "base"
    path.mkdir()
    return path
