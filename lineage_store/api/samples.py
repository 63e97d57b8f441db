"""What was recorded step by step: the tags of a job, its scalars, and what is read from its log files.

What reads samples, and NumPy with it, is imported when it is first asked for: whoever only asks about lineage does not
wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypedDict, Unpack

from lineage_store.api import base_dirs
from lineage_store.api.opened import OpenedStore, job_id
from lineage_store.api.paths import PathLike
from lineage_store.errors import LineageParamValueError, SampleNotFoundError, TrainJobNotFoundError
from lineage_store.store.database.conflicts import all_asked_again

if TYPE_CHECKING:
    from lineage_store.query import samples


MOST_POINTS = 100_000


class Chosen(TypedDict, total=False):
    """Which samples: from step `start` up to but not including `stop`, of one device; None is no bound."""

    start: int | None
    stop: int | None
    device: int | None


@all_asked_again
class Samples(OpenedStore):
    """A store that gives out samples."""

    def tags(self, base_dir: PathLike, train_id: str) -> dict[str, list[str]]:
        """The tags of a job by plugin (scalar, histogram, image, tensor, graph, landscape)."""
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (connection, _, job_id):
            return samples.tags(connection, job_id)

    def scalars(
        self,
        base_dir: PathLike,
        train_id: str,
        tag: str,
        *,
        start: int | None = None,
        stop: int | None = None,
        device: int | None = None,
    ) -> samples.Scalars:
        """Every step of a scalar, from step `start` up to but not including `stop`.

        Returns:
            `.steps` int64[n] ascending, `.wall_times` float64[n] in unix seconds, `.values` float64[n] (NaN and
            infinities as written); `.to_pandas()`, `.to_arrow()`. What a restart wrote again replaces what was
            superseded. Several devices interleave unless `device` names one: of a step that several wrote the later
            file name's sample is there, `.replaced_count`: how many are not. `.thinned_count`: how many samples are
            no longer there, where old scalars are thinned; v_scalar_bucket tells of them.

        Raises:
            TrainJobNotFoundError, SampleNotFoundError: no such job; no such tag, with those that come close.
        """
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (connection, _, job_id):
            return samples.scalars(connection, job_id, tag, start=start, stop=stop, device=device)

    def recorded_scalars(
        self, base_dir: PathLike, train_id: str, tag: str
    ) -> list[samples.Recorded[samples.Scalars]]:
        """What each log file holds of a scalar, oldest first, what a restart wrote again included.

        Raises TrainJobNotFoundError, SampleNotFoundError.
        """
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (connection, _, job_id):
            return samples.recorded_scalars(connection, job_id, tag)

    def recorded_payloads(
        self, base_dir: PathLike, train_id: str, plugin: str, tag: str
    ) -> list[samples.Recorded[list[samples.PayloadSample]]]:
        """The same of a histogram, image, tensor, graph or landscape."""
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (connection, place, job_id):
            return samples.recorded_payloads(connection, (str(place.path), train_id), job_id, plugin, tag)

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
        """Scalars for a screen: the curves of some tags, on one grid of steps; every spike is in them.

        Args:
            tags: base dir, train id and tag of each.
            start, stop, device: as for `scalars`; devices do not interleave here, each has a curve of its own.
            points: how many buckets a curve may have; twice as many samples come as they are.
            superseded: with what a restart wrote again, as curves of their own.
            skip_unknown: leave out what is not there, instead of raising.

        Raises:
            TrainJobNotFoundError, SampleNotFoundError: no such job; no such tag, with those that come close.
        """
        from lineage_store.plugins import SCALAR
        from lineage_store.query import samples

        if not isinstance(points, int) or not 2 <= points <= MOST_POINTS:
            raise LineageParamValueError(
                f"points = {points!r} must be a whole number from 2 to {MOST_POINTS}."
            )
        first, end = samples.step_bounds(start, stop)
        ignored = (TrainJobNotFoundError, SampleNotFoundError) if skip_unknown else ()
        found: list[Sequence[samples.Series]] = []
        with self._reading() as connection:
            for base_dir, train_id, tag in tags:
                found.append([])
                with suppress(*ignored):
                    job = job_id(connection, base_dirs.find(connection, base_dir), train_id)
                    found[-1] = samples.find_series(connection, job, SCALAR, tag, device)
            return samples.curves(connection, found, first, end, points=points, superseded=superseded)

    # Payloads: what is listed is metadata; `.read()` of each reads the log file, and raises PayloadUnavailableError
    # when that is gone or has changed. `start`, `stop` and `device` choose as for scalars.

    def histograms(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The histograms of a tag; `.read()` gives buckets as arrays."""
        return self._payloads("histogram", base_dir, train_id, tag, chosen)

    def images(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The images of a tag; `.read()` gives the PNG bytes with height and width."""
        return self._payloads("image", base_dir, train_id, tag, chosen)

    def tensors(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The tensors of a tag; `.read()` gives a numpy array."""
        return self._payloads("tensor", base_dir, train_id, tag, chosen)

    def graphs(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The computational graphs of a job; the tag is the name of the log file."""
        return self._payloads("graph", base_dir, train_id, tag, chosen)

    def landscapes(
        self, base_dir: PathLike, train_id: str, tag: str, **chosen: Unpack[Chosen]
    ) -> list[samples.PayloadSample]:
        """The loss landscapes of a tag."""
        return self._payloads("landscape", base_dir, train_id, tag, chosen)

    def _payloads(
        self, plugin: str, base_dir: PathLike, train_id: str, tag: str, chosen: Chosen
    ) -> list[samples.PayloadSample]:
        from lineage_store.query import samples

        with self._job(base_dir, train_id) as (connection, place, job_id):
            return samples.payloads(connection, str(place.path), train_id, job_id, plugin, tag, **chosen)
