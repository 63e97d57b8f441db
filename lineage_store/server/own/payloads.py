"""`GET payloads/{base}/{name}` lists the payloads (all but scalars) of a job's tag; `GET payload/…` returns one.

A payload is read from its log file and returned as JSON, a tensor also as .npy, an image as PNG.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query
from numpy.typing import NDArray
from starlette.responses import Response

from lineage_store.api import LineageStore
from lineage_store.api.reports import PayloadSample
from lineage_store.errors import LineageParamValueError, RequestRefusedError, SampleNotFoundError
from lineage_store.json_values import for_json
from lineage_store.plugins import BY_NAME, GRAPH, HISTOGRAM, IMAGE, LANDSCAPE, TENSOR
from lineage_store.server.answers import JsonResponse, numbers, unless_known
from lineage_store.server.own import models
from lineage_store.server.own.names import Job
from lineage_store.server.state import Ask
from lineage_store.texts import from_stored, to_stored

router = APIRouter(tags=["samples"])

MOST_NUMBERS = 200_000
"""Elements of a tensor that is returned as JSON, at most."""
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
_PART = re.compile(r"\s*(?:(-?\d{1,18})|(-?\d{1,18})?:(-?\d{1,18})?(?::(-?\d{1,18}))?)\s*")
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
        found = LISTS[plugin](
            store, *job.place(store), from_stored(tag), start=start, stop=stop, device=device
        )
        return {"count": len(found), "payloads": list(map(_described, found[:limit]))}

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

    def answer(store: LineageStore) -> Response:
        of_step = {"start": step, "stop": step + 1, "device": device}
        found = LISTS[plugin](store, *job.place(store), from_stored(tag), **of_step)
        if not found:
            raise SampleNotFoundError(
                f"The {plugin} {tag!r} has no step {step}.", hint="GET payloads/… lists its steps."
            )
        return _answer(found[-1], form or ("png" if plugin == IMAGE else "json"), part)

    return await ask(answer, heavy=plugin != IMAGE)


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


def _answer(sample: PayloadSample, form: str, part: str) -> Response:
    forms = {IMAGE: ("png",), TENSOR: ("json", "npy")}.get(sample.plugin, ("json",))
    if form not in forms:
        raise LineageParamValueError(f"form = {form!r} of this plugin must be one of {', '.join(forms)}.")
    read = sample.read()
    if form == "png":
        return Response(read.png, media_type="image/png")
    if sample.plugin == TENSOR:
        read = _part_of(read, part)
        if form == "npy":
            return Response(_npy(read), media_type="application/octet-stream")
        if read.size > MOST_NUMBERS:
            raise RequestRefusedError(
                f"The tensor has {read.size:,} numbers, and JSON is given for {MOST_NUMBERS:,} at most.",
                hint="Ask for a part, as in part=0:10,:, or for form=npy.",
                reason="answer_too_large",
            )
        read = {"step": sample.step, "dtype": str(read.dtype), "shape": read.shape, "value": read}
    elif BY_NAME[sample.plugin].has_statistics:
        read = {"step": sample.step, **asdict(read)}
    elif sample.plugin == LANDSCAPE:
        read = asdict(read)
    return JsonResponse(_plain(read))


def _part_of(tensor: NDArray[Any], text: str) -> NDArray[Any]:
    """Return the part of a tensor that `text` selects. Raises LineageParamValueError."""
    if not text:
        return tensor
    wanted = [_PART.fullmatch(each) for each in text.split(",")]
    if len(wanted) > tensor.ndim or not all(wanted):
        raise LineageParamValueError(
            f"part = {text!r} is no part of a tensor of {tensor.ndim} dimensions.",
            hint="Write as many of 3, :, 0:10 or 0:10:2 as it has, with commas between them.",
        )
    try:
        found = tensor[tuple(_index(match) for match in wanted if match)]
    except (IndexError, ValueError) as error:
        raise LineageParamValueError(
            f"part = {text!r} does not fit the shape {tensor.shape}: {error}."
        ) from None
    return np.asarray(found)


def _index(match: re.Match[str]) -> int | slice:
    if match[1] is not None:
        return int(match[1])
    return slice(*(None if match[n] is None else int(match[n]) for n in (2, 3, 4)))


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    """Convert arrays to lists, NaN and infinities to texts."""
    if isinstance(value, np.ndarray):
        return numbers(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return for_json(value)
