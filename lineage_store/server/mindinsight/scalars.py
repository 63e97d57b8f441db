"""`datavisual/scalar/metadata` and `datavisual/scalars`: curves, NaN and infinities as null.

Answers may have very many numbers, so that the fast encoder of `answers` writes them; it may spell a number differently
from MindInsight (1e-5 for 1e-05), but never changes its value.
"""

from __future__ import annotations

import math
from typing import Any

from lineage_store.plugins import SCALAR
from lineage_store.server.decoding import Answer
from lineage_store.server.json_bytes import to_json
from lineage_store.server.mindinsight.protocol import Query, RefusedError, wrong_type
from lineage_store.server.mindinsight.samples import NO_DATA, kept_scalars
from lineage_store.server.mindinsight.site import Job, Site

_NO_SCALAR = RefusedError("5054500E", f"Scalar value is not exist. Detail: {NO_DATA}")
_NO_NUMBER = wrong_type("scalar_value", "number")


def metadata(site: Site, query: Query) -> Answer:
    """Return one curve."""
    train_id, tag = query.required("train_id"), query.required("tag")
    values = _values(site, site.job(train_id), tag)
    if values is None:
        raise _NO_SCALAR
    return Answer(to_json({"metadatas": values}))


def scalars(site: Site, query: Query) -> Answer:
    """Return the curves of several tags of several jobs, without those that do not exist."""
    train_ids, tags = query.all("train_id"), query.all("tag")
    jobs = site.jobs(train_ids)
    found = [
        {"train_id": train_id, "tag": tag, "values": values}
        for train_id in train_ids
        if train_id in jobs
        for tag in tags
        if (values := _values(site, jobs[train_id], tag)) is not None
    ]
    return Answer(to_json({"scalars": found}))


def _values(site: Site, job: Job, tag: str) -> list[dict[str, Any]] | None:
    stored = job.stored_tag(SCALAR, tag)
    if stored is None:
        if job.has_tag(tag):
            raise _NO_NUMBER
        return None
    return [
        {"wall_time": wall_time, "step": step, "value": value if math.isfinite(value) else None}
        for wall_time, step, value in kept_scalars(site, job, stored)
    ]
