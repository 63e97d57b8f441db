"""The scalars of a tag as columns.

In: a job, a tag, a range of steps. Out: numpy arrays, ascending by step, one sample for each step.
Promises: every effective step is there, except steps that were thinned out, which are counted; NaN and infinities stay
as they were written; memory is bounded by the columns and one part of the rows. When several devices wrote the same
step, the sample of the later file name wins.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Select, and_, bindparam, literal_column, select
from sqlalchemy import Table as SqlTable

from lineage_store import texts
from lineage_store.errors import LineageParamTypeError, SampleNotFoundError
from lineage_store.plain_values import LARGEST_INTEGER, LEAST_INTEGER
from lineage_store.plugins import BY_NAME, SCALAR
from lineage_store.query.table import Column, Table, imported
from lineage_store.store.database.sql import Query, Session, listed_rows, one_of_rows
from lineage_store.store.schema.tables import (
    CURRENT_FILE,
    log_file,
    of_file,
    scalar_sample,
    series,
    train_job,
)

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
    session: Session,
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
    found = find_series(session, job_id, SCALAR, tag, device)
    parts = [read_columns(session, series.effective(scalar_sample, first, end)) for series in found]
    steps, wall_times, values = _interleaved(parts)
    replaced = sum(len(part[0]) for part in parts) - len(steps)
    return Scalars(steps, wall_times, values, sum(series.thinned_count for series in found), replaced)


def read_columns(session: Session, wanted: ColumnElement[bool]) -> Columns:
    """Return steps, wall times and values of the samples of one series that meet a condition, ascending by step."""
    statement = _SAMPLES.where(wanted)
    return joined(map(_columns, session.stream(statement, ROWS_AT_A_TIME)))


def read_series(session: Session, series: Series) -> Columns:
    """Return steps, wall times and values of all samples of a series of which none is superseded."""
    if series.rows > ROWS_AT_A_TIME:
        return read_columns(session, series.effective(scalar_sample, None, None))
    return _columns(session.rows(_OF_SERIES, of_job=series.job_id, of_series=series.number))


_SAMPLES = select(scalar_sample.c.step, scalar_sample.c.wall_time, scalar_sample.c.value).order_by(
    scalar_sample.c.step
)
_OF_SERIES = Query(
    _SAMPLES.where(
        scalar_sample.c.job_id == bindparam("of_job"), scalar_sample.c.series_no == bindparam("of_series")
    )
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


# ---- Which series have a tag, and which of their samples count
# In: a job, a plugin, a tag as the user spells it. Out: the series of the tag, one per current log file; for the same
# step, a later one wins. Promises: a tag of exactly this name is preferred to one without MindInsight's suffix; the
# error for an unknown tag names close ones.


_SHOWN_NAMES = 10


@dataclass(frozen=True, slots=True)
class Series:
    """One tag of one plugin in one log file."""

    job_id: int
    number: int
    """The number of the series within the job."""
    log_file: str
    """The file's name on disk."""
    format: str
    """The file's log format."""
    device: int | None
    superseded_from: int | None
    """The step from which on a newer file replaces the samples; None: all of them count."""
    sample_count: int
    first_step: int
    last_step: int
    file_time: int
    """The timestamp in the log file's name, unix s."""
    earliest_wall_time: float | None
    """The least wall time of its samples, unix s."""
    thinned_count: int
    """The number of its samples that were thinned out."""

    @property
    def rows(self) -> int:
        """The number of its samples that are in the database."""
        return self.sample_count - self.thinned_count

    def of(self, samples: SqlTable) -> ColumnElement[bool]:
        """Return the condition for all of its samples."""
        return and_(samples.c.job_id == self.job_id, samples.c.series_no == self.number)

    def effective(self, samples: SqlTable, start: int | None, stop: int | None) -> ColumnElement[bool]:
        """Return the condition for samples from `start` up to but not `stop` that no newer file wrote again."""
        step = samples.c.step
        ends = [stop for stop in (stop, self.superseded_from) if stop is not None]
        wanted = [self.of(samples)]
        if start is not None:
            wanted.append(step >= start)
        if ends:
            wanted.append(step < min(ends))
        return and_(*wanted)


def tags(session: Session, job_id: int) -> dict[str, list[str]]:
    """Return the job's tags by plugin, both sorted. The tag of a graph is the name of its log file."""
    rows = session.rows(
        select(series.c.plugin, series.c.tag)
        .join(log_file, of_file(series))
        .where(series.c.job_id == job_id, CURRENT_FILE)
        .distinct()
    )
    found: dict[str, list[str]] = {}
    for plugin, tag in sorted((plugin, texts.from_stored(tag)) for plugin, tag in rows):
        found.setdefault(plugin, []).append(tag)
    return found


def find_series(session: Session, job_id: int, plugin: str, tag: str, device: int | None) -> list[Series]:
    """Return the series of a tag, oldest file first; `device` None: of all devices.

    Raises SampleNotFoundError, LineageParamTypeError.
    """
    spelt = (_of_tag(session, job_id, plugin, spelling) for spelling in _spellings(plugin, tag))
    found = next(filter(None, spelt), [])
    of_device = [each for each in found if device is None or each.device == device]
    if not of_device:
        raise _not_found(session, job_id, plugin, tag, device, found)
    return of_device


