"""A server on a small store, once on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from helpers.served import serving
from lineage_store import LineageStore


@pytest.fixture
def stored_url(database_url: str, corpus: Path) -> str:
    """A store with the golden base dir in it; the test runs on each kind of database."""
    with LineageStore(database_url) as store:
        store.ingest(corpus)
    return database_url


@pytest.fixture
def client(stored_url: str) -> Iterator[httpx.Client]:
    """A client of a server on that store."""
    with serving(stored_url) as client:
        yield client
