"""`datavisual/tensors`: descriptions, statistics and histograms of tensors, or a slice of one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import HISTOGRAM, TENSOR
from lineage_store.server.mindinsight import tensor_views
from lineage_store.server.mindinsight.protocol import Query, RefusedError, missing, read_integer, wrong_value
from lineage_store.server.mindinsight.rebinning import rebinned
from lineage_store.server.mindinsight.samples import NO_DATA, kept_payloads
from lineage_store.server.mindinsight.site import Job, Site

if TYPE_CHECKING:
    from lineage_store.api.reports import PayloadSample

MOST_ELEMENTS = 10_000_000
"""Larger tensors have no statistics, histograms or slices."""
MOST_SHOWN = 100_000
"""Elements of a slice, at most."""
Values = list[dict[str, Any]]


def tensors(site: Site, query: Query) -> dict[str, Any]:
    """Return the tensors of several tags of several jobs. Raises RefusedError if any of them does not exist."""
    train_ids, tags = query.all("train_id"), query.all("tag")
    for name, given in (("train_id", train_ids), ("tag", tags)):
        if not given:
            raise missing(name)
    found = []
    for train_id in train_ids:
        job = site.job(train_id)
        for tag in tags:
            values = _values(site, job, _stored(job, tag), query)
            found.append({"train_id": train_id, "tag": tag, "values": values})
    return {"tensors": found}


def _values(site: Site, job: Job, tag: str, query: Query) -> Values:
    detail = query.get("detail")
    if detail == "data":
        return [_slice(site, job, tag, query)]
    views = {None: _described, "stats": _with_statistics, HISTOGRAM: _with_histograms}
    if detail not in views:
        raise wrong_value(f"Can not support this value: {detail} of detail.")
    return views[detail](kept_payloads(site, job, TENSOR, tag))


def _slice(site: Site, job: Job, tag: str, query: Query) -> dict[str, Any]:
    """Return a slice of one tensor, of any recorded step."""
    step_text, dims = query.required("step"), query.required("dims")
    index, step = tensor_views.read_slice(dims), read_integer("step", step_text)
    samples = [each for each in kept_payloads(site, job, TENSOR, tag) if each.step == step]
    if not samples:
        samples = site.store.tensors(site.base_dir, job.train_id, tag, start=step, stop=step + 1)
    if not samples:
        raise _not_kept(f"this step: {step} data may has been dropped.")
    if _is_large(samples[0]):
        raise _too_large(samples[0])
    whole = _read(samples[0])
    part = tensor_views.sliced(whole, index)
    if part.size > MOST_SHOWN:
        detail = f"the size of response data: {part.size} exceed max value: {MOST_SHOWN}."
        raise RefusedError("50545013", f"Response data exceed max value. Detail: {detail}")
    data = tensor_views.as_lists(part) if whole.size else []
    shown = {"data": data, "statistics": tensor_views.statistics(part, whole)}
    return _value(samples[0], shown)


def _described(samples: list[PayloadSample]) -> Values:
    return [_value(sample, {}) for sample in samples]


def _with_statistics(samples: list[PayloadSample]) -> Values:
    return [_value(sample, {"statistics": _statistics(sample)}) for sample in samples]


def _statistics(sample: PayloadSample) -> dict[str, float] | None:
    if _is_large(sample):
        return None
    whole = _read(sample)
    return tensor_views.statistics(whole, whole)


def _with_histograms(samples: list[PayloadSample]) -> Values:
    histograms, statistics = [], []
    for sample in samples:
        if _is_large(sample):
            raise _too_large(sample)
        whole = _read(sample)
        histograms.append(tensor_views.histogram_of(whole))
        statistics.append(tensor_views.statistics(whole, whole))
    shown = zip(samples, rebinned(histograms), statistics, strict=True)
    return [_value(each, {"histogram_buckets": buckets, "statistics": told}) for each, buckets, told in shown]


def _value(sample: PayloadSample, shown: dict[str, Any]) -> dict[str, Any]:
    described = {"dims": list(sample.shape or ()), "data_type": f"DT_{(sample.dtype or 'undefined').upper()}"}
    return {"wall_time": sample.wall_time, "step": sample.step, "value": described | shown}


def _stored(job: Job, tag: str) -> str:
    found = job.stored_tag(TENSOR, tag)
    if found is not None:
        return found
    detail = f"there is no tensor data in this tag: {tag}" if job.has_tag(tag) else NO_DATA
    raise RefusedError("50545012", f"Tensor value is not exist. Detail: {detail}")


def _read(sample: PayloadSample) -> tensor_views.Array:
    try:
        found: tensor_views.Array = sample.read()
    except PayloadUnavailableError:
        raise _not_kept("its log file is gone or has changed.") from None
    return found


def _is_large(sample: PayloadSample) -> bool:
    return math.prod(sample.shape or ()) > MOST_ELEMENTS


def _too_large(sample: PayloadSample) -> RefusedError:
    return RefusedError("50545016", f"Tensor is too large to show on UI. Detail: Step: {sample.step}")


def _not_kept(detail: str) -> RefusedError:
    return RefusedError("50545014", f"Tensor data not in cache. Detail: {detail}")
