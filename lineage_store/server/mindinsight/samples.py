"""The samples of a tag that MindInsight would have kept, and the scalars and images among them.

In: a job, a plugin, a tag. Out: the samples that survive MindInsight's sampling, ascending by step; the answers of
`datavisual/scalar/metadata`, `scalars`, `image/metadata` and `image/single-image`. Promises: the same samples as in
MindInsight's charts, also after restarts of the training. The store keeps every step: an image that is requested by
its step is read from the store.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any

from lineage_store.errors import PayloadUnavailableError
from lineage_store.plugins import IMAGE, SCALAR
from lineage_store.server.decoding import Content, Decoding, to_json
from lineage_store.server.mindinsight.protocol import (
    QueryParameters,
    RefusedError,
    integer_of,
    nothing_of,
    picture,
    wrong_type,
)
from lineage_store.server.mindinsight.site import SAMPLES, Site, SiteJob

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lineage_store.api.reports import PayloadSample, PayloadSource, Recorded


NEWEST = -1
"""The step that stands for the newest image."""
NO_DATA = "Invalid parameter value. Can not find any data in this train job by given tag."
GONE = "Its log file is gone or has changed."
_NO_NUMBER = wrong_type("scalar_value", "number")
Place = tuple[int, int]
"""Index of a run, and index of a sample in it."""


@dataclass(frozen=True, slots=True)
class KeptPayload:
    """A payload: what its endpoint shows of it, and where it is. A process that decodes it needs no more."""

    step: int
    wall_time: float | None
    shape: Sequence[int] | None
    dtype: str | None
    source: PayloadSource

    def read(self, otherwise: RefusedError) -> Any:
        """Return the payload. Raises `otherwise` if its log file is gone or has changed."""
        try:
            return self.source.read()
        except PayloadUnavailableError:
            raise otherwise from None


def located(samples: Iterable[PayloadSample]) -> list[KeptPayload]:
    """Return payloads of the store as endpoints hand them to processes."""
    return [KeptPayload(each.step, each.wall_time, each.shape, each.dtype, each.source) for each in samples]


def in_process(
    make: Callable[..., Content], payloads: Sequence[KeptPayload], *arguments: object
) -> Content | Decoding:
    """Have `make(*arguments)` called in a process, which reads these payloads; without any, call it here."""
    if not payloads:
        return make(*arguments)
    return Decoding(make, arguments, [each.source for each in payloads])


def kept_scalars(site: Site, job: SiteJob, tag: str) -> list[tuple[float, int, float]]:
    """Return the kept samples (wall time in unix s, step, value) of a scalar; `tag` as in the store."""
    recorded = site.of(job.train_id).recorded(tag)
    files = [(part.file_time, part.log_file, part.samples.steps) for part in recorded]
    found = []
    for part, index in _kept(files, SAMPLES[SCALAR] * site.limits):
        samples = recorded[part].samples
        columns = samples.wall_times, samples.steps, samples.values
        wall_time, step, value = (column[index].item() for column in columns)
        found.append((wall_time, step, value))
    return found


def kept_payloads(
    site: Site, job: SiteJob, plugin: str, tag: str, *, most_long: int | None = None
) -> list[KeptPayload]:
    """Return the kept payloads of a tag; `plugin` and `tag` as in the store.

    Samples whose first dimension is greater than `most_long` are left out before sampling.
    """

    def choose(recorded: Sequence[Recorded[NDArray[np.int64]]]) -> Sequence[tuple[int, int]]:
        files = [(part.file_time, part.log_file, part.samples) for part in recorded]
        return _kept(files, SAMPLES[plugin] * site.limits)

    return located(site.of(job.train_id).recorded_payloads(plugin, tag, choose, most_long=most_long))


def stored_tag(job: SiteJob, plugin: str, tag: str, otherwise: RefusedError) -> str:
    """Return the store's name of a tag. Raises `otherwise` if the job has no such tag."""
    found = job.stored_tag(plugin, tag)
    if found is None:
        raise otherwise
    return found


def _kept(files: Sequence[tuple[int, str, NDArray[np.int64]]], most: int) -> list[tuple[int, int]]:
    """Return the kept samples of files (start time, name, steps) as (number of the file, index of the step).

    MindInsight reads files by their start time; among files of one second, descending by name.
    """
    by_name = sorted(range(len(files)), key=lambda number: files[number][1], reverse=True)
    order = sorted(by_name, key=lambda number: files[number][0])
    runs = [Run(files[number][0], files[number][2].tolist()) for number in order]
    return [(order[run], index) for run, index in kept(runs, most)]


@dataclass(frozen=True, slots=True)
class Run:
    """The steps of a tag in one log file, ascending; `file_time` in unix s."""

    file_time: int
    steps: Sequence[int]


