"""`jobs/{base}/{name}` and the paths below it: one job, its tags, lineage, evaluations and files; its annotation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.json_values import for_json
from lineage_store.server.answers import unless_known
from lineage_store.server.guard import refuse_remarks
from lineage_store.server.own import models
from lineage_store.server.own.health import finding
from lineage_store.server.own.names import Base, Name, base_dir_of, train_id_of
from lineage_store.server.state import Ask

router = APIRouter(prefix="/jobs/{base}", tags=["jobs"])

_Question = Callable[[LineageStore, str, str], Mapping[str, Any]]


async def _of_job(request: Request, ask: Ask, base: str, name: str, question: _Question) -> Response:
    """Answer a question about a job; it is called with the store, the base dir and the train id."""
    return await unless_known(
        request, ask, lambda store: question(store, base_dir_of(store, base), train_id_of(name))
    )


@router.get("/{name:job}/tags", response_model=models.Tags)
async def tags(request: Request, ask: Ask, base: Base, name: Name, series: bool = True) -> Response:
    """What the job recorded step by step; its series too, which takes longer."""

    def answer(store: LineageStore, base_dir: str, train_id: str) -> Mapping[str, Any]:
        found = _rows(store.job_report(base_dir, train_id).series) if series else []
        return {"tags": store.tags(base_dir, train_id), "series": found}

    return await _of_job(request, ask, base, name, answer)


@router.get("/{name:job}/lineage")
async def lineage(
    request: Request,
    ask: Ask,
    base: Base,
    name: Name,
    keys: list[str] | None = Query(None, description="Parts of it; none: all but user_defined."),  # noqa: B008
) -> dict[str, Any]:
    """What was trained, on what, with which result, in the shape of MindInsight 0.7."""

    def answer(store: LineageStore, base_dir: str, train_id: str) -> Mapping[str, Any]:
        found: dict[str, Any] = for_json(store.get_lineage(base_dir, train_id, keys))
        return found

    return await _of_job(request, ask, base, name, answer)  # type: ignore[return-value]  # FastAPI takes both


@router.get("/{name:job}/evaluations", response_model=models.Evaluations)
async def evaluations(request: Request, ask: Ask, base: Base, name: Name) -> Response:
    """What every evaluation measured."""

    def answer(store: LineageStore, base_dir: str, train_id: str) -> Mapping[str, Any]:
        return {"metrics": _rows(store.evaluation_rows(base_dir, train_id))}

    return await _of_job(request, ask, base, name, answer)


@router.get("/{name:job}/files", response_model=models.Files)
async def files(request: Request, ask: Ask, base: Base, name: Name) -> Response:
    """The job's log files, and how far they are read."""

    def answer(store: LineageStore, base_dir: str, train_id: str) -> Mapping[str, Any]:
        return {"files": _rows(store.job_report(base_dir, train_id).log_files)}

    return await _of_job(request, ask, base, name, answer)


@router.put("/{name:job}/annotation", status_code=204)
async def annotate(request: Request, ask: Ask, base: Base, name: Name, annotation: models.Annotation) -> None:
    """Put a label or a remark on the job, for good; what is left out stays as it is."""
    refuse_remarks(request)

    def write(store: LineageStore) -> None:
        base_dir = base_dir_of(store, base)
        ask.state.annotate(base_dir, train_id_of(name), tag=annotation.tag, remark=annotation.remark)

    await ask.change(write)


@router.get("/{name:job}", response_model=models.JobReport)
async def job(request: Request, ask: Ask, base: Base, name: Name) -> Response:
    """Everything about one job but what it recorded step by step."""

    def answer(store: LineageStore, base_dir: str, train_id: str) -> Mapping[str, Any]:
        report = store.job_report(base_dir, train_id)
        return {
            "job": for_json(report.job),
            "metrics": _rows(report.metrics),
            "user_info": _rows(report.user_info),
            "problems": list(map(finding, report.problems)),
        }

    return await _of_job(request, ask, base, name, answer)


def _rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of a view, without the columns that name the job."""
    left_out = ("base_dir", "train_id", "job_id")
    return [{name: for_json(value) for name, value in row.items() if name not in left_out} for row in rows]
