"""Histograms, images, tensors, graphs and landscapes: described by the database, read from the log files.

In: a job, a plugin, a tag, a range of steps. Out: one `PayloadSample` per step, with what the database knows of it; its
`read` opens the log file. Promises: a payload comes back only when it is, by its checksum, the one that was ingested;
otherwise PayloadUnavailableError says which file, where and why.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from lineage_store.errors import LineageParamValueError, LineageStoreError
from lineage_store.eventlog.formats import format_of
from lineage_store.plugins import BY_NAME, PLUGINS
from lineage_store.query.samples.log_bytes import FramePlace, read_frame
from lineage_store.query.samples.series import Series, find_series, step_bounds
from lineage_store.store.schema.tables import payload_sample

READ_FROM_FILES = tuple(plugin.name for plugin in PLUGINS if not plugin.has_value)


@dataclass(frozen=True, slots=True)
class HistogramSummary:
    """What the database knows of a histogram: `count` covers NaN and infinities, the rest finite values only."""

    count: int
    nan_count: int
    pos_inf_count: int
    neg_inf_count: int
    min: float | None
    max: float | None
    sum: float | None


@dataclass(frozen=True, slots=True)
class PayloadSample:
    """A payload at a step."""

    plugin: str
    tag: str
    step: int
    wall_time: float | None
    """When it was written, unix s."""
    device: int | None
    dtype: str | None
    """Element type that the training declared, or png."""
    shape: tuple[int, ...] | None
    size_bytes: int
    """Of the encoded value."""
    statistics: HistogramSummary | None
    """Of a histogram."""
    place: FramePlace
    value_index: int

    def read(self) -> Any:
        """The payload itself, from its log file.

        Returns:
            histogram: `Histogram` (left, width, count); image: `Image` (png bytes, height, width); tensor: numpy array;
            graph: dict of nodes, parameters, outputs and constants; landscape: `Landscape`.

        Raises:
            PayloadUnavailableError: the log file is gone, unreadable or no longer holds it.
        """
        frame = read_frame(self.place)
        try:
            log_format = format_of(self.place.format)
            payload = log_format.payload_of(frame, self.place.checksum)
            return log_format.decode_payload(self.plugin, payload, self.value_index)
        except LineageStoreError as error:
            raise self.place.unavailable(error.message.rstrip(".")) from error


def payloads(
    connection: Connection,
    base_dir_path: str,
    train_id: str,
    job_id: int,
    plugin: str,
    tag: str,
    *,
    start: int | None = None,
    stop: int | None = None,
    device: int | None = None,
) -> list[PayloadSample]:
    """The payloads of a tag from step `start` up to but not including `stop`, ascending, each step once.

    Args:
        base_dir_path, train_id: where the job's directory is.
        plugin: histogram, image, tensor, graph or landscape.
        tag: with or without MindInsight's suffix; of a graph: the name of its log file.

    Raises:
        SampleNotFoundError: no such tag; the message names close ones.
        LineageParamTypeError, LineageParamValueError: a step is no whole number; no such plugin.
    """
    if plugin not in READ_FROM_FILES:
        raise LineageParamValueError(f"plugin = {plugin!r} must be one of {', '.join(READ_FROM_FILES)}.")
    first, end = step_bounds(start, stop)
    job, wanted = (base_dir_path, train_id), (plugin, tag)
    found: dict[int, PayloadSample] = {}
    for series in find_series(connection, job_id, plugin, tag, device):
        found |= {each.step: each for each in payloads_of(connection, job, series, wanted, first, end)}
    return [found[step] for step in sorted(found)]


def payloads_of(
    connection: Connection,
    job: tuple[str, str],
    series: Series,
    wanted: tuple[str, str],
    start: int | None = None,
    stop: int | None = None,
) -> list[PayloadSample]:
    """The effective payloads of one series, ascending; `job` is (base dir, train id), `wanted` (plugin, tag)."""
    statement = select(payload_sample).where(series.effective(payload_sample, start, stop))
    found = []
    for row in connection.execute(statement.order_by(payload_sample.c.step)).mappings():
        frame = row["frame_offset"], row["frame_length"], row["checksum"]
        place = FramePlace(*job, series.log_file, series.format, *frame)
        found.append(_sample(row, series, *wanted, place))
    return found


def _sample(row: RowMapping, series: Series, plugin: str, tag: str, place: FramePlace) -> PayloadSample:
    return PayloadSample(
        plugin=plugin,
        tag=tag,
        step=row["step"],
        wall_time=row["wall_time"],
        device=series.device,
        dtype=row["dtype"],
        shape=None if row["shape"] is None else tuple(json.loads(row["shape"])),
        size_bytes=row["size_bytes"],
        statistics=_summary(row) if BY_NAME[plugin].has_statistics else None,
        place=place,
        value_index=row["value_index"],
    )


def _summary(row: RowMapping) -> HistogramSummary:
    return HistogramSummary(**{field.name: row[field.name] for field in fields(HistogramSummary)})
