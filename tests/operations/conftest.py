"""Fixtures for operations: an engine on an empty store, and an empty base dir."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from helpers.emptied_postgres import postgres_url, shared_postgres_url
from lineage_store.store.database.engine import open_engine

__all__ = ["postgres_url", "shared_postgres_url"]


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
