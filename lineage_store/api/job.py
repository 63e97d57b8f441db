"""What was recorded step by step: the tags of a job, its scalars, and payloads that are read from its log files.

In: base dirs, train ids, tags, ranges of steps. Out: numpy arrays, payloads. Methods import the modules that read
samples, and NumPy, on first use: questions about lineage do not wait for these imports.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypedDict, Unpack

from lineage_store.errors import LineageParamValueError, SampleNotFoundError, TrainJobNotFoundError
from lineage_store.paths import PathLike
from lineage_store.plugins import GRAPH, HISTOGRAM, IMAGE, LANDSCAPE, SCALAR, TENSOR
from lineage_store.store.opened import OpenedStore, all_asked_again, find_job
from lineage_store.texts import shown

if TYPE_CHECKING:
    from lineage_store.query import samples


MOST_POINTS = 100_000


class Chosen(TypedDict, total=False):
    """Which samples: from step `start` up to but not including `stop`, of one device; None means no restriction."""

    start: int | None
    stop: int | None
    device: int | None


class ChosenPayloads(Chosen, total=False):
    """Which payloads; `limit`: the first so many of them, None or left out: all."""

    limit: int | None


@all_asked_again
class Samples(OpenedStore):
    """A store that returns samples."""

    def tags(self, base_dir: PathLike, train_id: str) -> dict[str, list[str]]:
        """Return the tags of a job by plugin (scalar, histogram, image, tensor, graph, landscape)."""
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (session, _, job_id):
            return samples.tags(session, job_id)

    def scalars(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> samples.Scalars:
        """Return every step of a scalar, from step `start` up to but not including `stop`.

        Samples that a restart wrote again replace the older ones. Several devices interleave unless `device` names one;
        if several wrote the same step, the sample of the later file name is returned.

        Returns:
            `.steps` int64[n] ascending, `.wall_times` float64[n] in unix seconds, `.values` float64[n] (NaN and
            infinities as written); `.to_pandas()`, `.to_polars()`, `.to_arrow()`. `.replaced_count`: the number of
            samples left out for those of other devices. `.thinned_count`: the number of samples that the store no
            longer has, because old scalars are thinned; v_scalar_bucket summarizes them.

        Raises:
            TrainJobNotFoundError: there is no such job.
            SampleNotFoundError: there is no such tag; the error names close ones.
        """
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (session, _, job_id):
            return samples.scalars(session, job_id, tag, **chosen)

    def recorded_scalars(
        self, base_dir: PathLike, train_id: str, tag: str
    ) -> list[samples.Recorded[samples.Scalars]]:
        """Return the samples of a scalar in each log file, oldest first, including superseded samples.

        Raises TrainJobNotFoundError, SampleNotFoundError.
        """
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (session, _, job_id):
            return samples.recorded_scalars(session, job_id, tag)

    def recorded_payloads(
        self,
        base_dir: PathLike,
        train_id: str,
        plugin: str,
        tag: str,
        choose: samples.Choose,
        *,
        most_long: int | None = None,
    ) -> list[samples.PayloadSample]:
        """Return those of the recorded histograms, images and the like that `choose` names, superseded ones too.

        `choose` gets the steps of each log file, oldest first, and returns (number of the file, index of the step).
        `most_long`: leave out payloads whose first dimension is greater.
        """
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (session, place, job_id):
            job, wanted = (str(place.path), train_id), (plugin, tag)
            return samples.recorded_payloads(session, job, job_id, wanted, choose, most_long)

    def buckets(
        self,
        tags: Sequence[tuple[PathLike, str, str]],
        *,
        start: int | None = None,
        stop: int | None = None,
        device: int | None = None,
        points: int = 1000,
        superseded: bool = False,
        skip_unknown: bool = False,
    ) -> list[samples.Curve]:
        """Return scalars for a screen: the curves of some tags on one grid of steps, without losing any spike.

        Args:
            tags: (base dir, train id, tag) of each.
            start, stop, device: as for `scalars`; but each device has a curve of its own.
            points: the most buckets of a curve, 2 to 100,000; a curve of up to twice as many samples is not divided
                into buckets.
            superseded: also return the samples that a restart wrote again, as curves of their own.
            skip_unknown: leave out unknown jobs and tags, instead of raising.

        Raises:
            LineageParamValueError: `points` is out of bounds.
            TrainJobNotFoundError: there is no such job.
            SampleNotFoundError: there is no such tag; the error names close ones.
        """
        from lineage_store.query import samples

        if not isinstance(points, int) or not 2 <= points <= MOST_POINTS:
            raise LineageParamValueError(
                f"points = {shown(points)} must be a whole number from 2 to {MOST_POINTS}."
            )
        first, end = samples.step_bounds(start, stop)
        ignored = (TrainJobNotFoundError, SampleNotFoundError) if skip_unknown else ()
        found: list[Sequence[samples.Series]] = []
        with self._reading() as session:
            for base_dir, train_id, tag in tags:
                found.append([])
                with suppress(*ignored):
                    _, job_id = find_job(session, base_dir, train_id)
                    found[-1] = samples.find_series(session, job_id, SCALAR, tag, device)
            return samples.curves(session, found, first, end, points=points, superseded=superseded)

    # Payloads: these methods return metadata; `.read()` of each item reads the log file, and raises
    # PayloadUnavailableError if the file is missing or has changed, PayloadTooCostlyError if it takes too much memory.
    # `start`, `stop` and `device` as for scalars; `limit`: the first so many.

    def histograms(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[ChosenPayloads]
    ) -> list[samples.PayloadSample]:
        """Return the histograms of a tag; `.read()` returns buckets as arrays."""
        return self._payloads(HISTOGRAM, base_dir, train_id, tag, chosen)

    def images(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[ChosenPayloads]
    ) -> list[samples.PayloadSample]:
        """Return the images of a tag; `.read()` returns the PNG bytes with height and width."""
        return self._payloads(IMAGE, base_dir, train_id, tag, chosen)

    def tensors(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[ChosenPayloads]
    ) -> list[samples.PayloadSample]:
        """Return the tensors of a tag; `.read()` returns a numpy array."""
        return self._payloads(TENSOR, base_dir, train_id, tag, chosen)

    def graphs(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[ChosenPayloads]
    ) -> list[samples.PayloadSample]:
        """Return the computational graph in a log file; the tag is the name of the log file."""
        return self._payloads(GRAPH, base_dir, train_id, tag, chosen)

    def landscapes(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[ChosenPayloads]
    ) -> list[samples.PayloadSample]:
        """Return the loss landscapes of a tag."""
        return self._payloads(LANDSCAPE, base_dir, train_id, tag, chosen)

    def count_payloads(
        self, base_dir: PathLike, train_id: str, plugin: str, tag: str, **chosen: Unpack[Chosen]
    ) -> int:
        """Return how many histograms, images and the like a tag has: one for each step."""
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (session, _, job_id):
            return samples.count_payloads(session, job_id, plugin, tag, **chosen)

    def _payloads(
        self, plugin: str, base_dir: PathLike, train_id: str, tag: str, chosen: ChosenPayloads
    ) -> list[samples.PayloadSample]:
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (session, place, job_id):
            return samples.payloads(session, str(place.path), train_id, job_id, plugin, tag, **chosen)
