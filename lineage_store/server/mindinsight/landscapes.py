"""`datavisual/landscape/…`: loss landscapes, with or without the path of the training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.fields import LISTED
from lineage_store.plain_values import for_json
from lineage_store.plugins import LANDSCAPE
from lineage_store.server.decoding import Content, Decoding
from lineage_store.server.mindinsight.lineages import LOSS
from lineage_store.server.mindinsight.protocol import QueryParameters, compact_json, unknown_job
from lineage_store.server.mindinsight.samples import KeptPayload, in_process, kept_payloads
from lineage_store.server.mindinsight.site import IN_MANAGER, LOSS_LANDSCAPE, Site, SiteJob

NO_LANDSCAPE, MALFORMED = "50545017", "50540002"
_MASK = (1 << 64) - 1
_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_LINEAGE = [field.name for field in LISTED if field.type == "float" or field.name in ("network", "optimizer")]


def get_intervals(site: Site, query: QueryParameters) -> Content | Decoding:
    """Return the first and last step or epoch of each landscape that has intervals, with an id for each."""
    found = _recorded(site, site.job(query.required("train_id"), IN_MANAGER))
    return in_process(_intervals, found, found)


def get_landscapes(site: Site, query: QueryParameters) -> Content | Decoding:
    """Return one landscape of each job: that of an interval, or the final one."""
    train_ids = query.all("train_id")
    jobs = site.jobs(train_ids)
    kind, wanted = [*query.all("type"), "interval"][0], query.get("interval_id")
    asked = [_Asked.of(site, jobs, train_id) for train_id in train_ids]
    return in_process(_landscapes, [each for job in asked for each in job.recorded], asked, kind, wanted)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A job of which a landscape is wanted."""

    train_id: str
    recorded: Sequence[KeptPayload] = ()
    lineage: Mapping[str, Any] = field(default_factory=dict)
    error_code: str = NO_LANDSCAPE
    """The code if none of the landscapes is the wanted one."""

    @classmethod
    def of(cls, site: Site, jobs: Mapping[str, SiteJob], train_id: str) -> _Asked:
        if not train_id.startswith("./"):
            return cls(train_id, error_code=MALFORMED)
        if train_id not in jobs:
            raise unknown_job(IN_MANAGER)
        return cls(train_id, _recorded(site, jobs[train_id]), _lineage(site, train_id))


def _recorded(site: Site, job: SiteJob) -> list[KeptPayload]:
    """Return the landscapes of a job, tag by tag."""
    tags = (job.stored_tag(LANDSCAPE, tag) for tag in job.tags[LOSS_LANDSCAPE])
    return [each for tag in tags if tag is not None for each in kept_payloads(site, job, LANDSCAPE, tag)]


def _intervals(recorded: Sequence[KeptPayload]) -> Content:
    found = [list(each.intervals) for each in _read(recorded) if each.intervals]
    shown = sorted(found, key=lambda interval: interval[0])
    return Content(
        compact_json(
            {"intervals": [{"id": interval_id(each), "value": [each[0], each[-1]]} for each in shown]}
        )
    )


def _landscapes(asked: Sequence[_Asked], kind: str, wanted: str | None) -> Content:
    return Content(compact_json({"landscapes": [_landscape(job, kind, wanted) for job in asked]}))


def _landscape(job: _Asked, kind: str, wanted: str | None) -> dict[str, Any]:
    for each in _read(job.recorded):
        is_final = not each.intervals
        if (is_final and kind == "final") or (
            not is_final and kind == "interval" and interval_id(each.intervals) == wanted
        ):
            return {"train_id": job.train_id, **_shown(each, job.lineage)}
    return {"error_code": job.error_code, "train_id": job.train_id}


def _read(recorded: Sequence[KeptPayload]) -> Iterator[Any]:
    """Yield every landscape that can still be read from its log file."""
    for each in recorded:
        with suppress(PayloadUnavailableError):
            yield each.source.read()


def _shown(landscape: Any, lineage: Mapping[str, Any]) -> dict[str, Any]:
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


def interval_id(intervals: Sequence[int]) -> str:
    """Return the id of these steps or epochs: Python's hash of their text, a 64-bit number in decimal.

    It is the hash of Python 3.11 and newer with PYTHONHASHSEED=0: SipHash-1-3 with a key of zeros. In MindInsight the
    id changes with every start; here it is stable.
    """
    number = _siphash13(str(list(intervals)).encode())
    return str(number - (1 << 64) if number >> 63 else number)


def _siphash13(message: bytes) -> int:
    state = _INITIAL
    whole = len(message) // 8 * 8
    words = [int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append(int.from_bytes(message[whole:], "little") | (len(message) & 0xFF) << 56)
    for word in words:
        v0, v1, v2, v3 = state
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        state = v0 ^ word, v1, v2, v3
    v0, v1, v2, v3 = state
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & _MASK
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 = (v2 + v3) & _MASK
    v3 = _rotated(v3, 16) ^ v2
    v0 = (v0 + v3) & _MASK
    v3 = _rotated(v3, 21) ^ v0
    v2 = (v2 + v1) & _MASK
    v1 = _rotated(v1, 17) ^ v2
    return v0, v1, _rotated(v2, 32), v3


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK
