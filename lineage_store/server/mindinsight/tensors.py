"""`datavisual/tensors`: descriptions, statistics and histograms of tensors, or a two-dimensional slice of one.

In: a query, in which a slice is a text such as `[0,:,::2]`. Out: nested lists and plain numbers. Promises:
MindInsight's numbers; in slices, NaN and infinities are texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_store.plugins import HISTOGRAM, TENSOR
from lineage_store.server.decoding import Content, Decoding
from lineage_store.server.mindinsight import protocol
from lineage_store.server.mindinsight.histograms import WrittenHistogram, bucket_number, histogram, rebinned
from lineage_store.server.mindinsight.protocol import QueryParameters, RefusedError
from lineage_store.server.mindinsight.samples import NO_DATA, KeptPayload, in_process, kept_payloads, located
from lineage_store.server.mindinsight.site import Site, SiteJob

MOST_ELEMENTS = 10_000_000
"""Larger tensors have no statistics, histograms or slices."""
MOST_SHOWN = 100_000
"""Elements of a slice, at most."""
MOST_OPEN_DIMENSIONS = 2
Array = NDArray[Any]
Index = tuple[int | slice, ...]
Values = list[dict[str, Any]]
Asked = Sequence[tuple[str, str, Sequence[KeptPayload]]]
"""Train id, tag and tensors of each part of the answer."""


def get_tensors(site: Site, query: QueryParameters) -> Content | Decoding:
    """Return the tensors of several tags of several jobs. Raises RefusedError if any of them does not exist."""
    train_ids, tags = query.all("train_id"), query.all("tag")
    for name, given in (("train_id", train_ids), ("tag", tags)):
        if not given:
            raise protocol.missing(name)
    detail = query.get("detail")
    if detail == "data":
        asked = _asked(site, query, lambda job, tag: [_at_step(site, job, tag, query)])
        return in_process(_slices, _all(asked), asked, read_slice(query.required("dims")))
    asked = _asked(site, query, lambda job, tag: kept_payloads(site, job, TENSOR, tag))
    views = {None: _described, "stats": _with_statistics, HISTOGRAM: _with_histograms}
    if detail not in views:
        raise protocol.wrong_value(f"Can not support this value: {detail} of detail.")
    return in_process(_shown, _all(asked) if detail else [], asked, views[detail])


def _asked(
    site: Site, query: QueryParameters, payloads: Callable[[SiteJob, str], Sequence[KeptPayload]]
) -> Asked:
    found = []
    for train_id in query.all("train_id"):
        job = site.job(train_id)
        found += [(train_id, tag, payloads(job, _stored(job, tag))) for tag in query.all("tag")]
    return found


def _all(asked: Asked) -> list[KeptPayload]:
    return [payload for _, _, payloads in asked for payload in payloads]


def _at_step(site: Site, job: SiteJob, tag: str, query: QueryParameters) -> KeptPayload:
    """Return one tensor, of any recorded step."""
    step_text, dims = query.required("step"), query.required("dims")
    read_slice(dims)
    step = protocol.integer_of("step", step_text)
    found = [each for each in kept_payloads(site, job, TENSOR, tag) if each.step == step]
    if not found:
        found = located(site.of(job.train_id).tensors(tag, start=step, stop=step + 1))
    if not found:
        raise _not_kept(f"this step: {step} data may has been dropped.")
    return found[0]


def _shown(asked: Asked, view: Callable[[Sequence[KeptPayload]], Values]) -> Content:
    found = [
        {"train_id": train_id, "tag": tag, "values": view(payloads)} for train_id, tag, payloads in asked
    ]
    return Content(protocol.compact_json({"tensors": found}))


def _slices(asked: Asked, index: Index) -> Content:
    return _shown(asked, lambda payloads: [_slice(payload, index) for payload in payloads])


def _slice(payload: KeptPayload, index: Index) -> dict[str, Any]:
    if _is_large(payload):
        raise _too_large(payload)
    whole = _read(payload)
    part = sliced(whole, index)
    if part.size > MOST_SHOWN:
        detail = f"the size of response data: {part.size} exceed max value: {MOST_SHOWN}."
        raise RefusedError("50545013", f"Response data exceed max value. Detail: {detail}")
    data = as_lists(part) if whole.size else []
    return _value(payload, {"data": data, "statistics": tensor_statistics(part, whole)})


def _described(payloads: Sequence[KeptPayload]) -> Values:
    return [_value(each, {}) for each in payloads]


def _with_statistics(payloads: Sequence[KeptPayload]) -> Values:
    return [_value(each, {"statistics": _statistics(each)}) for each in payloads]


def _statistics(payload: KeptPayload) -> dict[str, float] | None:
    if _is_large(payload):
        return None
    whole = _read(payload)
    return tensor_statistics(whole, whole)


def _with_histograms(payloads: Sequence[KeptPayload]) -> Values:
    histograms, statistics = [], []
    for each in payloads:
        if _is_large(each):
            raise _too_large(each)
        whole = _read(each)
        histograms.append(histogram_of(whole))
        statistics.append(tensor_statistics(whole, whole))
    shown = zip(payloads, rebinned(histograms), statistics, strict=True)
    return [_value(each, {"histogram_buckets": buckets, "statistics": told}) for each, buckets, told in shown]


def _value(payload: KeptPayload, shown: dict[str, Any]) -> dict[str, Any]:
    described = {
        "dims": list(payload.shape or ()),
        "data_type": f"DT_{(payload.dtype or 'undefined').upper()}",
    }
    return {"wall_time": payload.wall_time, "step": payload.step, "value": described | shown}


def _stored(job: SiteJob, tag: str) -> str:
    found = job.stored_tag(TENSOR, tag)
    if found is not None:
        return found
    detail = f"there is no tensor data in this tag: {tag}" if job.has_tag(tag) else NO_DATA
    raise protocol.nothing_of(TENSOR, detail)


def _read(payload: KeptPayload) -> Array:
    found: Array = payload.read(_not_kept("its log file is gone or has changed."))
    return found


def _is_large(payload: KeptPayload) -> bool:
    return math.prod(payload.shape or ()) > MOST_ELEMENTS


def _too_large(payload: KeptPayload) -> RefusedError:
    return RefusedError(
        protocol.LARGE_TENSOR, f"Tensor is too large to show on UI. Detail: Step: {payload.step}"
    )


def _not_kept(detail: str) -> RefusedError:
    return RefusedError("50545014", f"Tensor data not in cache. Detail: {detail}")


def read_slice(text: str) -> Index:
    """Return the index that a text such as `[0,1:3,:]` stands for. Raises RefusedError."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        raise protocol.wrong_value(
            "Invalid shape. The type of shape should be str and start with `[` and end with `]`. "
            f"Received: {text}."
        )
    inside = text[1:-1].strip()
    entries = [entry.strip() for entry in inside.split(",")] if inside else []
    if sum(":" in entry for entry in entries) > MOST_OPEN_DIMENSIONS:
        raise protocol.wrong_value(
            f"Invalid shape. At most {MOST_OPEN_DIMENSIONS} dimensions are specified. Received: {inside}"
        )
    return tuple(map(_read_entry, entries))


