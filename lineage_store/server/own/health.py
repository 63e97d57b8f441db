"""`GET health`: whether the store answers, and the problems of ingest; `GET base-dirs`: the base dirs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.findings import Finding
from lineage_store.json_values import for_json
from lineage_store.server.answers import JsonResponse
from lineage_store.server.own import models
from lineage_store.server.own.names import key_of
from lineage_store.server.problems import docs_of
from lineage_store.server.state import Ask
from lineage_store.texts import to_stored

router = APIRouter(tags=["store"])


@router.get("/health", response_model=models.Health)
async def health(ask: Ask) -> Response:
    """Whether the store answers, and what is not well with ingest; without findings all is well."""
    return JsonResponse(await ask(_health))


def _health(store: LineageStore) -> dict[str, Any]:
    status = store.status(problems=1)
    backlogs = [{**for_json(asdict(each)), "finding": finding(each.finding)} for each in status.backlogs]
    found, standby = list(map(finding, store.findings())), store.standby()
    names = ("is_up", "lag_s", "lag_bytes", "shows")
    told = None if standby is None else {name: for_json(getattr(standby, name)) for name in names}
    return {
        "findings": found,
        "backlogs": backlogs,
        "base_dirs": for_json(status.base_dirs),
        "standby": told,
    }


def finding(found: Finding) -> dict[str, Any]:
    """Return a finding in the form of `models.Finding`."""
    return {
        "kind": found.kind,
        "title": found.title,
        "severity": str(found.severity),
        "subject": found.subject,
        "what": found.what,
        "remedy": found.remedy,
        "docs": docs_of(found.kind),
        "since": for_json(found.since),
    }


@router.get("/base-dirs", response_model=models.BaseDirs)
async def base_dirs(ask: Ask) -> Response:
    """The base dirs of the store, and the keys that stand for them in URLs."""
    paths = await ask(LineageStore.base_dirs)
    return JsonResponse({"base_dirs": [{"key": key_of(path), "path": to_stored(path)} for path in paths]})
