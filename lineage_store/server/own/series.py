"""`POST series`: curves of several jobs on one grid of steps, as JSON or as columns of numbers.

The form `columns` needs no decoding in a browser. It consists of the header's length in four bytes (little-endian); the
header, which is the JSON answer with the offset of each column in place of its numbers; and from the next multiple of
eight bytes on the columns as little-endian float64, in which steps are exact up to 2^53. Offsets count numbers. A
column of zeros only, as most counts of NaN are, is left out and has the offset null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.api.reports import Curve
from lineage_store.json_values import for_json
from lineage_store.server.answers import JsonResponse
from lineage_store.server.json_bytes import numbers, to_json
from lineage_store.server.own import models
from lineage_store.server.own.names import NamedJob
from lineage_store.server.state import Ask
from lineage_store.texts import from_stored

router = APIRouter(tags=["samples"])

MEDIA_TYPE = "application/vnd.lineage-store.columns"


@router.post(
    "/series", response_model=models.Series, responses={200: {"content": {MEDIA_TYPE: models.BINARY}}}
)
async def series(ask: Ask, question: models.SeriesQuestion) -> Response:
    """Curves for a screen: samples where there are few, buckets that hide no spike where there are many."""

    def answer(store: LineageStore) -> Response:
        curves = _curves(store, question)
        missing = sorted(set(range(len(question.series))) - {curve.number for curve in curves})
        if question.form == "columns":
            return Response(_as_columns(curves, missing, question.columns), media_type=MEDIA_TYPE)
        shown = [
            _described(curve)
            | {"columns": {name: numbers(each) for name, each in _chosen(curve, question.columns).items()}}
            for curve in curves
        ]
        return JsonResponse({"curves": shown, "missing": missing})

    return await ask(answer, heavy=True)


def _curves(store: LineageStore, question: models.SeriesQuestion) -> Sequence[Curve]:
    named = [
        (*NamedJob(each.base, each.name).place(store), from_stored(each.tag)) for each in question.series
    ]
    return store.buckets(
        named,
        start=question.start,
        stop=question.stop,
        device=question.device,
        points=question.points,
        superseded=question.superseded,
        skip_unknown=True,
    )


def _described(curve: Curve) -> dict[str, Any]:
    return {
        "number": curve.number,
        "device": curve.device,
        "superseded": curve.superseded,
        "bucketed": curve.is_bucketed,
        "restarts": curve.restarts,
        "began_at": for_json(curve.began_at),
        "thinned_count": curve.thinned_count,
        "rows": len(next(iter(curve.columns.values()))),
    }


def _chosen(curve: Curve, names: Sequence[str] | None) -> Mapping[str, Any]:
    return {name: column for name, column in curve.columns.items() if names is None or name in names}


def _as_columns(curves: Sequence[Curve], missing: Sequence[int], names: Sequence[str] | None) -> bytes:
    parts, shown, length = [], [], 0
    for curve in curves:
        places: dict[str, int | None] = {}
        for name, column in _chosen(curve, names).items():
            if not column.any():
                places[name] = None
                continue
            parts.append(column.astype("<f8").tobytes())
            places[name] = length
            length += len(column)
        shown.append(_described(curve) | {"columns": places})
    header = to_json({"curves": shown, "missing": missing})
    header += b" " * (-(len(header) + 4) % 8)
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])
