"""What one write transaction is made of: frozen rows, still free of ids that only the database knows.

In: nothing. Out: dataclasses that ingest fills and `writes` stores. Text in them is storable already (texts.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LATEST = 253_402_300_799
"""The last second of the year 9999, the end of Python's and SQL's calendars."""


def as_row(record: Any) -> dict[str, Any]:
    """A frozen record as a row: its fields by name, as they are (`asdict` would copy them deeply)."""
    return {name: getattr(record, name) for name in record.__slots__}


Column = NDArray[np.int64] | NDArray[np.float64] | NDArray[np.object_]
"""Numbers, or text as objects; NaN stands for NULL."""


@dataclass(frozen=True, slots=True)
class Valued:
    """A named value of any JSON kind: a metric, or what the user recorded."""

    position: int
    name: str
    kind: str
    value: float | None
    text: str | None


@dataclass(frozen=True, slots=True)
class LineageRow:
    """A lineage event with its place; `content` is JSON. `metrics` are an evaluation's results."""

    byte_offset: int
    kind: str
    wall_time: float | None
    content: str
    metrics: tuple[Valued, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One parameter of one node of a dataset pipeline."""

    node: int
    parent: int | None
    op_type: str | None
    operation: str | None
    operation_no: int | None
    parameter: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class DatasetGraph:
    """A dataset pipeline; `digest` is the SHA-256 of its canonical JSON, of which the mark is the beginning."""

    digest: str
    mark: str
    content: str
    nodes: tuple[GraphNode, ...]


@dataclass(frozen=True, slots=True)
class FoldedLineage:
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
class Problem:
    """Something that ingest could not do. Without a range it is about the file as a whole."""

    kind: str
    reason: str
    remedy: str
    range_start: int | None = None
    range_end: int | None = None


@dataclass(frozen=True, slots=True)
class FileRows:
    """What a stretch of one log file holds, beside its samples; `end` is where the next stretch begins."""

    end: int
    event_count: int = 0
    quarantined_bytes: int = 0
    last_wall_time: float | None = None
    sample_count: int = 0
    lineage_events: tuple[LineageRow, ...] = ()
    problems: tuple[Problem, ...] = ()
    suspect: Problem | None = None
    """Set when the bytes at `end` make no frame, and it is too early to give them up."""


@dataclass(frozen=True, slots=True)
class FileSight:
    """What a look at an open log file showed."""

    size_bytes: int
    modified_s: int
    closed: bool
    stat_stamp: str


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A row of `log_file` as ingest needs it: the newest generation of one path."""

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

    def as_current(self) -> KnownFile:
        """The same file, once readers see this generation."""
        return replace(self, current=True)


@dataclass(frozen=True, slots=True)
class SeriesName:
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
    """Which of the series each sample belongs to, ascending; within a series they stand in the order in which they were
    written, and the last write of a step wins."""
    steps: NDArray[np.int64]
    columns: Mapping[str, Column]
    """The other columns of `scalar_sample` or `payload_sample`, as far as the plugin has them."""


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
class Advance:
    """One file's part of a write transaction: the bookmark's move and the rows that go with it."""

    file: KnownFile
    sight: FileSight
    rows: FileRows
    fingerprint: str | None
    fingerprint_bytes: int
    anchor: str | None
    anchor_bytes: int
    state: str
    caught_up: bool
    """Nothing more can be read now: what is left, if anything, is no complete frame yet."""

    def known_after(self, now: datetime) -> KnownFile:
        """The file as the store knows it once this has been committed at `now`."""
        grew = self.sight.size_bytes > self.file.size_bytes
        first_sight = self.file.grown_at is None
        grown_at = (
            min(now, _from_unix(self.sight.modified_s))
            if first_sight
            else now
            if grew
            else self.file.grown_at
        )
        suspected = self.rows.suspect is not None
        since, size = self.file.suspect_since, self.file.suspect_size
        same_place = suspected and self.rows.end == self.file.byte_offset
        # A damage longer than a chunk is given up in parts; the parts do not wait for a grace time each.
        in_the_midst = not self.caught_up and self.rows.quarantined_bytes > 0 and self.rows.end < (size or 0)
        goes_on = since is not None and (same_place or in_the_midst)
        return replace(
            self.file,
            state=self.state,
            size_bytes=self.sight.size_bytes,
            byte_offset=self.rows.end,
            quarantined_bytes=self.file.quarantined_bytes + self.rows.quarantined_bytes,
            closed=self.sight.closed,
            stat_stamp=self.sight.stat_stamp if self.caught_up else None,
            fingerprint=self.fingerprint,
            fingerprint_bytes=self.fingerprint_bytes,
            anchor=self.anchor,
            anchor_bytes=self.anchor_bytes,
            suspect_since=since if goes_on else now if suspected else None,
            suspect_size=size if goes_on else self.sight.size_bytes if suspected else None,
            grown_at=grown_at,
            last_wall_time=max(
                (time for time in (self.file.last_wall_time, self.rows.last_wall_time) if time is not None),
                default=None,
            ),
        )


def _from_unix(seconds: int) -> datetime:
    return datetime.fromtimestamp(min(max(seconds, 0), _LATEST), UTC)
