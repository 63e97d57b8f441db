"""What a log file holds, whichever format wrote it: what its name says, and the values of its events.

In: nothing. Out: plain, frozen values that every log format decodes to, and all that ingest, questions and verification
know of a format's content. Text that will be a key of the store (tags) comes in its stored form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from lineage_store.errors import LineageStoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FileKind = Literal["summary", "lineage"]
"""Whether a file holds samples or lineage events."""
LineageKind = Literal["train", "eval", "dataset_graph", "user_info"]


class EventDecodeError(LineageStoreError):
    """The payload of a frame is no event of this kind of log file."""


class ParsedName(Protocol):
    """What the name of a log file says."""

    @property
    def kind(self) -> FileKind:
        """What the file holds."""

    @property
    def timestamp(self) -> int:
        """When the writer was opened, unix s. It orders a job's files, and names order those of one second."""

    @property
    def device(self) -> int | None:
        """Device or rank."""

    @property
    def host(self) -> str:
        """Where it was written; empty when the name does not say."""


@dataclass(frozen=True, slots=True)
class Version:
    """What opens a summary file, such as "MindSpore.Event:1": its time counts, the text does not."""

    wall_time: float
    text: str


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """One scalar of one step; the value may be NaN or infinite."""

    wall_time: float
    """Seconds since the epoch, as the file says: not monotonic, and not necessarily a time at all (NaN)."""
    step: int
    tag: str
    value: float


@dataclass(frozen=True, slots=True)
class HistogramStatistics:
    """What a histogram says about all its values. `min`, `max` and `sum` are of the finite ones only."""

    count: int
    """All values, NaN and infinities included."""
    nan_count: int
    pos_inf_count: int
    neg_inf_count: int
    min: float
    max: float
    sum: float


@dataclass(frozen=True, slots=True)
class PayloadValue:
    """One value that stays in the log file, described."""

    wall_time: float
    step: int
    """0 where the event has none, as with graphs."""
    plugin: str
    tag: str | None
    """None where the format gives it none, as MindSpore a graph."""
    value_index: int
    """Place of the value in its event; with the frame's position it finds the payload again."""
    dtype: str | None
    """"png" of an image; the declared type of a tensor or landscape, e.g. "float32"; else None."""
    shape: tuple[int, ...]
    """Image (height, width, channels) · tensor its dims · landscape those of z · histogram (buckets,) ·
    graph (nodes,)."""
    size_bytes: int
    """Bytes of the encoded value in the file."""
    statistics: HistogramStatistics | None = None

    def series_tag(self, file_name: str) -> str:
        """The tag of its series: its own, "" included; the name of its file stands in for one that it has not."""
        return file_name if self.tag is None else self.tag


@dataclass(frozen=True, slots=True)
class LineageEvent:
    """One lineage event, in MindInsight's words, which the fold reads whatever the format."""

    wall_time: float
    kind: LineageKind
    content: dict[str, Any]
    """Plain and JSON-able. train: `{group: {key: value}}` with the groups and keys of `fields` · eval: `{"metric": JSON
    text or None}`, and `epoch` and `step` of the training where the file tells them · dataset_graph: the last
    operation, nested by `children` · user_info: `{key: value}`."""


SummaryValue: TypeAlias = Version | ScalarValue | PayloadValue
Value: TypeAlias = SummaryValue | LineageEvent


@dataclass(frozen=True, slots=True)
class Histogram:
    """Buckets [left, left + width), the last one closed, and how many values are in each; equal lengths."""

    left: NDArray[np.float64]
    width: NDArray[np.float64]
    count: NDArray[np.int64]
    statistics: HistogramStatistics


@dataclass(frozen=True, slots=True)
class Image:
    """One encoded image; sizes in pixels."""

    png: bytes
    height: int
    width: int
    channels: int


@dataclass(frozen=True, slots=True)
class Points:
    """Coordinates of a loss landscape: x and y in the plane, z the loss."""

    x: NDArray[Any]
    y: NDArray[Any]
    z: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Landscape:
    """A loss landscape, with the training's path over it where the writer had one."""

    surface: Points
    path: Points | None
    intervals: tuple[int, ...]
    """The steps or epochs of the path's points."""
    convergence: Points | None
    decomposition: str
    unit: str
    """"step" or "epoch"."""
    step_per_epoch: int
