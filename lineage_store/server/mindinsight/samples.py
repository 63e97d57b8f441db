"""The samples of a tag that MindInsight would have kept, for all endpoints that show samples.

In: a job, a plugin, a tag. Out: the samples that survive MindInsight's sampling, ascending by step. A sample that is
requested by its step is read from the store instead, which has every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_store.plugins import SCALAR
from lineage_store.server.decoding import Answer, Decoding
from lineage_store.server.mindinsight.protocol import RefusedError
from lineage_store.server.mindinsight.sampling import Run, kept
from lineage_store.server.mindinsight.site import SAMPLES, Job, Site

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lineage_store.api.reports import PayloadSample, PayloadSource, Recorded

NO_DATA = "Invalid parameter value. Can not find any data in this train job by given tag."


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload: what its endpoint shows of it, and where it is. A process that decodes it needs no more."""

    step: int
    wall_time: float | None
    shape: Sequence[int] | None
    dtype: str | None
    source: PayloadSource


def described(samples: Iterable[PayloadSample]) -> list[Payload]:
    """Return payloads of the store as endpoints hand them to processes."""
    return [Payload(each.step, each.wall_time, each.shape, each.dtype, each.source) for each in samples]


def decoded(
    make: Callable[..., Answer], payloads: Sequence[Payload], *arguments: object
) -> Answer | Decoding:
    """Have `make(*arguments)` called in a process, which reads these payloads; without any, call it here."""
    if not payloads:
        return make(*arguments)
    return Decoding(make, arguments, [each.source for each in payloads])


def kept_scalars(site: Site, job: Job, tag: str) -> list[tuple[float, int, float]]:
    """Return the kept samples (wall time in unix s, step, value) of a scalar; `tag` as in the store."""
    recorded = site.store.recorded_scalars(site.base_dir, job.train_id, tag)
    files = [(part.file_time, part.log_file, part.samples.steps) for part in recorded]
    found = []
    for part, index in _kept(files, SAMPLES[SCALAR] * site.limits):
        samples = recorded[part].samples
        columns = samples.wall_times, samples.steps, samples.values
        wall_time, step, value = (column[index].item() for column in columns)
        found.append((wall_time, step, value))
    return found


def kept_payloads(
    site: Site, job: Job, plugin: str, tag: str, *, most_long: int | None = None
) -> list[Payload]:
    """Return the kept payloads of a tag; `plugin` and `tag` as in the store.

    Samples whose first dimension is greater than `most_long` are left out before sampling.
    """

    def choose(recorded: Sequence[Recorded[NDArray[np.int64]]]) -> Sequence[tuple[int, int]]:
        files = [(part.file_time, part.log_file, part.samples) for part in recorded]
        return _kept(files, SAMPLES[plugin] * site.limits)

    return described(
        site.store.recorded_payloads(site.base_dir, job.train_id, plugin, tag, choose, most_long=most_long)
    )


def stored_tag(job: Job, plugin: str, tag: str, otherwise: RefusedError) -> str:
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
