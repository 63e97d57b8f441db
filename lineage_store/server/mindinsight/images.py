"""`datavisual/image/metadata` lists the images of a tag; `datavisual/image/single-image` returns one image."""

from __future__ import annotations

from typing import Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import IMAGE
from lineage_store.server.decoding import Answer, Decoding
from lineage_store.server.mindinsight.protocol import Query, RefusedError, picture, read_integer
from lineage_store.server.mindinsight.samples import (
    NO_DATA,
    Payload,
    decoded,
    described,
    kept_payloads,
    stored_tag,
)
from lineage_store.server.mindinsight.site import Site

NEWEST = -1
"""The step that stands for the newest image."""


def metadata(site: Site, query: Query) -> dict[str, Any]:
    """Describe the images of a tag that MindInsight would have kept."""
    train_id, tag = query.required("train_id"), query.required("tag")
    job = site.job(train_id)
    samples = kept_payloads(site, job, IMAGE, stored_tag(job, IMAGE, tag, _no_image(NO_DATA)))
    shown = []
    for sample in samples:
        height, width = (sample.shape or (0, 0))[:2]
        shown.append({"wall_time": sample.wall_time, "step": sample.step, "width": width, "height": height})
    return {"metadatas": shown}


def single_image(site: Site, query: Query) -> Answer | Decoding:
    """Return the recorded bytes of an image, of any recorded step."""
    train_id, tag = query.required("train_id"), query.required("tag")
    step = read_integer("step", query.required("step"))
    job = site.job(train_id)
    stored = stored_tag(job, IMAGE, tag, _no_image(NO_DATA))
    samples = kept_payloads(site, job, IMAGE, stored)
    found = samples[-1:] if step == NEWEST else [sample for sample in samples if sample.step == step]
    if not found:
        found = described(site.store.images(site.base_dir, train_id, stored, start=step, stop=step + 1))
    if not found:
        raise _no_image("Can not find the step with given train job id and tag.")
    return decoded(_shown, found[:1], found[0])


def _shown(payload: Payload) -> Answer:
    try:
        return picture(payload.source.read().png)
    except PayloadUnavailableError:
        raise _no_image("Its log file is gone or has changed.") from None


def _no_image(detail: str) -> RefusedError:
    return RefusedError("5054500D", f"Image is not exist. Detail: {detail}")
