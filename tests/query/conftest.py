"""A database for each test, for questions about what the test stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.engines import opened
from lineage_store.store.database.db import writing
from lineage_store.store.database.sql import Session


@pytest.fixture
def session(database_url: str) -> Iterator[Session]:
    """A transaction that sees what the test puts in."""
    with opened(database_url) as engine, writing(engine) as session:
        yield session
