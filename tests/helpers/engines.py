"""Engines on test databases: closed after use, and the URL of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine

from lineage_store.store.database.db import open_engine


@contextmanager
def opened(url: str, **options: Any) -> Iterator[Engine]:
    """An engine for the length of a block."""
    engine = open_engine(url, **options)
    try:
        yield engine
    finally:
        engine.dispose()


def url_of(engine: Engine) -> str:
    """The URL of an engine's database, with its password."""
    return engine.url.render_as_string(hide_password=False)
