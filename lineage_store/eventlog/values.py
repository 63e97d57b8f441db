"""The contents of a log file in any format: the parts of its name, and the values of its events.

In: nothing. Out: plain, frozen values that every log format decodes to. Ingest, queries and verification know nothing
else about a format's contents. Text that becomes a key of the store (tags) is in its stored form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from lineage_store.errors import LineageStoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


FileKind = Literal["summary", "lineage"]
"""What a file's name says that it holds: "lineage" nothing but lineage events, "summary" samples, and perhaps lineage
events among them."""
LineageKind = Literal["train", "eval", "dataset_graph", "user_info"]


class EventDecodeError(LineageStoreError):
    """The payload of a frame is no event of this kind of log file."""


class ParsedName(NamedTuple):
    """The parts of a log file's name."""

    kind: FileKind
    timestamp: int
    """When the writer was opened, unix time in seconds. It orders a job's files; the names break ties."""
    device: int | None
    """Device or rank; None if the name does not say."""
    host: str = ""
    """Host that wrote the file; empty if the name does not say."""


@dataclass(frozen=True, slots=True)
class Version:
    """The first event of a summary file, such as "MindSpore.Event:1". Only its time is used, not its text."""

    wall_time: float
    text: str


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """One scalar of one step; the value may be NaN or infinite."""

    wall_time: float
    """Unix time in seconds as the file has it: not necessarily monotonic, and possibly NaN."""
    step: int
    tag: str
    value: float


@dataclass(frozen=True, slots=True)
class HistogramStatistics:
    """Statistics of a histogram's values. `min`, `max` and `sum` cover the finite values only."""

    count: int
    """Number of all values, NaN and infinities included."""
    nan_count: int
    pos_inf_count: int
    neg_inf_count: int
    min: float
    max: float
    sum: float


@dataclass(frozen=True, slots=True)
class PayloadValue:
    """The description of one value that stays in the log file."""

    wall_time: float
    step: int
    """0 if the event has none, as with graphs."""
    plugin: str
    tag: str | None
    """None if the format gives the value no tag, as MindSpore does for graphs."""
    value_index: int
    """Index of the value in its event; with the frame's position it locates the payload."""
    dtype: str | None
    """"png" for an image; the declared type of a tensor or landscape, e.g. "float32"; else None."""
    shape: tuple[int, ...]
    """Image: (height, width, channels). Tensor: its dims. Landscape: the dims of z. Histogram: (buckets,).
    Graph: (nodes,)."""
    size_bytes: int
    """Bytes of the encoded value in the file."""
    statistics: HistogramStatistics | None = None

    def series_tag(self, file_name: str) -> str:
        """Return the tag of its series: its own tag, even if empty; the name of its file if the tag is None."""
        return file_name if self.tag is None else self.tag


@dataclass(frozen=True, slots=True)
class LineageEvent:
    """One lineage event. Every format uses MindInsight's keys for its content, which the fold reads."""

    wall_time: float
    kind: LineageKind
    content: dict[str, Any]
    """JSON-able. train: `{group: {key: value}}` with the groups and keys of `fields`. eval: `{"metric": JSON text or
    None}`, and `epoch` and `step` of the training if the file has them. dataset_graph: the last operation, nested by
    `children`. user_info: `{key: value}`."""


SummaryValue: TypeAlias = Version | ScalarValue | PayloadValue
Value: TypeAlias = SummaryValue | LineageEvent


@dataclass(frozen=True, slots=True)
class Histogram:
    """Buckets [left, left + width), the last one closed, and the number of values in each; arrays of equal length."""

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
    """A loss landscape, with the training's path over it if the file has one."""

    surface: Points
    path: Points | None
    intervals: tuple[int, ...]
    """The steps or epochs of the path's points."""
    convergence: Points | None
    decomposition: str
    unit: str
    """"step" or "epoch"."""
    step_per_epoch: int