def find_scalars(
    session: Session,
    wanted: Sequence[tuple[int, str] | None],
    device: int | None,
    *,
    skip_unknown: bool = False,
) -> list[Sequence[Series]]:
    """Return the series of several scalars, each given by its job and tag, in one statement; None has none.

    `skip_unknown`: an unknown tag has none either. Raises as `find_series`.
    """
    spelt: dict[tuple[int, str] | None, list[tuple[int, str]]] = {
        each: [(each[0], spelling) for spelling in _spellings(SCALAR, each[1])]
        for each in wanted
        if each is not None
    }
    keys = {(job_id, texts.key(tag)) for names in spelt.values() for job_id, tag in names}
    dialect = session.kind
    by_name: dict[tuple[int, str], list[Series]] = {}
    for job_id, tag, number, name, *rest in session.rows(
        Query(_of_tags(dialect)), **listed_rows(dialect, 2, keys)
    ):
        by_name.setdefault((job_id, tag), []).append(Series(job_id, number, texts.from_stored(name), *rest))
    found: list[Sequence[Series]] = []
    for each in wanted:
        of_tag = next((by_name[name] for name in spelt.get(each, ()) if name in by_name), [])
        found.append([series for series in of_tag if device is None or series.device == device])
        if each is not None and not found[-1] and not skip_unknown:
            raise _not_found(session, each[0], SCALAR, each[1], device, of_tag)
    return found


def step_bounds(start: int | None, stop: int | None) -> tuple[int | None, int | None]:
    """Return a range of steps, clipped to 64 bits, with None for no bound. Raises LineageParamTypeError."""
    try:
        first = None if start is None else operator.index(start)
        end = None if stop is None else operator.index(stop)
    except TypeError:
        raise LineageParamTypeError(
            f"start = {start!r} and stop = {stop!r} must be whole numbers or None."
        ) from None
    if first is not None and first > LARGEST_INTEGER:
        return 0, 0
    return (
        None if first is None or first <= LEAST_INTEGER else first,
        None if end is None or end > LARGEST_INTEGER else max(end, LEAST_INTEGER),
    )


def _spellings(plugin: str, tag: str) -> Sequence[str]:
    if not isinstance(tag, str):
        raise LineageParamTypeError(f"tag = {tag!r} must be a text.")
    suffixes = [suffix for suffix in BY_NAME[plugin].suffixes if tag.endswith(suffix)]
    shorter = [tag.removesuffix(suffix) for suffix in suffixes]
    return [texts.to_stored(spelling) for spelling in (tag, *shorter)]


def _of_tag(session: Session, job_id: int, plugin: str, tag: str) -> list[Series]:
    rows = session.rows(_OF_TAG, of_job=job_id, of_plugin=plugin, of_key=texts.key(tag), of_tag=tag)
    return [Series(job_id, number, texts.from_stored(name), *rest) for number, name, *rest in rows]


_SERIES = (
    select(series.c.series_no, log_file.c.name, log_file.c.format, series.c.device, series.c.superseded_from)
    .add_columns(series.c.sample_count, series.c.first_step, series.c.last_step, log_file.c.file_time)
    .add_columns(series.c.earliest_wall_time, series.c.thinned_count)
    .join(log_file, of_file(series))
    .where(CURRENT_FILE)
    .order_by(log_file.c.file_time, log_file.c.name)
)
_OF_TAG = Query(
    _SERIES.where(
        series.c.job_id == bindparam("of_job"),
        series.c.plugin == bindparam("of_plugin"),
        series.c.tag_key == bindparam("of_key"),
        series.c.tag == bindparam("of_tag"),
    )
)


@cache
def _of_tags(dialect: str) -> Select[Any]:
    """Select the series of scalars of jobs and keys of tags, with job and tag."""
    wanted = one_of_rows(dialect, [series.c.job_id, series.c.tag_key])
    shown = select(series.c.job_id, series.c.tag, *_SERIES.selected_columns).join(log_file, of_file(series))
    ordered = shown.order_by(series.c.job_id, log_file.c.file_time, log_file.c.name)
    return ordered.where(CURRENT_FILE, series.c.plugin == literal_column(f"'{SCALAR}'"), wanted)


def _not_found(
    session: Session, job_id: int, plugin: str, tag: str, device: int | None, found: Sequence[Series]
) -> SampleNotFoundError:
    """Return the error for a tag that is unknown, or has no samples of this device; `found`: all of its series."""
    if found:
        devices = sorted({str(each.device) for each in found})
        return SampleNotFoundError(
            f"The {plugin} {tag!r} has no samples of device {device!r}; there are: {', '.join(devices)}."
        )
    known = tags(session, job_id)
    names = known.get(plugin, [])
    close = get_close_matches(tag, names, n=_SHOWN_NAMES, cutoff=0.4) or names[:_SHOWN_NAMES]
    elsewhere = [other for other, found in known.items() if tag in found]
    hint = f"Close: {', '.join(close)}." if close else f"The job has no {plugin} at all."
    if not known and not _has_summary_file(session, job_id):
        hint = "No summary file of it has been read: if it has any, ingest its base dir."
    if elsewhere:
        hint += f" There is a {' and a '.join(elsewhere)} of that name."
    name = session.value(select(train_job.c.train_id).where(train_job.c.id == job_id))
    return SampleNotFoundError(f"The job {texts.from_stored(name)} has no {plugin} {tag!r}.", hint=hint)


def _has_summary_file(session: Session, job_id: int) -> bool:
    summary = and_(log_file.c.job_id == job_id, log_file.c.kind == "summary", CURRENT_FILE)
    return session.first(select(log_file.c.file_no).where(summary).limit(1)) is not None
