"""What was recorded step by step: the tags of a job, its scalars, and payloads that are read from its log files.

In: base dirs, train ids, tags, ranges of steps. Out: numpy arrays, payloads. Methods import the modules that read
samples, and NumPy, on first use: questions about lineage do not wait for these imports.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from lineage_store.errors import (
    DatabaseUnavailableError,
    LineageParamValueError,
    SampleNotFoundError,
    TrainJobNotFoundError,
)
from lineage_store.fields import LARGEST_LABEL, LONGEST_REMARK
from lineage_store.paths import PathLike, real_path
from lineage_store.plugins import GRAPH, HISTOGRAM, IMAGE, LANDSCAPE, SCALAR, TENSOR
from lineage_store.store.catalog import refs
from lineage_store.store.opened import Opened, all_asked_again, find_job, stored_id
from lineage_store.texts import check_text, shown, to_stored

if TYPE_CHECKING:
    from lineage_store.query import samples
    from lineage_store.query.status import JobReport
    from lineage_store.query.table import Table
    from lineage_store.store.catalog.refs import JobLike


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
class Samples:
    """A store that returns samples."""

    opened: Opened

    def tags(self, base_dir: PathLike, train_id: str) -> dict[str, list[str]]:
        """Return the tags of a job by plugin (scalar, histogram, image, tensor, graph, landscape)."""
        from lineage_store.query import samples

        with self.opened.job(base_dir, train_id) as (session, _, job_id):
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

        with self.opened.job(base_dir, train_id) as (session, _, job_id):
            return samples.scalars(session, job_id, tag, **chosen)

    def recorded_scalars(
        self, base_dir: PathLike, train_id: str, tag: str
    ) -> list[samples.Recorded[samples.Scalars]]:
        """Return the samples of a scalar in each log file, oldest first, including superseded samples.

        Raises TrainJobNotFoundError, SampleNotFoundError.
        """
        from lineage_store.query import samples

        with self.opened.job(base_dir, train_id) as (session, _, job_id):
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

        with self.opened.job(base_dir, train_id) as (session, place, job_id):
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
        with self.opened.read() as session:
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

        with self.opened.job(base_dir, train_id) as (session, _, job_id):
            return samples.count_payloads(session, job_id, plugin, tag, **chosen)

    def _payloads(
        self, plugin: str, base_dir: PathLike, train_id: str, tag: str, chosen: ChosenPayloads
    ) -> list[samples.PayloadSample]:
        from lineage_store.query import samples

        with self.opened.job(base_dir, train_id) as (session, place, job_id):
            return samples.payloads(session, str(place.path), train_id, job_id, plugin, tag, **chosen)

    def get_lineage(
        self, base_dir: PathLike, train_id: str, keys: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return one job's lineage in the shape of MindInsight 0.7.

        Args:
            keys: some of hyper_parameters, algorithm, train_dataset, valid_dataset, model, metric, dataset_graph,
                user_defined; None for all but the last.

        Raises:
            TrainJobNotFoundError: the store knows no such job.
            LineageParamSummaryPathError: the store does not know the base dir.
            LineageFileNotFoundError: the job has no lineage.
            LineageParamTypeError, LineageParamValueError: `keys` is no list of these names, or the id is no text.
        """
        from lineage_store.query import jobs, mindinsight_shapes

        stored_id(train_id)  # raises when it is no text
        shown = mindinsight_shapes.read_keys(keys)
        with self.opened.job(base_dir, train_id) as (session, place, job_id):
            row = jobs.one(session, job_id, mindinsight_shapes.want_of_keys(shown))
        return mindinsight_shapes.one_job(row, os.path.normpath(place.path / train_id), shown)

    def evaluations(self, job: JobLike, metric: str | None = None) -> Table:
        """Return the results of every evaluation of a job, in order: a row for each metric, with number and time.

        Raises TrainJobNotFoundError, SampleNotFoundError: there is no such job, or no such metric (with the closest).
        """
        from lineage_store.query.comparison import evaluation_table

        if metric is not None:
            check_text("metric", metric)
        place = self.opened.ask(lambda session: refs.find_one(session, job))
        with self.opened.job(*place) as (session, _, _):
            return evaluation_table(session, place, metric)

    def annotate(
        self, base_dir: PathLike, train_id: str, *, tag: int | None = None, remark: str | None = None
    ) -> None:
        """Set the label (0 to 10) or the remark (up to 128 characters) of a job; None leaves the old one.

        When this returns, they are on the disk.

        Raises:
            LineageParamTypeError, LineageParamValueError: a value is not allowed, or neither is given.
            TrainJobNotFoundError: the store knows no such job.
            LineageParamSummaryPathError: the store does not know the base dir.
            ReadOnlyStoreError: the store is open for reading only.
            DatabaseUnavailableError: the primary cannot be written to now, even if a standby answers questions.
        """
        from lineage_store.store.database import db
        from lineage_store.store.writes import jobs as remarks

        db.require_writable(self.opened.primary)
        changes = _annotation(tag, remark)
        try:
            with self.opened.read(self.opened.engine) as session:
                place, _ = find_job(session, base_dir, train_id)
            with self.opened.named_failures(), db.writing(self.opened.engine) as session:
                now = session.now()
                remarks.annotate(session, place.id, to_stored(train_id), changes, now)
        except DatabaseUnavailableError as error:
            if self.opened.standby is not None:
                more = (
                    f"Labels and remarks are written there; questions are answered by {self.opened.standby}."
                )
                error.hint = f"{error.hint or ''} {more}".lstrip()
            raise

    def job_report(
        self, base_dir: PathLike, train_id: str, *, parts: Collection[str] | None = None
    ) -> JobReport:
        """Return what the views show of one job. Raises TrainJobNotFoundError.

        `parts`: read only these attributes of the report besides `job`; None: all. Some jobs have very many series.
        """
        from lineage_store.query import jobs
        from lineage_store.query import status as statuses

        path = real_path(base_dir)
        with self.opened.read() as session:
            found = statuses.read_job(session, to_stored(str(path)), stored_id(train_id), parts)
        if found is None:
            raise jobs.no_such_job(train_id, path)
        return found

    def evaluation_rows(self, base_dir: PathLike, train_id: str) -> Sequence[Mapping[str, Any]]:
        """Return the rows of v_metric of a job, in the order of its evaluations. Raises TrainJobNotFoundError."""
        from lineage_store.query import status as statuses

        with self.opened.job(base_dir, train_id) as (session, place, _):
            return statuses.read_evaluations(session, to_stored(str(place.path)), to_stored(train_id))


def _annotation(tag: int | None, remark: str | None) -> dict[str, Any]:
    from lineage_store.store.database.db import check_count

    if tag is None and remark is None:
        raise LineageParamValueError("Neither a tag nor a remark is given.")
    if tag is not None:
        check_count("tag", tag, least=0, most=LARGEST_LABEL)
    if remark is not None:
        check_text("remark", remark)
    if remark is not None and len(remark) > LONGEST_REMARK:
        raise LineageParamValueError(
            f"The remark has {len(remark)} characters; {LONGEST_REMARK} are allowed."
        )
    given = {"tag": tag, "remark": None if remark is None else to_stored(remark)}
    return {name: value for name, value in given.items() if value is not None}
