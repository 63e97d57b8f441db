"""A server on a small store, once on each kind of database."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from helpers.served import serving


@pytest.fixture
def client(stored_url: str) -> Iterator[httpx.Client]:
    """A client of a server on a store with the golden base dir in it."""
    with serving(stored_url) as client:
        yield client
