"""`Job`: what the store knows of one job, and what can be done with it.

In: a job as a person or another answer names it, tags, ranges of steps. Out: plain dicts, rows, tables, numpy arrays,
payloads. Promises: the name is resolved by the first question; from then on the job is asked for by its id, and found
again by its name if it was removed and read anew. Nothing but `why`, `verify`, `reingest` and `.read()` of
a payload asks the disk. Methods import the modules that they need, and NumPy, on first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from lineage_store.errors import (
    DatabaseUnavailableError,
    LineageParamValueError,
    TrainJobNotFoundError,
)
from lineage_store.fields import LARGEST_LABEL, LONGEST_REMARK
from lineage_store.paths import PathLike
from lineage_store.plugins import GRAPH, HISTOGRAM, IMAGE, LANDSCAPE, TENSOR
from lineage_store.store.catalog import refs
from lineage_store.store.catalog.refs import JobName, JobRef
from lineage_store.texts import check_text, from_stored, to_stored

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from lineage_store.api.store import LineageStore
    from lineage_store.operations.repair import Reread
    from lineage_store.operations.verify import FileVerdict
    from lineage_store.operations.why import Verdict
    from lineage_store.query import samples
    from lineage_store.query.status import JobReport
    from lineage_store.query.table import Table
    from lineage_store.store.catalog.refs import JobLike
    from lineage_store.store.database.sql import Session


Row = Mapping[str, Any]
T = TypeVar("T")


class Chosen(TypedDict, total=False):
    """Which samples: from step `start` up to but not including `stop`, of one device; None means no restriction."""

    start: int | None
    stop: int | None
    device: int | None


class ChosenPayloads(Chosen, total=False):
    """Which payloads; `limit`: the first so many of them, None or left out: all."""

    limit: int | None


class Job:
    """A job of a store; printed, it shows what it is and what came of it.

    Every method raises TrainJobNotFoundError when the store does not know the job, LineageParamSummaryPathError when it
    does not know its base dir, and SampleNotFoundError for a tag that the job has not; the error names close ones.
    `LineageStore.job` says what names a job.
    """

    def __init__(
        self,
        store: LineageStore,
        given: JobLike,
        base_dir: PathLike | None = None,
        *,
        removed: bool = False,
    ) -> None:
        self._store, self._given, self._within, self._removed = store, given, base_dir, removed
        self._ref: JobRef | None = None
        self._name: JobName | None = None

    # --- which job --------------------------------------------------------------------------------------------------

    @property
    def ref(self) -> JobRef:
        """The ids of its base dir and of the job."""
        return self._ask(lambda _, ref: ref)

    @property
    def name(self) -> JobName:
        """Its base dir and id, also of a job that was removed."""
        if self._name is None:
            self._name = self._named()
        return self._name

    @property
    def base_dir(self) -> str:
        """The path of its base dir."""
        return str(self.name.base_dir.path)

    @property
    def id(self) -> str:
        """`./name` below the base dir."""
        return self.name.train_id

    @property
    def path(self) -> Path:
        """Its directory."""
        return self.name.base_dir.path / self.name.train_id

    def _named(self) -> JobName:
        def answer(session: Session) -> JobName:
            try:
                self.resolve(session)
            except TrainJobNotFoundError:
                if not self._removed:
                    raise
            return self._name or refs.name(session, self._given, self._within, removed=True)

        return self._store.opened.ask(answer)

    def _ask(self, question: Callable[[Session, JobRef], T], engine: Engine | None = None) -> T:
        """Return the answer to a question about the job, which is looked up in the question's transaction."""
        return self._store.opened.ask(lambda session: question(session, self.resolve(session)), engine)

    def resolve(self, session: Session) -> JobRef:
        """Return the job's ids, found in an open transaction."""
        given, within = self._given, self._within
        if self._name is not None:
            given, within = self._name.place, None
        if self._ref is not None:
            with suppress(TrainJobNotFoundError):  # it was read anew, or removed
                (self._name,) = refs.job_names(session, [self._ref])
                return self._ref
        self._ref = refs.job(session, given, within)
        (self._name,) = refs.job_names(session, [self._ref])
        return self._ref

    # --- what it is, and what came of it ----------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """reading, live, stalled, finished or missing."""
        return str(self._row()["state"])

    @property
    def outcome(self) -> str | None:
        """completed, failed or interrupted; None while it is live, or when it is unknown."""
        return self._row()["outcome"]  # type: ignore[no-any-return]

    @property
    def label(self) -> int | None:
        """The label that `annotate` set, 0 to 10."""
        return self._row()["label"]  # type: ignore[no-any-return]

    @property
    def remark(self) -> str | None:
        """The remark that `annotate` set."""
        remark = self._row()["remark"]
        return None if remark is None else from_stored(remark)

    def _row(self) -> Row:
        return self.report(parts=()).job

    def __repr__(self) -> str:
        shown = {**self._row()}
        del shown["job_id"]
        width = max(map(len, shown))
        lines = (f"{name:<{width}}  {value}" for name, value in shown.items() if value is not None)
        return "\n".join((f"Job {self.id}", *lines))

    def report(self, *, parts: Collection[str] | None = None) -> JobReport:
        """Return what the views show of the job.

        `parts`: read only these attributes of the report besides `job`; None: all. Some jobs have very many series.
        """
        from lineage_store.query import status

        return self._ask(lambda session, ref: status.read_job(session, ref.job_id, parts))

    def files(self) -> Sequence[Row]:
        """Return the rows of v_log_file: its log files, and how far they are read."""
        return self.report(parts=("log_files",)).log_files

    def lineage(self, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the lineage in the shape of MindInsight 0.7.

        Args:
            keys: some of hyper_parameters, algorithm, train_dataset, valid_dataset, model, metric, dataset_graph,
                user_defined; None for all but the last.

        Raises:
            LineageFileNotFoundError: the job has no lineage.
            LineageParamTypeError, LineageParamValueError: `keys` is no list of these names.
        """
        from lineage_store.query import jobs, mindinsight_shapes

        shown = mindinsight_shapes.read_keys(keys)
        want = mindinsight_shapes.want_of_keys(shown)
        row = self._ask(lambda session, ref: jobs.one(session, ref.job_id, want))
        return mindinsight_shapes.one_job(row, os.path.normpath(self.path), shown)

    def evaluations(self, metric: str | None = None) -> Table:
        """Return the results of every evaluation, in order: a row for each metric, with number and time."""
        from lineage_store.query.comparison import evaluation_table

        if metric is not None:
            check_text("metric", metric)
        return self._ask(lambda session, ref: evaluation_table(session, ref.job_id, self.id, metric))

    def evaluation_rows(self) -> Sequence[Row]:
        """Return the same as rows of v_metric."""
        from lineage_store.query import status

        return self._ask(lambda session, ref: status.read_evaluations(session, ref.job_id))

    def annotate(self, *, label: int | None = None, remark: str | None = None) -> None:
        """Set the label (0 to 10) or the remark (up to 128 characters); None leaves the old one.

        When this returns, they are on the disk.

        Raises:
            LineageParamTypeError, LineageParamValueError: a value is not allowed, or neither is given.
            ReadOnlyStoreError: the store is open for reading only.
            DatabaseUnavailableError: the primary cannot be written to now, even if a standby answers questions.
        """
        from lineage_store.store.database import db
        from lineage_store.store.writes import jobs as remarks

        opened = self._store.opened
        db.require_writable(opened.primary)
        changes = _annotation(label, remark)
        try:
            ref = self._ask(lambda _, ref: ref, opened.engine)
            with opened.named_failures(), db.writing(opened.engine) as session:
                now = session.now()
                remarks.annotate(session, ref.base_dir_id, to_stored(self.id), changes, now)
        except DatabaseUnavailableError as error:
            if opened.standby is not None:
                more = f"Labels and remarks are written there; questions are answered by {opened.standby}."
                error.hint = f"{error.hint or ''} {more}".lstrip()
            raise

    # --- what was recorded step by step -----------------------------------------------------------------------------

    def tags(self) -> dict[str, list[str]]:
        """Return its tags by plugin (scalar, histogram, image, tensor, graph, landscape)."""
        from lineage_store.query import samples

        return self._ask(lambda session, ref: samples.tags(session, ref.job_id))

    def scalars(self, tag: str, **chosen: Unpack[Chosen]) -> samples.Scalars:
        """Return every step of a scalar, from step `start` up to but not including `stop`.

        Samples that a restart wrote again replace the older ones. Several devices interleave unless `device` names one;
        if several wrote the same step, the sample of the later file name is returned.

        Returns:
            `.steps` int64[n] ascending, `.wall_times` float64[n] in unix seconds, `.values` float64[n] (NaN and
            infinities as written); `.to_pandas()`, `.to_polars()`, `.to_arrow()`. `.replaced_count`: the number of
            samples left out for those of other devices. `.thinned_count`: the number of samples that the store no
            longer has, because old scalars are thinned; v_scalar_bucket summarizes them.
        """
        from lineage_store.query import samples

        return self._ask(lambda session, ref: samples.scalars(session, ref.job_id, tag, **chosen))

    def recorded(self, tag: str) -> list[samples.Recorded[samples.Scalars]]:
        """Return the samples of a scalar in each log file, oldest first, including superseded samples."""
        from lineage_store.query import samples

        return self._ask(lambda session, ref: samples.recorded_scalars(session, ref.job_id, tag))

    def recorded_payloads(
        self, plugin: str, tag: str, choose: samples.Choose, *, most_long: int | None = None
    ) -> list[samples.PayloadSample]:
        """Return those of the recorded histograms, images and the like that `choose` names, superseded ones too.

        `choose` gets the steps of each log file, oldest first, and returns (number of the file, index of the step).
        `most_long`: leave out payloads whose first dimension is greater.
        """
        from lineage_store.query import samples

        def answer(session: Session, ref: JobRef) -> list[samples.PayloadSample]:
            place, wanted = self.name.place, (plugin, tag)
            return samples.recorded_payloads(session, place, ref.job_id, wanted, choose, most_long)

        return self._ask(answer)

    # Payloads: these methods return metadata; `.read()` of each item reads the log file, and raises
    # PayloadUnavailableError if the file is missing or has changed, PayloadTooCostlyError if it takes too much memory.
    # `start`, `stop` and `device` as for scalars; `limit`: the first so many.

    def histograms(self, tag: str, **chosen: Unpack[ChosenPayloads]) -> list[samples.PayloadSample]:
        """Return the histograms of a tag; `.read()` returns buckets as arrays."""
        return self.payloads(HISTOGRAM, tag, **chosen)

    def images(self, tag: str, **chosen: Unpack[ChosenPayloads]) -> list[samples.PayloadSample]:
        """Return the images of a tag; `.read()` returns the PNG bytes with height and width."""
        return self.payloads(IMAGE, tag, **chosen)

    def tensors(self, tag: str, **chosen: Unpack[ChosenPayloads]) -> list[samples.PayloadSample]:
        """Return the tensors of a tag; `.read()` returns a numpy array."""
        return self.payloads(TENSOR, tag, **chosen)

    def graphs(self, tag: str | None = None, **chosen: Unpack[ChosenPayloads]) -> list[samples.PayloadSample]:
        """Return the computational graph in each log file, or in the one of which `tag` is the name."""
        named = self.tags().get(GRAPH, []) if tag is None else [tag]
        return [graph for each in named for graph in self.payloads(GRAPH, each, **chosen)]

    def landscapes(self, tag: str, **chosen: Unpack[ChosenPayloads]) -> list[samples.PayloadSample]:
        """Return the loss landscapes of a tag."""
        return self.payloads(LANDSCAPE, tag, **chosen)

    def payloads(
        self, plugin: str, tag: str, **chosen: Unpack[ChosenPayloads]
    ) -> list[samples.PayloadSample]:
        """Return the payloads of a plugin: histogram, image, tensor, graph or landscape."""
        from lineage_store.query import samples

        return self._ask(
            lambda session, ref: samples.payloads(
                session, self.name.place, ref.job_id, (plugin, tag), **chosen
            )
        )

    def count_payloads(self, plugin: str, tag: str, **chosen: Unpack[Chosen]) -> int:
        """Return how many histograms, images and the like a tag has: one for each step."""
        from lineage_store.query import samples

        return self._ask(
            lambda session, ref: samples.count_payloads(session, ref.job_id, plugin, tag, **chosen)
        )

    # --- what is on the disk; also of a job that was removed --------------------------------------------------------

    def why(self) -> Verdict:
        """Say why it is or is not in the store."""
        return self._store.repair.why(self.path)

    def verify(self, *, sample: int | None = None) -> Iterator[FileVerdict]:
        """Read its log files, or `sample` of them chosen at random, and compare them with the store."""
        from lineage_store.operations.verify import verify

        opened, (base_dir, train_id) = self._store.opened, self.name
        yield from verify(
            *(opened.engine, base_dir.path, base_dir.id, opened.settings),
            train_id=to_stored(train_id),
            sample=sample,
        )

    def reingest(self) -> Reread:
        """Read its log files again from the first byte; readers see the old contents until that is done.

        Label and remark stay; a job that was removed comes back. Raises LeaseHeldError while another ingester that is
        no daemon is running.
        """
        from lineage_store.operations import repair

        opened, (base_dir, train_id) = self._store.opened, self.name
        return repair.reingest(
            opened.engine, base_dir.path, base_dir.id, to_stored(train_id), opened.settings
        )


def _annotation(label: int | None, remark: str | None) -> dict[str, Any]:
    from lineage_store.store.database.db import check_count

    if label is None and remark is None:
        raise LineageParamValueError("Neither a label nor a remark is given.")
    if label is not None:
        check_count("label", label, least=0, most=LARGEST_LABEL)
    if remark is not None:
        check_text("remark", remark)
    if remark is not None and len(remark) > LONGEST_REMARK:
        raise LineageParamValueError(
            f"The remark has {len(remark)} characters; {LONGEST_REMARK} are allowed."
        )
    given = {"tag": label, "remark": None if remark is None else to_stored(remark)}
    return {name: value for name, value in given.items() if value is not None}
