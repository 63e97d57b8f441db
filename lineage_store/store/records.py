"""What one write transaction is made of: frozen rows, still free of ids that only the database knows.

In: nothing. Out: records that ingest fills and `writes` stores. Text in them is storable already (texts.py).
Most are tuples, for they come in thousands and go through the reading process's pipe: making, sending and receiving a
frozen dataclass takes almost three times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, chain, compress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Union

from lineage_store.findings import Finding

if TYPE_CHECKING:  # a question needs no arrays
    import numpy as np
    from numpy.typing import NDArray

    from lineage_store.store.statistics import Statistics


Column: TypeAlias = Union["NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.object_]"]
"""Numbers, or text as objects; NaN stands for NULL."""


FileKey: TypeAlias = tuple[int, int]
"""(job id, number of the file within the job): what names a log file."""


def relative_path(train_id: str, name: str = "") -> str:
    """The path of a job or of an entry in it, relative to the base dir: `run_1/name`; `.` is the base dir itself."""
    return f"{train_id.rstrip('/')}/{name}".removeprefix("./").rstrip("/") or "."


class Valued(NamedTuple):
    """A named value of any JSON kind: a metric, or what the user recorded."""

    position: int
    name: str
    kind: str
    value: float | None
    text: str | None


class LineageRow(NamedTuple):
    """A lineage event with its place; `content` is JSON. `metrics` are an evaluation's results."""

    byte_offset: int
    kind: str
    wall_time: float | None
    content: str
    metrics: tuple[Valued, ...] = ()
    user_values: int = 0
    """How many user-defined values it sets."""
    evaluation_no: int | None = None
    """Of an evaluation that is taken in: its number within the file."""
    epoch: int | None = None
    step: int | None = None
    """Of an evaluation whose log file tells it: how far the training was."""


class FileLineage(NamedTuple):
    """What the lineage events of a log file have come to so far: counts, where the last of a kind begins, and the
    user-defined values, merged, as JSON. In sums it stands for several files."""

    events: int = 0
    evaluations: int = 0
    user_values: int = 0
    """As often as they were written."""
    content_bytes: int = 0
    train_at: int | None = None
    eval_at: int | None = None
    dataset_graph_at: int | None = None
    user_info: str = "{}"


class StoredEvent(NamedTuple):
    """A current lineage event of a job; `content` is JSON."""

    file_no: int
    kind: str
    content: str


class GraphNode(NamedTuple):
    """One parameter of one node of a dataset pipeline."""

    node: int
    parent: int | None
    op_type: str | None
    operation: str | None
    operation_no: int | None
    parameter: str | None
    value: str | None


class DatasetGraph(NamedTuple):
    """A dataset pipeline; `digest` is the SHA-256 of its canonical JSON, of which the mark is the beginning."""

    digest: str
    mark: str
    content: str
    nodes: tuple[GraphNode, ...]


class FoldedLineage(NamedTuple):
    """What a job's lineage events come to."""

    listed: bool
    """Whether there is a train, evaluation or dataset event: user-defined values alone make no lineage."""
    columns: dict[str, object]
    dataset_mark: str
    dataset_graph: DatasetGraph | None
    model_lineage: str
    metrics: tuple[Valued, ...]
    user_info: tuple[Valued, ...]


class FileRows(NamedTuple):
    """What a chunk of one log file holds, beside its samples; `end` is where the next chunk begins."""

    end: int
    event_count: int = 0
    quarantined_bytes: int = 0
    last_wall_time: float | None = None
    sample_count: int = 0
    lineage_events: tuple[LineageRow, ...] = ()
    folded: FoldedLineage | None = None
    """What these lineage events come to, where the chunk is the beginning of its file."""
    problems: tuple[Finding, ...] = ()
    suspect: Finding | None = None
    """Set when the bytes at `end` make no frame, and it is too early to give them up."""


class FileSight(NamedTuple):
    """What a look at an open log file showed."""

    size_bytes: int
    modified_s: int
    closed: bool
    stat_stamp: str


class KnownFile(NamedTuple):
    """A row of `log_file` as ingest needs it: the newest generation of one path."""

    job_id: int
    file_no: int
    train_id: str
    name: str
    format: str
    kind: str
    file_time: int
    device: int | None
    generation: int
    current: bool
    state: str
    size_bytes: int
    byte_offset: int
    quarantined_bytes: int
    closed: bool
    stat_stamp: str | None
    fingerprint: str | None
    fingerprint_bytes: int
    anchor: str | None
    anchor_bytes: int
    suspect_since: datetime | None
    suspect_size: int | None
    grown_at: datetime | None
    last_wall_time: float | None
    failed_reads: int
    """How many times in a row reading it failed the reader."""
    thinned: bool = False
    """Whether samples of it were thinned out, so that what it gains cannot be added to them."""

    @property
    def key(self) -> FileKey:
        """What names it in the store."""
        return self.job_id, self.file_no


class SeriesName(NamedTuple):
    """One tag in one log file; the plugin is that of the columns which it is part of."""

    file: KnownFile
    tag: str


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Samples of one plugin, of any number of series; a row is a sample."""

    plugin: str
    series: tuple[SeriesName, ...]
    """Distinct, each with one sample at least."""
    number: NDArray[np.int64]
    """Which of the series each sample belongs to, ascending."""
    steps: NDArray[np.int64]
    """Ascending and distinct within a series."""
    columns: Mapping[str, Column]
    """The other columns of `scalar_sample` or `payload_sample`, as far as the plugin has them."""
    statistics: tuple[Statistics, ...]
    """Of each series."""

    @staticmethod
    def joined(parts: Sequence[SampleColumns]) -> SampleColumns:
        """The samples of several parts of one plugin, no series of which is in two parts."""
        import numpy as np

        if len(parts) == 1:
            return parts[0]
        before = accumulate((len(part.series) for part in parts[:-1]), initial=0)
        return SampleColumns(
            parts[0].plugin,
            tuple(chain.from_iterable(part.series for part in parts)),
            np.concatenate([part.number + first for part, first in zip(parts, before, strict=True)]),
            np.concatenate([part.steps for part in parts]),
            {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
            tuple(chain.from_iterable(part.statistics for part in parts)),
        )

    def only(self, kept: Sequence[bool]) -> SampleColumns:
        """The samples of some of the series."""
        import numpy as np

        of_kept = np.asarray(kept)[self.number]
        return SampleColumns(
            self.plugin,
            tuple(compress(self.series, kept)),
            (np.cumsum(kept) - 1)[self.number[of_kept]],
            self.steps[of_kept],
            {name: column[of_kept] for name, column in self.columns.items()},
            tuple(compress(self.statistics, kept)),
        )


class NewFile(NamedTuple):
    """A log file that the store does not know yet, or a new generation of one that it does."""

    train_id: str
    name: str
    format: str
    """Which log format it is of, by its name."""
    kind: str
    file_time: int
    device: int | None
    host: str | None
    generation: int = 1


class Advance(NamedTuple):
    """One file's part of a write transaction: the bookmark's move and the rows that go with it."""

    file: KnownFile
    sight: FileSight
    rows: FileRows
    after: KnownFile
    """The file as the store knows it once this has been committed."""
    caught_up: bool
    """Nothing more can be read now: what is left, if anything, is no complete frame yet."""

    @property
    def completes_generation(self) -> bool:
        """Whether readers see this generation of a rewritten file from now on, and not before."""
        return self.after.current and not self.file.current

    @property
    def has_more(self) -> bool:
        """Whether to look again at once: for more to read, or at a closed file's suspect bytes."""
        return not self.caught_up or (self.rows.suspect is not None and self.sight.closed)
