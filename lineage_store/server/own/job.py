"""`jobs/{base}/{name}` and the paths below it: one job, its tags, lineage, evaluations and files; its annotation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from lineage_store.api import Job, LineageStore
from lineage_store.findings import Finding
from lineage_store.plain_values import for_json
from lineage_store.server.asking import Ask, JsonResponse, unless_known
from lineage_store.server.guard import refuse_remarks
from lineage_store.server.own import models
from lineage_store.server.own.names import Named, key_of
from lineage_store.server.refusals import docs_of
from lineage_store.texts import to_stored

router = APIRouter(prefix="/jobs/{base}", tags=["jobs"])


@router.get("/{name:job}/tags", response_model=models.TagsAnswer)
async def list_tags(ask: Ask, named: Named, series: bool = True) -> Response:
    """What the job recorded step by step; its series too, which takes longer."""

    def answer(store: LineageStore) -> dict[str, Any]:
        found = Job(store, named)
        rows = _rows(found.report(parts=["series"]).series) if series else []
        return {"tags": found.tags(), "series": rows}

    return await unless_known(ask, answer)


@router.get("/{name:job}/lineage")
async def get_job_lineage(
    ask: Ask,
    named: Named,
    keys: list[str] | None = Query(None, description="Parts of it; none: all but user_defined."),  # noqa: B008
) -> dict[str, Any]:
    """What was trained, on what, with which result, in the shape of MindInsight 0.7."""
    return await unless_known(  # type: ignore[return-value]  # FastAPI takes both
        ask, lambda store: for_json(Job(store, named).lineage(keys))
    )


@router.get("/{name:job}/evaluations", response_model=models.EvaluationsAnswer)
async def list_evaluations(ask: Ask, named: Named) -> Response:
    """What every evaluation measured."""
    return await unless_known(ask, lambda store: {"metrics": _rows(Job(store, named).evaluation_rows())})


@router.get("/{name:job}/files", response_model=models.FilesAnswer)
async def list_files(ask: Ask, named: Named) -> Response:
    """The job's log files, and how far they are read."""
    return await unless_known(ask, lambda store: {"files": _rows(Job(store, named).files())})


@router.put("/{name:job}/annotation", status_code=204)
async def put_annotation(ask: Ask, named: Named, annotation: models.AnnotationBody) -> None:
    """Put a label or a remark on the job, for good; what is left out stays as it is."""
    refuse_remarks(ask.request)
    await ask.change(lambda _: ask.state.annotate(named, annotation.tag, annotation.remark))


@router.get("/{name:job}", response_model=models.JobReportAnswer)
async def get_job(ask: Ask, named: Named) -> Response:
    """Everything about one job but what it recorded step by step."""

    def answer(store: LineageStore) -> dict[str, Any]:
        report = Job(store, named).report(parts=["metrics", "user_info", "problems"])
        return {
            "job": for_json(report.job),
            "metrics": _rows(report.metrics),
            "user_info": _rows(report.user_info),
            "problems": list(map(_finding, report.problems)),
        }

    return await unless_known(ask, answer)


def _rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a view, without the columns that name the job."""
    left_out = ("base_dir", "train_id", "job_id")
    return [{name: for_json(value) for name, value in row.items() if name not in left_out} for row in rows]


# ---- `GET health`: whether the store answers, and the problems of ingest; `GET base-dirs`: the base dirs


store_router = APIRouter(tags=["store"])


@store_router.get("/health", response_model=models.HealthAnswer)
async def get_health(ask: Ask) -> Response:
    """Whether the store answers, and what is not well with ingest; without findings all is well."""
    return JsonResponse(await ask(_health))


def _health(store: LineageStore) -> dict[str, Any]:
    status = store.health.status(problems=1)
    backlogs = [{**for_json(asdict(each)), "finding": _finding(each.finding)} for each in status.backlogs]
    found, standby = list(map(_finding, store.health.findings())), store.health.standby()
    names = ("is_up", "lag_s", "lag_bytes", "shows")
    told = None if standby is None else {name: for_json(getattr(standby, name)) for name in names}
    return {
        "findings": found,
        "backlogs": backlogs,
        "base_dirs": for_json(status.base_dirs),
        "standby": told,
    }


def _finding(found: Finding) -> dict[str, Any]:
    """Return a finding in the form of `models.FindingAnswer`."""
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


@store_router.get("/base-dirs", response_model=models.BaseDirsAnswer)
async def list_base_dirs(ask: Ask) -> Response:
    """The base dirs of the store, and the keys that stand for them in URLs."""
    paths = await ask(lambda store: list(store.base_dirs))
    return JsonResponse({"base_dirs": [{"key": key_of(path), "path": to_stored(path)} for path in paths]})