def _read_entry(entry: str) -> int | slice:
    bounds = [bound.strip() for bound in entry.split(":")]
    try:
        if len(bounds) == 1:
            return int(entry)
        return slice(*(int(bound) if bound else None for bound in bounds))
    except (TypeError, ValueError):
        raise protocol.wrong_value(
            f"Invalid shape. Convert int from str failed. input_str: {entry}"
        ) from None


def sliced(array: Array, index: Index) -> Array:
    """Return a part of the array. Raises RefusedError if the index does not fit."""
    if array.size == 0:
        return array
    if len(index) != array.ndim:
        raise protocol.wrong_value(
            "Invalid dims. The length of param dims and tensor shape should be the same."
        )
    try:
        return np.asarray(array[index])
    except (IndexError, ValueError):
        raise protocol.wrong_value(
            f"Invalid shape. Shape unmatched. Received: {index}, tensor shape: {array.shape}"
        ) from None


def as_lists(array: Array) -> Any:
    """Return the elements as nested lists, or as one number; NaN and infinities as texts."""
    elements = array.astype(np.float64).tolist()
    return elements if np.isfinite(array).all() else _spelt(elements)


def tensor_statistics(part: Array, whole: Array) -> dict[str, float]:
    """Return MindInsight's statistics of a part, and of the whole tensor under names that begin with `overall_`."""
    overall = _finite_statistics(whole)
    finite = whole[np.isfinite(whole)]
    counted = {
        "zero_count": float((finite == 0).sum()),
        "neg_zero_count": float((finite < 0).sum()),
        "pos_zero_count": float((finite > 0).sum()),
    }
    every = {f"overall_{name}": value for name, value in (overall | counted).items()}
    return (overall if part is whole else _finite_statistics(part)) | every


def _finite_statistics(array: Array) -> dict[str, float]:
    finite = array[np.isfinite(array)]
    return {
        "max": float(finite.max()) if finite.size else 0.0,
        "min": float(finite.min()) if finite.size else 0.0,
        "avg": float(finite.mean(dtype=np.float64)) if finite.size else 0.0,
        "count": array.size,
        "nan_count": int(np.isnan(array).sum()),
        "neg_inf_count": int(np.isneginf(array).sum()),
        "pos_inf_count": int(np.isposinf(array).sum()),
    }


def histogram_of(array: Array) -> WrittenHistogram:
    """Return a histogram of the finite elements, with the buckets that MindInsight chooses for a tensor."""
    finite = array[np.isfinite(array)]
    if not finite.size:
        return histogram([], 0.0, 0.0)
    least, greatest = float(finite.min()), float(finite.max())
    ends = (least - 0.5, greatest + 0.5) if least == greatest else (least, greatest)
    edges = np.linspace(*ends, bucket_number(finite.size) + 1)
    counts, _ = np.histogram(finite, edges)
    widths = np.diff(edges).tolist()
    return histogram(list(zip(edges[:-1].tolist(), widths, counts.tolist(), strict=True)), least, greatest)


def _spelt(value: Any) -> Any:
    if isinstance(value, list):
        return [_spelt(each) for each in value]
    if math.isnan(value):
        return "NAN"
    return value if math.isfinite(value) else "INF" if value > 0 else "-INF"
