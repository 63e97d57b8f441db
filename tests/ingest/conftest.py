"""Fixtures for ingest: an engine on an empty store, and an empty base dir."""

from __future__ import annotations

from helpers.emptied_postgres import postgres_url, shared_postgres_url
from helpers.empty_store import base_dir, engine, postgres_engine, sqlite_engine

__all__ = ["base_dir", "engine", "postgres_engine", "postgres_url", "shared_postgres_url", "sqlite_engine"]
