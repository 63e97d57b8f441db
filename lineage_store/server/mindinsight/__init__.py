"""MindInsight's REST API, `/v1/mindinsight/…`, on our store."""

from __future__ import annotations

from fastapi import FastAPI

from lineage_store.server.state import State


def application(state: State) -> FastAPI:
    """The application that is mounted at `/v1/mindinsight`; it asks the store of `state`."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.store = state
    return app
