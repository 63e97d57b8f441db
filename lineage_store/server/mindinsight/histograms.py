"""`datavisual/histograms`: the histograms of a tag, with the same buckets for all samples."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import HISTOGRAM
from lineage_store.server.decoding import Answer, Decoding
from lineage_store.server.mindinsight.protocol import Query, RefusedError, to_json
from lineage_store.server.mindinsight.rebinning import MOST_BUCKETS, Histogram, histogram, rebinned
from lineage_store.server.mindinsight.samples import NO_DATA, Payload, decoded, kept_payloads, stored_tag
from lineage_store.server.mindinsight.site import Site

_NOT_THERE = "Histogram value is not exist. Detail:"


def histograms(site: Site, query: Query) -> Answer | Decoding:
    """Return the histograms of a tag."""
    train_id, tag = query.required("train_id"), query.required("tag")
    job = site.job(train_id)
    stored = stored_tag(job, HISTOGRAM, tag, RefusedError("5054500F", f"{_NOT_THERE} {NO_DATA}"))
    found = kept_payloads(site, job, HISTOGRAM, stored, most_long=MOST_BUCKETS)
    return decoded(_shown, found, train_id, tag, found)


def _shown(train_id: str, tag: str, payloads: Sequence[Payload]) -> Answer:
    drawn = rebinned([_read(each) for each in payloads])
    shown = [
        {"wall_time": each.wall_time, "step": each.step, "buckets": buckets}
        for each, buckets in zip(payloads, drawn, strict=True)
    ]
    return Answer(to_json({"train_id": train_id, "tag": tag, "histograms": shown}))


def _read(payload: Payload) -> Histogram:
    try:
        read = payload.source.read()
    except PayloadUnavailableError:
        raise RefusedError("5054500F", f"{_NOT_THERE} Its log file is gone or has changed.") from None
    columns = (read.left.tolist(), read.width.tolist(), read.count.tolist())
    return histogram(list(zip(*columns, strict=True)), read.statistics.min, read.statistics.max)
