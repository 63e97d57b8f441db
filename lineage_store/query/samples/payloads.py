"""Histograms, images, tensors, graphs and landscapes: described by the database, read from the log files.

In: a job, a plugin, a tag, a range of steps. Out: one `PayloadSample` per step, made of what the database has; its
`read` opens the log file. Promises: `read` returns a payload only if its checksum is that of the frame that was
ingested; otherwise PayloadUnavailableError names the file, the bytes and the reason.
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
    place: FramePlace
    value_index: int

    def read(self) -> Any:
        """Read the payload from its log file.

        Returns:
            histogram: `Histogram` (left, width, count); image: `Image` (png bytes, height, width); tensor: numpy array;
            graph: dict of nodes, parameters, outputs and constants; landscape: `Landscape`.

        Raises:
            PayloadUnavailableError: the log file is missing, unreadable or no longer has the payload.
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
    """Return the payloads of a tag from step `start` up to but not including `stop`, ascending, one for each step.

    Args:
        base_dir_path, train_id: the place of the job's directory.
        plugin: histogram, image, tensor, graph or landscape.
        tag: with or without MindInsight's suffix; for a graph, the name of its log file.
        device: read only the files of this device; None reads all, and the later file name wins a step.

    Raises:
        SampleNotFoundError: there is no such tag; the error names close ones.
        LineageParamTypeError: a step is no integer, or the tag is no text.
        LineageParamValueError: there is no such plugin.
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
    """Return the effective payloads of one series, ascending by step.

    `job` is (base dir, train id), `wanted` is (plugin, tag).
    """
    statement = select(payload_sample).where(series.effective(payload_sample, start, stop))
    rows = connection.execute(statement.order_by(payload_sample.c.step)).mappings()
    return [_sample(row, series, job, wanted) for row in rows]


def _sample(row: RowMapping, series: Series, job: tuple[str, str], wanted: tuple[str, str]) -> PayloadSample:
    plugin, tag = wanted
    frame = row["frame_offset"], row["frame_length"], row["checksum"]
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
        place=FramePlace(*job, series.log_file, series.format, *frame),
        value_index=row["value_index"],
    )


def _summary(row: RowMapping) -> HistogramSummary:
    return HistogramSummary(**{field.name: row[field.name] for field in fields(HistogramSummary)})
