"""The records that one write transaction stores: immutable, and without the ids that only the database assigns.

In: nothing. Out: record types; ingest fills them, `writes` stores them. Their texts are in stored form (texts.py).
Most are named tuples: thousands pass through the reading process's pipe, and making, sending and receiving a frozen
dataclass takes almost three times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, chain, compress
from typing import Any, NamedTuple, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from lineage_store.findings import Finding, RangeProblems

Column: TypeAlias = Union["NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.object_]"]
"""Numbers, or texts as objects; NaN stands for NULL."""

Block: TypeAlias = Sequence[Column | None]
"""Columns of equal length; None stands for a column of NULLs."""

FileKey: TypeAlias = tuple[int, int]
"""The key of a log file: (job id, number of the file within the job)."""


def relative_path(train_id: str, name: str = "") -> str:
    """Return the path of a job, or of the entry `name` in it, relative to the base dir: `run_1/name`, or `.`."""
    return f"{train_id.rstrip('/')}/{name}".removeprefix("./").rstrip("/") or "."


class Valued(NamedTuple):
    """A named value of any JSON kind: a metric, or a user-defined value."""

    position: int
    name: str
    kind: str
    value: float | None
    text: str | None


class LineageRow(NamedTuple):
    """A lineage event and its place; `content` is JSON, `metrics` are an evaluation's results."""

    byte_offset: int
    """Where its frame begins."""
    value_index: int
    """Its place among the values of the frame."""
    kind: str
    wall_time: float | None
    content: str
    metrics: tuple[Valued, ...] = ()
    user_values: int = 0
    """How many user-defined values it sets."""
    evaluation_no: int | None = None
    """For an evaluation that is stored: its number within the file, from 1."""
    epoch: int | None = None
    step: int | None = None
    """For an evaluation: how far the training was; None if the log file does not say."""


class FileLineage(NamedTuple):
    """The lineage events of a log file so far, in short: counts, the byte offset of the last event of each kind, and
    the merged user-defined values as JSON. Also used for the sum over several files."""

    events: int = 0
    evaluations: int = 0
    user_values: int = 0
    """Counted each time that a value was written."""
    content_bytes: int = 0
    train_at: int | None = None
    eval_at: int | None = None
    dataset_graph_at: int | None = None
    end_at: int | None = None
    """The last event that ends a training: a train event, or user-defined values with a valid `end/outcome`."""
    ended_at: float | None = None
    """Its wall time."""
    end_read_at: datetime | None = None
    """When it was read, by the database's clock."""
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
    """A dataset pipeline; `digest` is the SHA-256 of its canonical JSON, `mark` the first digits of the digest."""

    digest: str
    mark: str
    content: str
    nodes: tuple[GraphNode, ...]


class FoldedLineage(NamedTuple):
    """A job's lineage, folded from its lineage events."""

    listed: bool
    """Whether there is a train, evaluation or dataset event: user-defined values alone are no lineage."""
    columns: dict[str, object]
    dataset_mark: str
    dataset_graph: DatasetGraph | None
    model_lineage: str
    metrics: tuple[Valued, ...]
    user_info: tuple[Valued, ...]


class FileRows(NamedTuple):
    """The content of one chunk of a log file, except its samples; `end` is where the next chunk begins."""

    end: int
    event_count: int = 0
    quarantined_bytes: int = 0
    first_wall_time: float | None = None
    """The least that is plausible."""
    last_wall_time: float | None = None
    sample_count: int = 0
    lineage_events: tuple[LineageRow, ...] = ()
    folded: FoldedLineage | None = None
    """These lineage events folded, if the chunk is the first of its file."""
    problems: tuple[RangeProblems, ...] = ()
    """One per kind; a commit may add further ones of a kind."""
    heavily_damaged_at: int | None = None
    """Where the first damaged place beyond the setting `most_damages` begins."""
    suspect: Finding | None = None
    """Set if the bytes at `end` are no valid frame, but it is too early to give them up."""


class FileSight(NamedTuple):
    """The state of an open log file on disk."""

    size_bytes: int
    modified_s: int
    closed: bool
    stat_stamp: str


class KnownFile(NamedTuple):
    """The columns of a `log_file` row that ingest needs, for the newest generation of one path."""

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
    """How many times in a row the reader failed to read the file."""
    thinned: bool = False
    """Whether samples of the file were thinned out: new samples cannot be added to those that are left."""
    first_wall_time: float | None = None
    growth_seen_at: datetime | None = None
    """When it was last seen to grow, the first look at it excepted."""
    created_at: datetime | None = None
    """When the store first saw it."""
    owner_uid: int | None = None
    """Who owns the job's directory, as the store knows it."""
    likeness: int | None = None
    """What it has in common with its copies: 64 bits of a digest; None while too little of it was read."""
    copy_of: int | None = None
    """Number of the log file of the job whose bytes it has; None if it has rows of its own."""
    compared_upto: int = 0
    """Greatest number of those log files that begin as it does, and of which it is no copy."""
    unread: bool = True
    """Whether it has not been read to its end yet, not once."""
    original: KnownFile | None = None
    """The log file of which it is a copy, where it is to be compared with that; no column of the table."""

    @property
    def key(self) -> FileKey:
        return self.job_id, self.file_no


