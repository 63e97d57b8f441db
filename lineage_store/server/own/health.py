"""`GET /api/v1/health`: whether the store answers, and what is not well with ingest."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.findings import Finding
from lineage_store.json_values import for_json
from lineage_store.server.answers import JsonResponse
from lineage_store.server.problems import docs_of
from lineage_store.server.state import Ask

router = APIRouter(prefix="/api/v1", tags=["health"])


class FindingModel(BaseModel):
    """One thing that somebody who runs the store should know."""

    kind: str
    title: str
    severity: str
    subject: str
    what: str
    remedy: str
    docs: str
    since: datetime | None


class Health(BaseModel):
    """How the store and what fills it stand."""

    findings: list[FindingModel]


@router.get("/health", response_model=Health)
async def health(ask: Ask) -> Response:
    """Whether the store answers, and what is not well with ingest; nothing found means that all is well."""
    return JsonResponse(await ask(_health))


def _health(store: LineageStore) -> dict[str, Any]:
    return {"findings": [shown(each) for each in store.findings()]}


def shown(finding: Finding) -> dict[str, Any]:
    """A finding as JSON has it."""
    return {
        "kind": finding.kind,
        "title": finding.title,
        "severity": str(finding.severity),
        "subject": finding.subject,
        "what": finding.what,
        "remedy": finding.remedy,
        "docs": docs_of(finding.kind),
        "since": for_json(finding.since),
    }
