"""The server: what is in a store, over HTTP.

In: settings. Out: `app`, an ASGI application for whoever runs a server of his own (`uvicorn lineage_store.server:app`,
settings from environment and configuration file), made when it is first used; `create_app` with settings of one's own.
Promises: nothing of the extra `[web]` is imported before; without it a ConfigError says what to install. Imports `api`
alone: it knows no SQL and no log format.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from lineage_store import setting_sources
from lineage_store.config import Settings
from lineage_store.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI


def create_app(settings: Settings) -> FastAPI:
    """The application for a store. Raises ConfigError where a setting or the extra does not allow it."""
    require_web()
    from lineage_store.server.application import create_app

    return create_app(settings)


def require_web() -> None:
    """Raise ConfigError unless the libraries of the extra are here."""
    try:
        import fastapi  # noqa: F401
        import orjson  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"The server needs a package that cannot be imported: {error}.",
            hint="Run: pip install 'lineage-store[web]'",
        ) from error


@cache
def _app_of_environment() -> FastAPI:
    return create_app(setting_sources.load().settings)


def __getattr__(name: str) -> Any:
    if name == "app":
        return _app_of_environment()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