def kept(runs: Sequence[Run], capacity: int) -> list[Place]:
    """Return the places of the samples that MindInsight's server would still have, ascending by step.

    Args:
        runs: in the order in which MindInsight reads them.
        capacity: how many it keeps; the newest one always.
    """
    if len(runs) == 1:
        return [(0, index) for index in _kept_of_one(len(runs[0].steps), capacity)]
    reservoir = Reservoir(capacity)
    for number, run in enumerate(runs):
        for index, step in enumerate(run.steps):
            reservoir.add(step, run.file_time, (number, index))
    return reservoir.places


@lru_cache(maxsize=64)
def _kept_of_one(count: int, capacity: int) -> Sequence[int]:
    """Return the same for one run: for ascending steps only their number matters, so that answers can be cached."""
    if count <= capacity:
        return range(count)
    reservoir = Reservoir(capacity)
    for index in range(count):
        reservoir.add(index, 0, (0, index))
    return [index for _, index in reservoir.places]


@dataclass(slots=True)
class Reservoir:
    """A reservoir of bounded size that always has the newest sample; a generator with seed 0 chooses which to drop."""

    capacity: int
    _kept: list[tuple[int, int, Place]] = field(default_factory=list)
    """Step, time of the file, place; ascending, and each step once."""
    _seen: int = 0
    _random: Random = field(default_factory=lambda: Random(0))  # noqa: S311  # MindInsight draws by it

    @property
    def places(self) -> list[Place]:
        """The places of what it has, ascending by step."""
        return [place for _, _, place in self._kept]

    def add(self, step: int, file_time: int, place: Place) -> None:
        """Add a sample; `step` and `file_time` as in `Run`."""
        if self._kept and step <= self._kept[-1][0]:
            self._purge(step, file_time)
        if len(self._kept) >= self.capacity:
            drawn = self._random.randint(0, self._seen)
            del self._kept[drawn if drawn < self.capacity else -1]
        insort(self._kept, (step, file_time, place))
        self._seen += 1

    def _purge(self, step: int, file_time: int) -> None:
        """Drop the samples that a step replaces: the same step, and later steps in files that were begun before."""
        left = [each for each in self._kept if each[0] < step or (each[0] > step and each[1] >= file_time)]
        if len(left) < len(self._kept):
            self._seen = round(self._seen * (len(left) / len(self._kept)))
        self._kept = left


def get_scalar_metadata(site: Site, query: QueryParameters) -> Content:
    """Return one curve, NaN and infinities as null.

    It may have very many numbers, so that the fast encoder writes them. It may spell a number differently from
    MindInsight (1e-5 for 1e-05), but never changes its value.
    """
    train_id, tag = query.required("train_id"), query.required("tag")
    values = _values(site, site.job(train_id), tag)
    if values is None:
        raise nothing_of(SCALAR, NO_DATA)
    return Content(to_json({"metadatas": values}))


def get_scalars(site: Site, query: QueryParameters) -> Content:
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
    return Content(to_json({"scalars": found}))


def _values(site: Site, job: SiteJob, tag: str) -> list[dict[str, Any]] | None:
    stored = job.stored_tag(SCALAR, tag)
    if stored is None:
        if job.has_tag(tag):
            raise _NO_NUMBER
        return None
    return [
        {"wall_time": wall_time, "step": step, "value": value if math.isfinite(value) else None}
        for wall_time, step, value in kept_scalars(site, job, stored)
    ]


def get_image_metadata(site: Site, query: QueryParameters) -> dict[str, Any]:
    """Describe the images of a tag that MindInsight would have kept."""
    train_id, tag = query.required("train_id"), query.required("tag")
    job = site.job(train_id)
    samples = kept_payloads(site, job, IMAGE, stored_tag(job, IMAGE, tag, nothing_of(IMAGE, NO_DATA)))
    shown = []
    for sample in samples:
        height, width = (sample.shape or (0, 0))[:2]
        shown.append({"wall_time": sample.wall_time, "step": sample.step, "width": width, "height": height})
    return {"metadatas": shown}


def get_image(site: Site, query: QueryParameters) -> Content | Decoding:
    """Return the recorded bytes of an image, of any recorded step."""
    train_id, tag = query.required("train_id"), query.required("tag")
    step = integer_of("step", query.required("step"))
    job = site.job(train_id)
    stored = stored_tag(job, IMAGE, tag, nothing_of(IMAGE, NO_DATA))
    samples = kept_payloads(site, job, IMAGE, stored)
    found = samples[-1:] if step == NEWEST else [sample for sample in samples if sample.step == step]
    if not found:
        found = located(site.of(train_id).images(stored, start=step, stop=step + 1))
    if not found:
        raise nothing_of(IMAGE, "Can not find the step with given train job id and tag.")
    return in_process(_shown, found[:1], found[0])


def _shown(payload: KeptPayload) -> Content:
    return picture(payload.read(nothing_of(IMAGE, GONE)).png)
