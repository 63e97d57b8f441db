"""A database for each test, for questions about what the test stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection

from helpers.engines import opened
from lineage_store.store.database.db import writing


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A transaction that sees what the test puts in."""
    with opened(database_url) as engine, writing(engine) as connection:
        yield connection