class SeriesName(NamedTuple):
    """One tag in one log file; its plugin is that of the `SampleColumns` that it is in."""

    file: KnownFile
    tag: str


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Samples of one plugin, of any number of series, column by column; every array has one item per sample."""

    plugin: str
    series: tuple[SeriesName, ...]
    """Distinct, each with at least one sample."""
    number: NDArray[np.int64]
    """For each sample, the index of its series in `series`; ascending."""
    steps: NDArray[np.int64]
    """Ascending and distinct within a series."""
    columns: Mapping[str, Column]
    """The other columns of `scalar_sample` or `payload_sample` that the plugin has."""
    statistics: tuple[Statistics, ...]
    """One per series."""

    @staticmethod
    def joined(parts: Sequence[SampleColumns]) -> SampleColumns:
        """The samples of several parts of one plugin, no series of which is in two parts."""
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
        """Return the samples of the series for which `kept` (one flag per series) is true."""
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
    """A log file that the store does not know yet, or a new generation of a known one."""

    train_id: str
    name: str
    format: str
    """Name of the log format."""
    kind: str
    file_time: int
    device: int | None
    host: str | None
    generation: int = 1
    owner_uid: int | None = None
    """Who owns the job's directory."""
    first_seen_at: datetime | None = None
    """When the store first saw the file, for a later generation of it."""
    size_bytes: int = 0
    modified_s: int = 0


class Advance(NamedTuple):
    """One file's part of a write transaction: the move of its bookmark, and the rows up to there."""

    file: KnownFile
    sight: FileSight
    rows: FileRows
    after: KnownFile
    """The file's row after the commit."""
    caught_up: bool
    """Whether nothing more can be read now: the rest of the file, if any, is no complete frame yet."""

    @property
    def completes_generation(self) -> bool:
        """Whether this commit makes the generation of a rewritten file the one that readers see."""
        return self.after.current and not self.file.current

    @property
    def has_more(self) -> bool:
        """Whether to read again at once: there is more, or a closed file has suspect bytes."""
        return not self.caught_up or (self.rows.suspect is not None and self.sight.closed)


# ---- The statistics of series, computed for many series at once. Pure
# In: columns of samples. Out: statistics, a row per series.


Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Statistics(NamedTuple):
    """The columns of `series` that are computed from its samples; values are None for payloads and for NaN."""

    sample_count: int
    first_step: int
    first_wall_time: float | None
    first_value: float | None
    last_step: int
    last_wall_time: float | None
    last_value: float | None
    earliest_wall_time: float | None = None
    """May be less than `first_wall_time`: clocks are set back, and a file may go back in its steps."""
    latest_wall_time: float | None = None
    min_value: float | None = None
    min_step: int | None = None
    max_value: float | None = None
    max_step: int | None = None
    nan_count: int = 0
    inf_count: int = 0


def statistics(
    number: Integers, steps: Integers, wall_times: Floats, values: Floats | None
) -> list[Statistics]:
    """Return the statistics of each series.

    Args:
        number: for each sample, the index of its series: 0, 1 … without a gap, ascending.
        steps: ascending and distinct within each series.
        wall_times: unix s; NaN where a sample has none.
        values: None for payloads; may hold NaN and infinities.
    """
    first = np.flatnonzero(np.diff(number, prepend=-1))
    last = np.append(first[1:], len(number)) - 1
    nothing: list[None] = [None] * len(first)
    columns: list[list[Any]] = [
        (last - first + 1).tolist(),
        steps[first].tolist(),
        _nullable(wall_times[first]),
        nothing if values is None else _nullable(values[first]),
        steps[last].tolist(),
        _nullable(wall_times[last]),
        nothing if values is None else _nullable(values[last]),
        _nullable(np.fmin.reduceat(wall_times, first)),
        _nullable(np.fmax.reduceat(wall_times, first)),
    ]
    if values is not None:
        columns += _of_values(number, steps, values, first)
    return [Statistics(*row) for row in zip(*columns, strict=True)]


def _of_values(number: Integers, steps: Integers, values: Floats, first: Integers) -> tuple[list[Any], ...]:
    """Return the lists min_value, min_step, max_value, max_step, nan_count and inf_count."""
    finite = np.isfinite(values)
    least = _extremes(np.minimum, np.where(finite, values, np.inf), number, steps, first)
    greatest = _extremes(np.maximum, np.where(finite, values, -np.inf), number, steps, first)
    counts = (np.add.reduceat(which, first, dtype=np.int64) for which in (np.isnan(values), np.isinf(values)))
    return *least, *greatest, *(count.tolist() for count in counts)


def _extremes(
    extreme: np.ufunc, finite: Floats, number: Integers, steps: Integers, first: Integers
) -> tuple[list[Any], list[Any]]:
    """Return the extreme of each series and the lowest step that has it; None and None if no value is finite."""
    found = extreme.reduceat(finite, first)
    equal = np.flatnonzero(finite == found[number])
    at = equal[np.flatnonzero(np.diff(number[equal], prepend=-1))]
    known = np.isfinite(finite[at]).tolist()
    return tuple(  # type: ignore[return-value]
        [each if is_known else None for each, is_known in zip(column[at].tolist(), known, strict=True)]
        for column in (finite, steps)
    )


def _nullable(numbers: Floats) -> list[float | None]:
    return [nullable(number) for number in numbers.tolist()]


def nullable(number: float) -> float | None:
    """Return None, SQL's NULL, for NaN; else the number."""
    return None if number != number else float(number)
