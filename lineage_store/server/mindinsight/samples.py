"""The samples of a tag that MindInsight would have kept, for all endpoints that show samples.

In: a job, a plugin, a tag. Out: the samples that survive MindInsight's sampling, ascending by step. A sample that is
requested by its step is read from the store instead, which has every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from lineage_store.plugins import SCALAR
from lineage_store.server.mindinsight.protocol import RefusedError
from lineage_store.server.mindinsight.sampling import Run, kept
from lineage_store.server.mindinsight.site import SAMPLES, Job, Site

if TYPE_CHECKING:
    from lineage_store.api.reports import PayloadSample, Recorded

T = TypeVar("T")
NO_DATA = "Invalid parameter value. Can not find any data in this train job by given tag."


def kept_scalars(site: Site, job: Job, tag: str) -> list[tuple[float, int, float]]:
    """Return the kept samples (wall time in unix s, step, value) of a scalar; `tag` as in the store."""
    parts = _in_reading_order(site.store.recorded_scalars(site.base_dir, job.train_id, tag))
    runs = [Run(part.file_time, part.samples.steps.tolist()) for part in parts]
    rows = [
        list(zip(part.samples.wall_times.tolist(), run.steps, part.samples.values.tolist(), strict=True))
        for part, run in zip(parts, runs, strict=True)
    ]
    return [rows[run][index] for run, index in kept(runs, SAMPLES[SCALAR] * site.limits)]


def kept_payloads(
    site: Site, job: Job, plugin: str, tag: str, counts: Callable[[PayloadSample], bool] = lambda sample: True
) -> list[PayloadSample]:
    """Return the kept payloads of a tag; `plugin` and `tag` as in the store.

    Samples for which `counts` is False are left out before sampling.
    """
    parts = _in_reading_order(site.store.recorded_payloads(site.base_dir, job.train_id, plugin, tag))
    taken = [list(filter(counts, part.samples)) for part in parts]
    steps = ([sample.step for sample in samples] for samples in taken)
    runs = [Run(part.file_time, of_part) for part, of_part in zip(parts, steps, strict=True)]
    return [taken[run][index] for run, index in kept(runs, SAMPLES[plugin] * site.limits)]


def stored_tag(job: Job, plugin: str, tag: str, otherwise: RefusedError) -> str:
    """Return the store's name of a tag. Raises `otherwise` if the job has no such tag."""
    found = job.stored_tag(plugin, tag)
    if found is None:
        raise otherwise
    return found


def _in_reading_order(recorded: list[Recorded[T]]) -> list[Recorded[T]]:
    """Sort parts as MindInsight reads files: by start time; among files of one second, descending by name."""
    by_name = sorted(recorded, key=lambda part: part.log_file, reverse=True)
    return sorted(by_name, key=lambda part: part.file_time)
