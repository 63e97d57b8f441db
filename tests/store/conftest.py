"""Engines on the test databases, closed after use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from helpers.empty_store import engine, postgres_engine, sqlite_engine
from helpers.engines import opened

__all__ = ["empty_engine", "engine", "postgres_engine", "sqlite_engine"]


@pytest.fixture
def empty_engine(empty_database_url: str) -> Iterator[Engine]:
    """On a database without any table."""
    with opened(empty_database_url) as engine:
        yield engine
