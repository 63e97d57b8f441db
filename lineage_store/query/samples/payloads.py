"""Histograms, images, tensors, graphs and landscapes: described by the database, read from the log files.

In: a job, a plugin, a tag, a range of steps. Out: one `PayloadSample` per step, made of what the database has; its
`read` opens the log file. Promises: `read` returns a payload only if its checksum is that of the frame that was
ingested; otherwise PayloadUnavailableError names the file, the bytes and the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import and_, func, or_, select

from lineage_store.errors import LineageParamValueError
from lineage_store.eventlog.payload_files import MOST_BYTES, FramePlace, PayloadSource
from lineage_store.plain_values import LARGEST_INTEGER
from lineage_store.plugins import BY_NAME, PLUGINS, SCALAR
from lineage_store.query.samples.scalars import (
    ROWS_AT_A_TIME,
    Scalars,
    Series,
    find_series,
    read_series,
    step_bounds,
)
from lineage_store.store.database.sql import Session, among
from lineage_store.store.schema.tables import payload_sample, series

READ_FROM_FILES = tuple(plugin.name for plugin in PLUGINS if not plugin.has_value)


@dataclass(frozen=True, slots=True)
class HistogramSummary:
    """What the database has of a histogram: `count` includes NaN and infinities; `min`, `max` and `sum` do not."""

    count: int
    nan_count: int
    pos_inf_count: int
    neg_inf_count: int
    min: float | None
    max: float | None
    sum: float | None


@dataclass(frozen=True, slots=True)
class PayloadSample:
    """A payload at a step, described; `read` returns it."""

    plugin: str
    tag: str
    step: int
    wall_time: float | None
    """The time of writing, unix s."""
    device: int | None
    dtype: str | None
    """The element type that the training declared, or png."""
    shape: tuple[int, ...] | None
    size_bytes: int
    """The size of the encoded value."""
    statistics: HistogramSummary | None
    """None unless this is a histogram."""
    source: PayloadSource
    """Where it is."""

    @property
    def place(self) -> FramePlace:
        """The place of its frame in the log file."""
        return self.source.place

    def read(self, *, most_bytes: int | None = MOST_BYTES) -> Any:
        """Read the payload from its log file.

        Args:
            most_bytes: refuse a payload that takes more memory, by an estimate made before it is decoded; None: never.

        Returns:
            histogram: `Histogram` (left, width, count); image: `Image` (png bytes, height, width); tensor: numpy array;
            graph: dict of nodes, parameters, outputs and constants; landscape: `Landscape`.

        Raises:
            PayloadUnavailableError: the log file is missing, unreadable or no longer has the payload.
            PayloadTooCostlyError: it takes too much memory; a PayloadUnavailableError too.
        """
        try:
            return self.source.read(most_bytes)
        except MemoryError as error:
            raise self.source.too_costly("more memory than this process may have") from error


def payloads(
    session: Session,
    job: tuple[str, str],
    job_id: int,
    wanted: tuple[str, str],
    *,
    start: int | None = None,
    stop: int | None = None,
    device: int | None = None,
    limit: int | None = None,
) -> list[PayloadSample]:
    """Return the payloads of a tag from step `start` up to but not including `stop`, ascending, one for each step.

    Args:
        job: the path of its base dir and its id, as the store has them: where the payloads' `read` finds the files.
        wanted: the plugin (histogram, image, tensor, graph or landscape), and the tag, with or without MindInsight's
            suffix; for a graph, the name of its log file.
        device: read only the files of this device; None reads all, and the later file name wins a step.
        limit: return the first so many; None: all.

    Raises:
        SampleNotFoundError: there is no such tag; the error names close ones.
        LineageParamTypeError: a step is no integer, or the tag is no text.
        LineageParamValueError: there is no such plugin, or the limit is no positive number.
    """
    first, end = step_bounds(start, stop)
    if limit is not None and not (isinstance(limit, int) and limit > 0):
        raise LineageParamValueError(f"limit = {limit!r} must be a whole number from 1 on, or None.")
    found: dict[int, PayloadSample] = {}
    for of_file in _series(session, job_id, *wanted, device):
        some = payloads_of(session, job, of_file, wanted, first, end, limit)
        found |= {each.step: each for each in some}
        if (
            limit is not None and len(found) >= limit
        ):  # later files cannot put a step behind these among the first
            found = {step: found[step] for step in sorted(found)[:limit]}
            end = max(found) + 1 if max(found) < LARGEST_INTEGER else None
    return [found[step] for step in sorted(found)]


def count_payloads(
    session: Session,
    job_id: int,
    plugin: str,
    tag: str,
    *,
    start: int | None = None,
    stop: int | None = None,
    device: int | None = None,
) -> int:
    """Return how many payloads `payloads` returns without a limit. Raises as it does."""
    first, end = step_bounds(start, stop)
    found = _series(session, job_id, plugin, tag, device)
    step, numbers = payload_sample.c.step, [each.number for each in found]
    of_series = and_(
        payload_sample.c.job_id == series.c.job_id, payload_sample.c.series_no == series.c.series_no
    )
    wanted = [
        series.c.job_id == job_id,
        among(session, series.c.series_no, numbers),
        or_(series.c.superseded_from.is_(None), step < series.c.superseded_from),
    ]
    wanted += [] if first is None else [step >= first]
    wanted += [] if end is None else [step < end]
    counted = func.count() if len(found) == 1 else func.count(step.distinct())
    statement = select(counted).select_from(series).join(payload_sample, of_series).where(*wanted)
    return session.value(statement)


def _series(session: Session, job_id: int, plugin: str, tag: str, device: int | None) -> list[Series]:
    if plugin not in READ_FROM_FILES:
        raise LineageParamValueError(f"plugin = {plugin!r} must be one of {', '.join(READ_FROM_FILES)}.")
    return find_series(session, job_id, plugin, tag, device)


def payloads_of(
    session: Session,
    job: tuple[str, str],
    of_file: Series,
    wanted: tuple[str, str],
    start: int | None = None,
    stop: int | None = None,
    limit: int | None = None,
) -> list[PayloadSample]:
    """Return the first `limit` effective payloads of one series, ascending by step.

    `job` is (base dir, train id), `wanted` is (plugin, tag).
    """
    statement = select(payload_sample).where(of_file.effective(payload_sample, start, stop))
    rows = session.mappings(statement.order_by(payload_sample.c.step).limit(limit))
    return [_sample(row, of_file, job, wanted) for row in rows]


def payloads_at(
    session: Session,
    job: tuple[str, str],
    of_file: Series,
    wanted: tuple[str, str],
    steps: Sequence[int],
) -> list[PayloadSample]:
    """Return the payloads of one series at these steps, ascending; superseded ones too."""
    at_steps = and_(of_file.of(payload_sample), among(session, payload_sample.c.step, steps))
    rows = session.mappings(select(payload_sample).where(at_steps).order_by(payload_sample.c.step))
    return [_sample(row, of_file, job, wanted) for row in rows]


def _sample(
    row: Mapping[str, Any], of_file: Series, job: tuple[str, str], wanted: tuple[str, str]
) -> PayloadSample:
    plugin, tag = wanted
    frame = row["frame_offset"], row["frame_length"], row["checksum"]
    return PayloadSample(
        plugin=plugin,
        tag=tag,
        step=row["step"],
        wall_time=row["wall_time"],
        device=of_file.device,
        dtype=row["dtype"],
        shape=None if row["shape"] is None else tuple(json.loads(row["shape"])),
        size_bytes=row["size_bytes"],
        statistics=_summary(row) if BY_NAME[plugin].has_statistics else None,
        source=PayloadSource(
            FramePlace(*job, of_file.log_file, of_file.format, *frame), plugin, row["value_index"]
        ),
    )


def _summary(row: Mapping[str, Any]) -> HistogramSummary:
    return HistogramSummary(**{field.name: row[field.name] for field in fields(HistogramSummary)})


# ---- The samples of a tag in each log file, including samples that a newer file wrote again
# In: a job, a plugin, a tag. Out: one `Recorded` per log file, oldest first; of payloads, those that a caller chooses
# by their steps. MindInsight's sampling needs the samples in the order in which they were recorded. For the curve of
# a tag, use `scalars` or `payloads`.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recorded(Generic[T]):
    """The samples of a tag in one log file, ascending by step."""

    log_file: str
    file_time: int
    """The timestamp in its name, unix s."""
    samples: T


Choose = Callable[[Sequence[Recorded[NDArray[np.int64]]]], Sequence[tuple[int, int]]]
"""Names samples by the number of their part and their index in it; the parts have the steps, oldest file first."""


def recorded_scalars(session: Session, job_id: int, tag: str) -> list[Recorded[Scalars]]:
    """Return the samples of a scalar by log file. Raises SampleNotFoundError."""
    found = find_series(session, job_id, SCALAR, tag, None)
    return [
        Recorded(of.log_file, of.file_time, Scalars(*read_series(session, whole), of.thinned_count))
        for of in found
        for whole in [replace(of, superseded_from=None)]
    ]


def recorded_payloads(
    session: Session,
    job: tuple[str, str],
    job_id: int,
    wanted: tuple[str, str],
    choose: Choose,
    most_long: int | None = None,
) -> list[PayloadSample]:
    """Return those payloads of a tag that `choose` names; `job` is (base dir, train id), `wanted` (plugin, tag).

    Of all others only the step is read. `most_long`: payloads whose first dimension is greater are not among them.

    Raises SampleNotFoundError.
    """
    found = find_series(session, job_id, *wanted, None)
    parts = [Recorded(of.log_file, of.file_time, _steps(session, of, most_long)) for of in found]
    chosen = choose(parts)
    of_part = {number: [index for part, index in chosen if part == number] for number, _ in chosen}
    samples = {
        (number, sample.step): sample
        for number, indices in of_part.items()
        for sample in payloads_at(
            session, job, found[number], wanted, parts[number].samples[indices].tolist()
        )
    }
    return [samples[part, int(parts[part].samples[index])] for part, index in chosen]


def _steps(session: Session, of_file: Series, most_long: int | None) -> NDArray[np.int64]:
    columns = (
        [payload_sample.c.step] if most_long is None else [payload_sample.c.step, payload_sample.c.shape]
    )
    statement = select(*columns).where(of_file.of(payload_sample)).order_by(payload_sample.c.step)
    parts = [
        np.array([step for step, *shape in some if _is_short(shape, most_long)], np.int64)
        for some in session.stream(statement, ROWS_AT_A_TIME)
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _is_short(shape: Sequence[str | None], most: int | None) -> bool:
    if most is None or not shape or shape[0] is None:
        return True
    first = (json.loads(shape[0]) or [0])[0]
    return bool(first <= most)
