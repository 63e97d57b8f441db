"""`GET payloads/{base}/{name}` lists the payloads (all but scalars) of a job's tag; `GET payload/…` returns one.

A payload is read from its log file in a process of `server/decoding.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.api.reports import PayloadSample
from lineage_store.api.samples import Chosen
from lineage_store.errors import SampleNotFoundError
from lineage_store.json_values import for_json
from lineage_store.plugins import GRAPH, HISTOGRAM, IMAGE, LANDSCAPE, TENSOR
from lineage_store.server.answers import unless_known
from lineage_store.server.decoding import Decoding
from lineage_store.server.own import models, payload_forms
from lineage_store.server.own.names import Job
from lineage_store.server.state import Ask
from lineage_store.texts import from_stored, to_stored

router = APIRouter(tags=["samples"])

LISTS: Mapping[str, Callable[..., list[PayloadSample]]] = {
    HISTOGRAM: LineageStore.histograms,
    IMAGE: LineageStore.images,
    TENSOR: LineageStore.tensors,
    GRAPH: LineageStore.graphs,
    LANDSCAPE: LineageStore.landscapes,
}
_FORMS = {
    "application/json": {"schema": {}},
    "image/png": models.BINARY,
    "application/octet-stream": models.BINARY,
}
_WORDS = "|".join(LISTS)
Plugin = Annotated[str, Query(pattern=f"^({_WORDS})$", description="The sort of payload.")]
Tag = Annotated[str, Query(description="Of a graph: the name of its log file.")]
Device = Annotated[int | None, Query(description="Only of this device.")]


@router.get("/payloads/{base}/{name:job}", response_model=models.Payloads)
async def payloads(
    ask: Ask,
    job: Job,
    plugin: Plugin,
    tag: Tag,
    device: Device = None,
    start: int | None = None,
    stop: int | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """What is known of the payloads of a tag, ascending by step; `count` tells how many there are."""

    def answer(store: LineageStore) -> dict[str, Any]:
        place, name, chosen = (
            job.place(store),
            from_stored(tag),
            Chosen(start=start, stop=stop, device=device),
        )
        found = LISTS[plugin](store, *place, name, **chosen, limit=limit)
        count = len(found) if len(found) < limit else store.count_payloads(*place, plugin, name, **chosen)
        return {"count": count, "payloads": list(map(_described, found))}

    return await unless_known(ask, answer)


@router.get("/payload/{base}/{name:job}", response_class=Response, responses={200: {"content": _FORMS}})
async def payload(
    ask: Ask,
    job: Job,
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
        of_step = {"start": step, "stop": step + 1, "device": device}
        found = LISTS[plugin](store, *job.place(store), from_stored(tag), **of_step)
        if not found:
            raise SampleNotFoundError(
                f"The {plugin} {tag!r} has no step {step}.", hint="GET payloads/… lists its steps."
            )
        source = found[-1].source
        return Decoding(payload_forms.payload, (source, step, wanted, part), [source])

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
