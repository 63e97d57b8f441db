"""`datavisual/landscape/…`: loss landscapes, with or without the path of the training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.fields import LISTED
from lineage_store.json_values import for_json
from lineage_store.plugins import LANDSCAPE
from lineage_store.server.mindinsight.importance import LOSS
from lineage_store.server.mindinsight.interval_ids import interval_id
from lineage_store.server.mindinsight.protocol import Query, no_such_job
from lineage_store.server.mindinsight.samples import kept_payloads
from lineage_store.server.mindinsight.site import IN_MANAGER, LOSS_LANDSCAPE, Job, Site

NO_LANDSCAPE, MALFORMED = "50545017", "50540002"
_LINEAGE = [field.name for field in LISTED if field.type == "float" or field.name in ("network", "optimizer")]


def intervals(site: Site, query: Query) -> dict[str, Any]:
    """Return the first and last step or epoch of each landscape that has intervals, with an id for each."""
    job = site.job(query.required("train_id"), IN_MANAGER)
    found = [list(each.intervals) for each in _landscapes(site, job) if each.intervals]
    shown = sorted(found, key=lambda interval: interval[0])
    return {"intervals": [{"id": interval_id(each), "value": [each[0], each[-1]]} for each in shown]}


def landscapes(site: Site, query: Query) -> dict[str, Any]:
    """Return one landscape of each job: that of an interval, or the final one."""
    train_ids = query.all("train_id")
    jobs = site.jobs(train_ids)
    kind, wanted = [*query.all("type"), "interval"][0], query.get("interval_id")
    return {"landscapes": [_landscape(site, jobs, train_id, kind, wanted) for train_id in train_ids]}


def _landscape(
    site: Site, jobs: dict[str, Job], train_id: str, kind: str, wanted: str | None
) -> dict[str, Any]:
    if not train_id.startswith("./"):
        return {"error_code": MALFORMED, "train_id": train_id}
    if train_id not in jobs:
        raise no_such_job(IN_MANAGER)
    for each in _landscapes(site, jobs[train_id]):
        is_final = not each.intervals
        if (is_final and kind == "final") or (
            not is_final and kind == "interval" and interval_id(each.intervals) == wanted
        ):
            return {"train_id": train_id, **_shown(each, _lineage(site, train_id))}
    return {"error_code": NO_LANDSCAPE, "train_id": train_id}


def _landscapes(site: Site, job: Job) -> Iterator[Any]:
    """Yield every landscape that can still be read from its log file, tag by tag."""
    for tag in job.tags[LOSS_LANDSCAPE]:
        stored = job.stored_tag(LANDSCAPE, tag)
        assert stored is not None
        for sample in kept_payloads(site, job, LANDSCAPE, stored):
            try:
                yield sample.read()
            except PayloadUnavailableError:
                continue


def _shown(landscape: Any, lineage: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        "decomposition": landscape.decomposition,
        "unit": landscape.unit,
        "step_per_epoch": landscape.step_per_epoch,
        **lineage,
    }
    shown = {"points": _points(landscape.surface)}
    if landscape.intervals:
        path = _points(landscape.path) if landscape.path else {"x": [], "y": [], "z": []}
        shown["path"] = {**path, "intervals": list(landscape.intervals)}
    return {**shown, "metadata": metadata, "convergence_point": _convergence(landscape.convergence)}


def _points(points: Any) -> dict[str, Any]:
    return {axis: for_json(getattr(points, axis).tolist()) for axis in ("x", "y", "z")}


def _convergence(points: Any) -> list[Any]:
    if points is None or not all(getattr(points, axis).size for axis in ("x", "y", "z")):
        return [0, 0, 0]
    return [for_json(float(getattr(points, axis).flat[0])) for axis in ("x", "y", "z")]


def _lineage(site: Site, train_id: str) -> dict[str, Any]:
    found = site.lineage_of(train_id, "model")
    if found is None:
        return {**dict.fromkeys(name for name in _LINEAGE if name != LOSS), "metric": {}}
    model = found["model_lineage"]
    shown = {name: _as_text(model[name]) for name in _LINEAGE}
    return {**shown, "metric": for_json(model["metric"])}


def _as_text(value: Any) -> str | None:
    return f"{value:6e}" if isinstance(value, float | int) else value
