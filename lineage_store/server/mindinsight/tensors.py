"""`datavisual/tensors`: descriptions, statistics and histograms of tensors, or a slice of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import HISTOGRAM, TENSOR
from lineage_store.server.decoding import Answer, Decoding
from lineage_store.server.mindinsight import tensor_views
from lineage_store.server.mindinsight.protocol import (
    Query,
    RefusedError,
    missing,
    read_integer,
    to_json,
    wrong_value,
)
from lineage_store.server.mindinsight.rebinning import rebinned
from lineage_store.server.mindinsight.samples import NO_DATA, Payload, decoded, described, kept_payloads
from lineage_store.server.mindinsight.site import Job, Site

MOST_ELEMENTS = 10_000_000
"""Larger tensors have no statistics, histograms or slices."""
MOST_SHOWN = 100_000
"""Elements of a slice, at most."""
Values = list[dict[str, Any]]
Asked = Sequence[tuple[str, str, Sequence[Payload]]]
"""Train id, tag and tensors of each part of the answer."""


def tensors(site: Site, query: Query) -> Answer | Decoding:
    """Return the tensors of several tags of several jobs. Raises RefusedError if any of them does not exist."""
    train_ids, tags = query.all("train_id"), query.all("tag")
    for name, given in (("train_id", train_ids), ("tag", tags)):
        if not given:
            raise missing(name)
    detail = query.get("detail")
    if detail == "data":
        asked = _asked(site, query, lambda job, tag: [_at_step(site, job, tag, query)])
        return decoded(_slices, _all(asked), asked, tensor_views.read_slice(query.required("dims")))
    asked = _asked(site, query, lambda job, tag: kept_payloads(site, job, TENSOR, tag))
    views = {None: _described, "stats": _with_statistics, HISTOGRAM: _with_histograms}
    if detail not in views:
        raise wrong_value(f"Can not support this value: {detail} of detail.")
    return decoded(_shown, _all(asked) if detail else [], asked, views[detail])


def _asked(site: Site, query: Query, payloads: Callable[[Job, str], Sequence[Payload]]) -> Asked:
    found = []
    for train_id in query.all("train_id"):
        job = site.job(train_id)
        found += [(train_id, tag, payloads(job, _stored(job, tag))) for tag in query.all("tag")]
    return found


def _all(asked: Asked) -> list[Payload]:
    return [payload for _, _, payloads in asked for payload in payloads]


def _at_step(site: Site, job: Job, tag: str, query: Query) -> Payload:
    """Return one tensor, of any recorded step."""
    step_text, dims = query.required("step"), query.required("dims")
    tensor_views.read_slice(dims)
    step = read_integer("step", step_text)
    found = [each for each in kept_payloads(site, job, TENSOR, tag) if each.step == step]
    if not found:
        found = described(site.store.tensors(site.base_dir, job.train_id, tag, start=step, stop=step + 1))
    if not found:
        raise _not_kept(f"this step: {step} data may has been dropped.")
    return found[0]


def _shown(asked: Asked, view: Callable[[Sequence[Payload]], Values]) -> Answer:
    found = [
        {"train_id": train_id, "tag": tag, "values": view(payloads)} for train_id, tag, payloads in asked
    ]
    return Answer(to_json({"tensors": found}))


def _slices(asked: Asked, index: tensor_views.Index) -> Answer:
    return _shown(asked, lambda payloads: [_slice(payload, index) for payload in payloads])


def _slice(payload: Payload, index: tensor_views.Index) -> dict[str, Any]:
    if _is_large(payload):
        raise _too_large(payload)
    whole = _read(payload)
    part = tensor_views.sliced(whole, index)
    if part.size > MOST_SHOWN:
        detail = f"the size of response data: {part.size} exceed max value: {MOST_SHOWN}."
        raise RefusedError("50545013", f"Response data exceed max value. Detail: {detail}")
    data = tensor_views.as_lists(part) if whole.size else []
    return _value(payload, {"data": data, "statistics": tensor_views.statistics(part, whole)})


def _described(payloads: Sequence[Payload]) -> Values:
    return [_value(each, {}) for each in payloads]


def _with_statistics(payloads: Sequence[Payload]) -> Values:
    return [_value(each, {"statistics": _statistics(each)}) for each in payloads]


def _statistics(payload: Payload) -> dict[str, float] | None:
    if _is_large(payload):
        return None
    whole = _read(payload)
    return tensor_views.statistics(whole, whole)


def _with_histograms(payloads: Sequence[Payload]) -> Values:
    histograms, statistics = [], []
    for each in payloads:
        if _is_large(each):
            raise _too_large(each)
        whole = _read(each)
        histograms.append(tensor_views.histogram_of(whole))
        statistics.append(tensor_views.statistics(whole, whole))
    shown = zip(payloads, rebinned(histograms), statistics, strict=True)
    return [_value(each, {"histogram_buckets": buckets, "statistics": told}) for each, buckets, told in shown]


def _value(payload: Payload, shown: dict[str, Any]) -> dict[str, Any]:
    described = {
        "dims": list(payload.shape or ()),
        "data_type": f"DT_{(payload.dtype or 'undefined').upper()}",
    }
    return {"wall_time": payload.wall_time, "step": payload.step, "value": described | shown}


def _stored(job: Job, tag: str) -> str:
    found = job.stored_tag(TENSOR, tag)
    if found is not None:
        return found
    detail = f"there is no tensor data in this tag: {tag}" if job.has_tag(tag) else NO_DATA
    raise RefusedError("50545012", f"Tensor value is not exist. Detail: {detail}")


def _read(payload: Payload) -> tensor_views.Array:
    try:
        found: tensor_views.Array = payload.source.read()
    except PayloadUnavailableError:
        raise _not_kept("its log file is gone or has changed.") from None
    return found


def _is_large(payload: Payload) -> bool:
    return math.prod(payload.shape or ()) > MOST_ELEMENTS


def _too_large(payload: Payload) -> RefusedError:
    return RefusedError("50545016", f"Tensor is too large to show on UI. Detail: Step: {payload.step}")


def _not_kept(detail: str) -> RefusedError:
    return RefusedError("50545014", f"Tensor data not in cache. Detail: {detail}")
