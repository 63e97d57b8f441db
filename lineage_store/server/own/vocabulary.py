"""`GET names`: the names for conditions, columns and sort orders; `GET values`: the values that jobs have."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.fields import FIELDS
from lineage_store.json_values import for_json
from lineage_store.server.answers import unless_known
from lineage_store.server.own import models
from lineage_store.server.state import Ask

router = APIRouter(tags=["jobs"])


@router.get("/names", response_model=models.Names)
async def names(ask: Ask) -> Response:
    """Lineage fields, and the metrics and user-defined values that any job has, those that most have first."""
    return await unless_known(ask, _names)


@router.get("/values", response_model=models.KnownValues)
async def values(
    ask: Ask,
    name: Annotated[
        str,
        Query(description="A field, metric/NAME, metric_best/NAME, metric_first/NAME or user_defined/NAME."),
    ],
    part: Annotated[str, Query(description="Of texts, only those that have this in them.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 30,
) -> Response:
    """The values that jobs have, the most frequent first; lists, objects and NaN are left out."""

    def answer(store: LineageStore) -> dict[str, Any]:
        known = store.known_values(name, part, most=limit)
        return {"values": [{"value": for_json(value), "jobs": jobs} for value, jobs in known]}

    return await unless_known(ask, answer, heavy=True)


def _names(store: LineageStore) -> dict[str, Any]:
    searchable = [field for field in FIELDS if field.searchable]
    fields = [{"name": each.name, "type": each.type, "meaning": each.meaning} for each in searchable]
    known: dict[str, Any] = for_json(store.names())
    return {"fields": fields, **known}
