"""`datavisual/histograms`: the histograms of a tag, with the same buckets for all samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import HISTOGRAM
from lineage_store.server.mindinsight.protocol import Query, RefusedError
from lineage_store.server.mindinsight.rebinning import MOST_BUCKETS, histogram, rebinned
from lineage_store.server.mindinsight.samples import NO_DATA, kept_payloads, stored_tag
from lineage_store.server.mindinsight.site import Site

if TYPE_CHECKING:
    from lineage_store.api.reports import PayloadSample

_NOT_THERE = "Histogram value is not exist. Detail:"


def histograms(site: Site, query: Query) -> dict[str, Any]:
    """Return the histograms of a tag."""
    train_id, tag = query.required("train_id"), query.required("tag")
    job = site.job(train_id)
    stored = stored_tag(job, HISTOGRAM, tag, RefusedError("5054500F", f"{_NOT_THERE} {NO_DATA}"))
    samples = kept_payloads(site, job, HISTOGRAM, stored, most_long=MOST_BUCKETS)
    try:
        written = [sample.read() for sample in samples]
    except PayloadUnavailableError:
        raise RefusedError("5054500F", f"{_NOT_THERE} Its log file is gone or has changed.") from None
    drawn = rebinned(
        [
            histogram(
                list(zip(each.left.tolist(), each.width.tolist(), each.count.tolist(), strict=True)),
                each.statistics.min,
                each.statistics.max,
            )
            for each in written
        ]
    )
    shown = [
        {"wall_time": sample.wall_time, "step": sample.step, "buckets": buckets}
        for sample, buckets in zip(samples, drawn, strict=True)
    ]
    return {"train_id": train_id, "tag": tag, "histograms": shown}
