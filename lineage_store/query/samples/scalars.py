"""The scalars of a tag as columns.

In: a job, a tag, a range of steps. Out: numpy arrays, ascending by step, one sample for each step.
Promises: every effective step is there, except steps that were thinned out, which are counted; NaN and infinities stay
as they were written; memory is bounded by the columns and one part of the rows. When several devices wrote the same
step, the sample of the later file name wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, bindparam, select

from lineage_store.plugins import SCALAR
from lineage_store.query.samples.series import Series, find_series, step_bounds
from lineage_store.query.table import Column, Table, imported
from lineage_store.store.database.statements import run
from lineage_store.store.schema.tables import scalar_sample

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes

ROWS_AT_A_TIME = 20_000
Columns = tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False)
class Scalars:
    """Samples of one tag: three columns of equal length n, ascending by step."""

    steps: NDArray[np.int64]
    wall_times: NDArray[np.float64]
    """The time of writing of each sample, unix s; NaN when the file does not have it."""
    values: NDArray[np.float64]
    """As written, including NaN and infinities."""
    thinned_count: int = 0
    """The number of samples of the whole series that were thinned out (setting `keep_every_step_days`)."""
    replaced_count: int = 0
    """The number of samples left out because another device wrote the same step into a later file name."""

    def __len__(self) -> int:
        return len(self.steps)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a DataFrame with the columns step, wall_time and value."""
        return self._table().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return a polars DataFrame with the same columns; NaN stays NaN."""
        return self._table().to_polars()

    def to_arrow(self) -> pyarrow.Table:
        """Return an Arrow table with the same columns; NaN stays NaN."""
        return self._table().to_arrow()

    def plot(self, axes: Axes | None = None, **options: Any) -> Axes:
        """Draw the values over the steps with matplotlib and return the axes; `options` are those of its lines."""
        pyplot: Any = imported("matplotlib.pyplot", "matplotlib")
        drawn: Axes = pyplot.subplots()[1] if axes is None else axes
        drawn.plot(self.steps, self.values, **options)
        drawn.set_xlabel("step")
        return drawn

    def _table(self) -> Table:
        return Table(
            {
                "step": Column("integer", self.steps),
                "wall_time": Column("float", self.wall_times),
                "value": Column("float", self.values),
            }
        )


def scalars(
    connection: Connection,
    job_id: int,
    tag: str,
    *,
    start: int | None = None,
    stop: int | None = None,
    device: int | None = None,
) -> Scalars:
    """Return the samples of a tag from step `start` up to but not including `stop`.

    Args:
        tag: with or without MindInsight's suffix `/scalar`.
        device: read only the files of this device; None interleaves all devices.

    Raises:
        SampleNotFoundError: there is no such tag; the error names close ones.
        LineageParamTypeError: a step is no integer, or the tag is no text.
    """
    first, end = step_bounds(start, stop)
    found = find_series(connection, job_id, SCALAR, tag, device)
    parts = [read_columns(connection, series.effective(scalar_sample, first, end)) for series in found]
    steps, wall_times, values = _interleaved(parts)
    replaced = sum(len(part[0]) for part in parts) - len(steps)
    return Scalars(steps, wall_times, values, sum(series.thinned_count for series in found), replaced)


def read_columns(connection: Connection, wanted: ColumnElement[bool]) -> Columns:
    """Return steps, wall times and values of the samples of one series that meet a condition, ascending by step."""
    statement = _SAMPLES.where(wanted)
    with connection.execute(statement, execution_options={"yield_per": ROWS_AT_A_TIME}) as rows:
        return joined(map(_columns, rows.partitions()))


def read_series(connection: Connection, series: Series) -> Columns:
    """Return steps, wall times and values of all samples of a series of which none is superseded."""
    if series.rows > ROWS_AT_A_TIME:
        return read_columns(connection, series.effective(scalar_sample, None, None))
    return _columns(run(connection, _OF_SERIES, of_job=series.job_id, of_series=series.number))


_SAMPLES = select(scalar_sample.c.step, scalar_sample.c.wall_time, scalar_sample.c.value).order_by(
    scalar_sample.c.step
)
_OF_SERIES = _SAMPLES.where(
    scalar_sample.c.job_id == bindparam("of_job"), scalar_sample.c.series_no == bindparam("of_series")
)


def _columns(rows: Sequence[Sequence[Any]]) -> Columns:
    return (
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.float64),  # NULL becomes NaN
        np.array([row[2] for row in rows], np.float64),
    )


def joined(parts: Iterable[Columns]) -> Columns:
    """Concatenate the columns of several parts."""
    empty = (np.empty(0, np.int64), np.empty(0), np.empty(0))
    steps, wall_times, values = (np.concatenate(columns) for columns in zip(empty, *parts, strict=True))
    return steps, wall_times, values


def _interleaved(parts: Sequence[Columns]) -> Columns:
    """Merge parts by step; when several parts have a step, the last part wins."""
    steps, wall_times, values = joined(parts)
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    last = order[np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]]
    return steps[last], wall_times[last], values[last]
