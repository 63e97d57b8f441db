"""What one write transaction is made of: frozen rows, still free of ids that only the database knows.

In: nothing. Out: dataclasses that ingest fills and `writes` stores. Text in them is storable already (texts.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union

if TYPE_CHECKING:  # a question needs no arrays
    import numpy as np
    from numpy.typing import NDArray

    from lineage_store.store.statistics import Statistics


def as_row(record: Any) -> dict[str, Any]:
    """A frozen record as a row: its fields by name, as they are (`asdict` would copy them deeply)."""
    of: Any = type(record)
    return dict(zip(of.__slots__, _values_of(of)(record), strict=True))


class Sent:
    """A frozen record that goes through the reading process's pipe, in thousands: as a call of its class.

    The way of frozen dataclasses sets field after field by name and takes several times as long.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        of: Any = type(self)
        return of, _values_of(of)(self)


@cache
def _values_of(of: Any) -> attrgetter[tuple[Any, ...]]:
    """What gets all fields of a record type; there are two at least."""
    return attrgetter(*of.__slots__)


Column: TypeAlias = Union["NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.object_]"]
"""Numbers, or text as objects; NaN stands for NULL."""


@dataclass(frozen=True, slots=True)
class Valued(Sent):
    """A named value of any JSON kind: a metric, or what the user recorded."""

    position: int
    name: str
    kind: str
    value: float | None
    text: str | None


@dataclass(frozen=True, slots=True)
class LineageRow(Sent):
    """A lineage event with its place; `content` is JSON. `metrics` are an evaluation's results."""

    byte_offset: int
    kind: str
    wall_time: float | None
    content: str
    metrics: tuple[Valued, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """A current lineage event of a job; `content` is JSON."""

    log_file_id: int
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class GraphNode(Sent):
    """One parameter of one node of a dataset pipeline."""

    node: int
    parent: int | None
    op_type: str | None
    operation: str | None
    operation_no: int | None
    parameter: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class DatasetGraph(Sent):
    """A dataset pipeline; `digest` is the SHA-256 of its canonical JSON, of which the mark is the beginning."""

    digest: str
    mark: str
    content: str
    nodes: tuple[GraphNode, ...]


@dataclass(frozen=True, slots=True)
class FoldedLineage(Sent):
    """What a job's lineage events come to."""

    listed: bool
    """Whether there is a train, evaluation or dataset event: user-defined values alone make no lineage."""
    columns: dict[str, object]
    dataset_mark: str
    dataset_graph: DatasetGraph | None
    model_lineage: str
    metrics: tuple[Valued, ...]
    user_info: tuple[Valued, ...]


@dataclass(frozen=True, slots=True)
class Problem(Sent):
    """Something that ingest could not do. Without a range it is about the file as a whole."""

    kind: str
    reason: str
    remedy: str
    range_start: int | None = None
    range_end: int | None = None


@dataclass(frozen=True, slots=True)
class FileRows(Sent):
    """What a stretch of one log file holds, beside its samples; `end` is where the next stretch begins."""

    end: int
    event_count: int = 0
    quarantined_bytes: int = 0
    last_wall_time: float | None = None
    sample_count: int = 0
    lineage_events: tuple[LineageRow, ...] = ()
    folded: FoldedLineage | None = None
    """What these lineage events come to, where the stretch is the beginning of its file."""
    problems: tuple[Problem, ...] = ()
    suspect: Problem | None = None
    """Set when the bytes at `end` make no frame, and it is too early to give them up."""


@dataclass(frozen=True, slots=True)
class FileSight(Sent):
    """What a look at an open log file showed."""

    size_bytes: int
    modified_s: int
    closed: bool
    stat_stamp: str


class KnownFile(NamedTuple):
    """A row of `log_file` as ingest needs it: the newest generation of one path.

    A tuple, for it is made anew five times each time a file is looked at: a frozen dataclass takes ten times as long.
    """

    id: int
    job_id: int
    train_id: str
    name: str
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
    strikes: int
    """How many times in a row reading it failed the reader."""


@dataclass(frozen=True, slots=True)
class SeriesName(Sent):
    """One tag in one log file; the plugin is that of the columns which it is part of."""

    file: KnownFile
    tag: str


@dataclass(frozen=True, slots=True)
class SampleColumns(Sent):
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


@dataclass(frozen=True, slots=True)
class NewFile:
    """A log file that the store does not know yet, or a new generation of one that it does."""

    train_id: str
    name: str
    kind: str
    file_time: int
    device: int | None
    host: str | None
    generation: int = 1


@dataclass(frozen=True, slots=True)
class Advance(Sent):
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
