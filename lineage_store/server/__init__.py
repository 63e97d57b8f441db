"""The server: it gives access to a store over HTTP.

In: settings. Out: `create_app`, which makes an ASGI application from given settings; and `app`, the application for
`uvicorn lineage_store.server:app`, made on first use from the environment and the settings file.
Promises: importing this package imports no library of the extra `[web]`; where one is missing, `create_app` and `app`
raise a ConfigError that says what to install. Does not know: SQL and log formats; of the store it imports `api` alone.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from lineage_store import config
from lineage_store.config import Settings
from lineage_store.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI


def create_app(settings: Settings) -> FastAPI:
    """Return the application for a store. Raises ConfigError for a setting that is not allowed, or without `[web]`."""
    require_web()
    from lineage_store.server.application import application_for

    return application_for(settings)


def require_web() -> None:
    """Raise ConfigError unless the libraries of the extra `[web]` can be imported."""
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
    return create_app(config.load().settings)


def __getattr__(name: str) -> Any:
    if name == "app":
        return _app_of_environment()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
