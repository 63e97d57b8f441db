"""`GET names`: what conditions, columns and sort orders may name."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.fields import FIELDS
from lineage_store.json_values import for_json
from lineage_store.server.answers import unless_known
from lineage_store.server.own import models
from lineage_store.server.state import Ask

router = APIRouter(tags=["jobs"])


@router.get("/names", response_model=models.Names)
async def names(request: Request, ask: Ask) -> Response:
    """Lineage fields, and the metrics and user-defined values that any job has."""
    return await unless_known(request, ask, _names)


def _names(store: LineageStore) -> dict[str, Any]:
    searchable = [field for field in FIELDS if field.searchable]
    fields = [{"name": each.name, "type": each.type, "meaning": each.meaning} for each in searchable]
    known: dict[str, Any] = for_json(store.names())
    return {"fields": fields, **known}
