"""`GET payloads/{base}/{name}` lists the payloads (all but scalars) of a job's tag; `GET payload/…` returns one.

A payload is read from its log file in a process of `server/decoding.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from lineage_store.api import Job, JobUrl, LineageStore
from lineage_store.api.job import Chosen
from lineage_store.api.reports import Curve, PayloadSample
from lineage_store.errors import SampleNotFoundError
from lineage_store.plain_values import for_json
from lineage_store.plugins import GRAPH, HISTOGRAM, IMAGE, LANDSCAPE, TENSOR
from lineage_store.server.asking import Ask, JsonResponse, unless_known
from lineage_store.server.decoding import Decoding, numbers, to_json
from lineage_store.server.own import models, payload_forms
from lineage_store.server.own.names import Named
from lineage_store.texts import from_stored, to_stored

router = APIRouter(tags=["samples"])

LISTED = (HISTOGRAM, IMAGE, TENSOR, GRAPH, LANDSCAPE)
_FORMS = {
    "application/json": {"schema": {}},
    "image/png": models.BINARY,
    "application/octet-stream": models.BINARY,
}
_WORDS = "|".join(LISTED)
Plugin = Annotated[str, Query(pattern=f"^({_WORDS})$", description="The sort of payload.")]
Tag = Annotated[str, Query(description="Of a graph: the name of its log file.")]
Device = Annotated[int | None, Query(description="Only of this device.")]


@router.get("/payloads/{base}/{name:job}", response_model=models.PayloadsAnswer)
async def list_payloads(
    ask: Ask,
    named: Named,
    plugin: Plugin,
    tag: Tag,
    device: Device = None,
    start: int | None = None,
    stop: int | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """What is known of the payloads of a tag, ascending by step; `count` tells how many there are."""

    def answer(store: LineageStore) -> dict[str, Any]:
        job, name = Job(store, named), from_stored(tag)
        chosen = Chosen(start=start, stop=stop, device=device)
        found = job.payloads(plugin, name, **chosen, limit=limit)
        count = len(found) if len(found) < limit else job.count_payloads(plugin, name, **chosen)
        return {"count": count, "payloads": list(map(_described, found))}

    return await unless_known(ask, answer)


@router.get("/payload/{base}/{name:job}", response_class=Response, responses={200: {"content": _FORMS}})
async def get_payload(
    ask: Ask,
    named: Named,
    plugin: Plugin,
    tag: Tag,
    step: int,
    device: Device = None,
    form: Literal["json", "npy", "png"] | None = None,
    part: Annotated[
        str, Query(description="Of a tensor, as NumPy slices it: `0:10,:,3`.", max_length=400)
    ] = "",
) -> Response:
    """One payload: an image as PNG, a tensor as .npy where that is asked for, all else as JSON."""

    wanted = payload_forms.checked_form(plugin, form)

    def answer(store: LineageStore) -> Decoding:
        of_step = Chosen(start=step, stop=step + 1, device=device)
        found = Job(store, named).payloads(plugin, from_stored(tag), **of_step)
        if not found:
            raise SampleNotFoundError(
                f"The {plugin} {tag!r} has no step {step}.", hint="GET payloads/… lists its steps."
            )
        source = found[-1].source
        return Decoding(payload_forms.made_payload, (source, step, wanted, part), [source])

    made = await ask.decoded(answer, heavy=plugin != IMAGE)
    return Response(made.content, media_type=made.media_type)


def _described(sample: PayloadSample) -> dict[str, Any]:
    return {
        "step": sample.step,
        "wall_time": for_json(sample.wall_time),
        "device": sample.device,
        "dtype": sample.dtype,
        "shape": sample.shape,
        "size_bytes": sample.size_bytes,
        "statistics": for_json(asdict(sample.statistics)) if sample.statistics else None,
        "log_file": to_stored(sample.place.log_file),
    }


# ---- `POST series`: curves of several jobs on one grid of steps, as JSON or as columns of numbers
# The form `columns` needs no decoding in a browser. It consists of the header's length in four bytes (little-endian);
# the header, which is the JSON answer with the offset of each column in place of its numbers; and from the next
# multiple of eight bytes on the columns as little-endian float64, in which steps are exact up to 2^53. Offsets count
# numbers. A column of zeros only, as most counts of NaN are, is left out and has the offset null.


MEDIA_TYPE = "application/vnd.lineage-store.columns"


@router.post(
    "/series", response_model=models.SeriesAnswer, responses={200: {"content": {MEDIA_TYPE: models.BINARY}}}
)
async def get_curves(ask: Ask, question: models.SeriesBody) -> Response:
    """Curves for a screen: samples where there are few, buckets that hide no spike where there are many."""

    def answer(store: LineageStore) -> Response:
        curves = _curves(store, question)
        missing = sorted(set(range(len(question.series))) - {curve.number for curve in curves})
        if question.form == "columns":
            return Response(_as_columns(curves, missing, question.columns), media_type=MEDIA_TYPE)
        shown = [
            _curve_described(curve)
            | {"columns": {name: numbers(each) for name, each in _chosen(curve, question.columns).items()}}
            for curve in curves
        ]
        return JsonResponse({"curves": shown, "missing": missing})

    return await ask(answer, heavy=True)


def _curves(store: LineageStore, question: models.SeriesBody) -> Sequence[Curve]:
    named = [(JobUrl(each.base, each.name), from_stored(each.tag)) for each in question.series]
    return store.buckets(
        named,
        start=question.start,
        stop=question.stop,
        device=question.device,
        points=question.points,
        superseded=question.superseded,
        skip_unknown=True,
    )


def _curve_described(curve: Curve) -> dict[str, Any]:
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
        shown.append(_curve_described(curve) | {"columns": places})
    header = to_json({"curves": shown, "missing": missing})
    header += b" " * (-(len(header) + 4) % 8)
    return b"".join([len(header).to_bytes(4, "little"), header, *parts])
