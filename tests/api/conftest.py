"""One PostgreSQL database for all tests of this folder, emptied before each."""

from helpers.emptied_postgres import postgres_url, shared_postgres_url

__all__ = ["postgres_url", "shared_postgres_url"]
