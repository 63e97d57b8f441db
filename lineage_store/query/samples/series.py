"""Which series have a tag, and which of their samples count.

In: a job, a plugin, a tag as the user spells it. Out: the series of the tag, one per current log file; for the same
step, a later one wins. Promises: a tag of exactly this name is preferred to one without MindInsight's suffix; the error
for an unknown tag names close ones.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, select

from lineage_store import texts
from lineage_store.errors import LineageParamTypeError, SampleNotFoundError
from lineage_store.extreme_numbers import LARGEST_INTEGER, LEAST_INTEGER
from lineage_store.plugins import BY_NAME
from lineage_store.store.database.statements import run
from lineage_store.store.schema.tables import CURRENT_FILE, log_file, of_file, series, train_job

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

    def of(self, samples: Table) -> ColumnElement[bool]:
        """Return the condition for all of its samples."""
        return and_(samples.c.job_id == self.job_id, samples.c.series_no == self.number)

    def effective(self, samples: Table, start: int | None, stop: int | None) -> ColumnElement[bool]:
        """Return the condition for samples from `start` up to but not `stop` that no newer file wrote again."""
        step = samples.c.step
        ends = [stop for stop in (stop, self.superseded_from) if stop is not None]
        wanted = [self.of(samples)]
        if start is not None:
            wanted.append(step >= start)
        if ends:
            wanted.append(step < min(ends))
        return and_(*wanted)


def tags(connection: Connection, job_id: int) -> dict[str, list[str]]:
    """Return the job's tags by plugin, both sorted. The tag of a graph is the name of its log file."""
    rows = connection.execute(
        select(series.c.plugin, series.c.tag)
        .join(log_file, of_file(series))
        .where(series.c.job_id == job_id, CURRENT_FILE)
        .distinct()
    )
    found: dict[str, list[str]] = {}
    for plugin, tag in sorted((plugin, texts.from_stored(tag)) for plugin, tag in rows):
        found.setdefault(plugin, []).append(tag)
    return found


def find_series(
    connection: Connection, job_id: int, plugin: str, tag: str, device: int | None
) -> list[Series]:
    """Return the series of a tag, oldest file first; `device` None: of all devices.

    Raises SampleNotFoundError, LineageParamTypeError.
    """
    for spelling in _spellings(plugin, tag):
        found = _of_tag(connection, job_id, plugin, spelling)
        if not found:
            continue
        of_device = [each for each in found if device is None or each.device == device]
        if of_device:
            return of_device
        devices = sorted({str(each.device) for each in found})
        raise SampleNotFoundError(
            f"The {plugin} {tag!r} has no samples of device {device!r}; there are: {', '.join(devices)}."
        )
    raise _unknown(connection, job_id, plugin, tag)


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


def _of_tag(connection: Connection, job_id: int, plugin: str, tag: str) -> list[Series]:
    rows = run(connection, _OF_TAG, of_job=job_id, of_plugin=plugin, of_key=texts.key(tag), of_tag=tag)
    return [Series(job_id, number, texts.from_stored(name), *rest) for number, name, *rest in rows]


_OF_TAG = (
    select(series.c.series_no, log_file.c.name, log_file.c.format, series.c.device, series.c.superseded_from)
    .add_columns(series.c.sample_count, series.c.first_step, series.c.last_step, log_file.c.file_time)
    .add_columns(series.c.earliest_wall_time, series.c.thinned_count)
    .join(log_file, of_file(series))
    .where(
        series.c.job_id == bindparam("of_job"),
        series.c.plugin == bindparam("of_plugin"),
        series.c.tag_key == bindparam("of_key"),
        series.c.tag == bindparam("of_tag"),
        CURRENT_FILE,
    )
    .order_by(log_file.c.file_time, log_file.c.name)
)


def _unknown(connection: Connection, job_id: int, plugin: str, tag: str) -> SampleNotFoundError:
    known = tags(connection, job_id)
    names = known.get(plugin, [])
    close = get_close_matches(tag, names, n=_SHOWN_NAMES, cutoff=0.4) or names[:_SHOWN_NAMES]
    elsewhere = [other for other, found in known.items() if tag in found]
    hint = f"Close: {', '.join(close)}." if close else f"The job has no {plugin} at all."
    if not known and not _has_summary_file(connection, job_id):
        hint = "No summary file of it has been read: if it has any, ingest its base dir."
    if elsewhere:
        hint += f" There is a {' and a '.join(elsewhere)} of that name."
    name = connection.execute(select(train_job.c.train_id).where(train_job.c.id == job_id)).scalar_one()
    return SampleNotFoundError(f"The job {texts.from_stored(name)} has no {plugin} {tag!r}.", hint=hint)


def _has_summary_file(connection: Connection, job_id: int) -> bool:
    summary = and_(log_file.c.job_id == job_id, log_file.c.kind == "summary", CURRENT_FILE)
    return connection.execute(select(log_file.c.file_no).where(summary).limit(1)).first() is not None
