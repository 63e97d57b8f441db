"""Writing samples, the statistics of their series, and from which step on a newer log file supersedes them.

In: columns of samples, by series and ascending step. Out: rows of `series` and of the tables of samples, in the way
that is fastest for each database: SQLite gets them by `sqlite_bulk`, in the order of their keys, PostgreSQL by one
binary COPY, after the rows that are to be replaced were deleted. Promises: the same rows on both, NaN as NULL; a step
of a file that is written again replaces the stored one; statistics are merged when all new steps are behind the stored
ones, and else computed again from the rows. Knows no more of log files than their timestamps, and which are current.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    Row,
    Select,
    Table,
    Update,
    bindparam,
    case,
    delete,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY

from lineage_store.errors import BookmarkMovedError
from lineage_store.store.catalog.registry import next_numbers
from lineage_store.store.database.sql import (
    Session,
    among,
    among_rows,
    listed_rows,
    one_of_rows,
    update_by_key,
)
from lineage_store.store.records import FileKey, SampleColumns, SeriesName, Statistics
from lineage_store.store.schema.tables import (
    SAMPLES_OF,
    in_series,
    log_file,
    of_file,
    scalar_bucket,
    scalar_sample,
    series,
)
from lineage_store.store.writes import binary_copy, sqlite_bulk
from lineage_store.texts import key

SeriesKey = tuple[int, str, int, int]
"""The key of a series: (job id, plugin, tag key, number of the log file)."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One series of a batch, with the statistics of the batch's samples."""

    key: SeriesKey
    name: SeriesName
    statistics: Statistics

    def series_row(self, series_no: int) -> dict[str, Any]:
        job_id, plugin, tag_key, file_no = self.key
        return {
            "job_id": job_id,
            "series_no": series_no,
            "file_no": file_no,
            "plugin": plugin,
            "tag_key": tag_key,
            "tag": self.name.tag,
            "device": self.name.file.device,
            **self.statistics._asdict(),
        }

    def appends_to(self, row: Row[Any]) -> bool:
        """Return whether all its steps are behind those of the stored series."""
        return self.statistics.first_step > int(row.last_step)


def write_samples(
    session: Session, samples: Sequence[SampleColumns], most_tags: int
) -> tuple[set[int], set[int], set[FileKey]]:
    """Store samples, of at most `most_tags` series per file.

    Returns the ids of the jobs and the tag keys whose supersession must be computed again, and the files of which
    samples were left out. Raises BookmarkMovedError if one of the series was thinned: its file must be read again.
    """
    batch = [(columns, _parts(columns)) for columns in samples]
    parts = [part for _, of_plugin in batch for part in of_plugin]
    # A file whose bookmark is at 0 has no series yet.
    known = _known_series(session, {part.name.file.key for part in parts if part.name.file.byte_offset})
    if any(row.thinned_count for row in known.values()):
        raise BookmarkMovedError("A log file was thinned since it was read; nothing was written.")
    room = _Room(most_tags)
    new = _create(session, [part for part in parts if part.key not in known], room)
    moved = [part for each in batch for part in _write_plugin(session, *each, known, new)]
    return {part.name.file.job_id for part in moved}, {part.key[2] for part in moved}, room.full


def _parts(samples: SampleColumns) -> list[_Part]:
    return [
        _Part((name.file.job_id, samples.plugin, key(name.tag), name.file.file_no), name, found)
        for name, found in zip(samples.series, samples.statistics, strict=True)
    ]


@dataclass(slots=True)
class _Room:
    """How many series the files of a batch have already, and which of them had no room for another one."""

    most_tags: int
    taken: Counter[FileKey] = field(default_factory=Counter)
    full: set[FileKey] = field(default_factory=set)

    def takes(self, file: FileKey) -> bool:
        """Count a further series of a file, or note that the file is full."""
        if self.taken[file] >= self.most_tags:
            self.full.add(file)
            return False
        self.taken[file] += 1
        return True


def _write_plugin(
    session: Session,
    samples: SampleColumns,
    parts: Sequence[_Part],
    known: Mapping[SeriesKey, Row[Any]],
    new: Mapping[SeriesKey, int],
) -> list[_Part]:
    """Store samples of one plugin; return the series that are new or begin at a lower step than before.

    Args:
        known: the series that were stored before the batch.
        new: the numbers of those that were created for it; samples of further ones are left out.
    """
    kept = [part.key in known or part.key in new for part in parts]
    if not all(kept):
        parts, samples = list(compress(parts, kept)), samples.only(kept)
    if not parts:
        return []
    table = SAMPLES_OF[samples.plugin]
    series_nos = np.array([new.get(part.key) or known[part.key].series_no for part in parts])
    rewritten = [
        n for n, part in enumerate(parts) if part.key in known and not part.appends_to(known[part.key])
    ]
    write(session, table, samples, series_nos, rewritten)
    extended = [part for part in parts if part.key in known]
    superseded = {
        part.key: _samples_from(samples, n, known[part.key].superseded_from)
        for n, part in enumerate(parts)
        if part.key in known
    }
    created = [part for part in parts if part.key in new]
    return created + _update_statistics(session, table, extended, known, superseded)


def _samples_from(samples: SampleColumns, number: int, first: int | None) -> int:
    """Return how many samples of one series are at the step `first` or behind it; 0 if `first` is None."""
    return 0 if first is None else int((samples.steps[samples.number == number] >= first).sum())


def _create(session: Session, parts: Sequence[_Part], room: _Room) -> dict[SeriesKey, int]:
    """Insert rows of new series as far as their files have room; return their numbers within their jobs."""
    if not parts:
        return {}
    next_no = next_numbers(session, series.c.series_no, {part.key[0] for part in parts})
    begun = {part.name.file.key for part in parts if part.name.file.byte_offset}
    room.taken.update(_series_counts(session, begun - room.taken.keys()))
    numbers = {part.key: next(next_no[part.key[0]]) for part in parts if room.takes(part.name.file.key)}
    rows = [part.series_row(numbers[part.key]) for part in parts if part.key in numbers]
    session.insert(series, rows)
    return numbers


def _series_counts(session: Session, files: Collection[FileKey]) -> Counter[FileKey]:
    """Return how many series each file has."""
    if not files:
        return Counter()
    of = (series.c.job_id, series.c.file_no)
    counts = select(*of, func.count()).where(among_rows(session, of, files)).group_by(*of)
    return Counter({(job_id, file_no): count for job_id, file_no, count in session.rows(counts)})


def _update_statistics(
    session: Session,
    table: Table,
    parts: Iterable[_Part],
    known: Mapping[SeriesKey, Row[Any]],
    superseded: Mapping[SeriesKey, int],
) -> list[_Part]:
    """Update the statistics of existing series; return the parts that lowered the first step of their series.

    Args:
        superseded: how many of each part's samples are superseded.
    """
    appended: list[tuple[SeriesNumber, int, Statistics]] = []
    rewritten: list[tuple[SeriesNumber, int, Statistics]] = []
    lowered = []
    for part in parts:
        row = known[part.key]
        number = row.job_id, row.series_no
        if part.appends_to(row):
            appended.append((number, superseded[part.key], part.statistics))
            continue
        first, count = row.superseded_from, 0
        if first is not None:
            count = samples_from(session, table, row.job_id, [row.series_no], first).get(row.series_no, 0)
        rewritten.append((number, count, statistics_from_rows(session, table, number)))
        if part.statistics.first_step < row.first_step:
            lowered.append(part)
    append_statistics(session, appended)
    store_statistics(session, rewritten)
    return lowered


def _known_series(session: Session, files: Collection[FileKey]) -> dict[SeriesKey, Row[Any]]:
    if not files:
        return {}
    dialect_name = session.kind
    rows = session.rows(_known(dialect_name), listed_rows(dialect_name, 2, files))
    return {tuple(row[:4]): row for row in rows}


_KNOWN_COLUMNS = (
    *("job_id", "plugin", "tag_key", "file_no", "series_no"),
    *("first_step", "last_step", "superseded_from", "thinned_count"),
)


@cache
def _known(dialect_name: str) -> Select[Any]:
    mine = one_of_rows(dialect_name, (series.c.job_id, series.c.file_no))
    return select(*(series.c[name] for name in _KNOWN_COLUMNS)).where(mine)


# ---- The samples

Integers = NDArray[np.int64]


def write(
    session: Session,
    table: Table,
    samples: SampleColumns,
    series_nos: Integers,
    rewritten: Sequence[int],
) -> None:
    """Store samples.

    Args:
        series_nos: for each series of `samples.series`, its number within its job.
        rewritten: indices in `samples.series` of the series of which some steps may be stored already.
    """
    job_ids = np.array([name.file.job_id for name in samples.series])
    known = {
        "job_id": job_ids[samples.number],
        "series_no": series_nos[samples.number],
        "step": samples.steps,
    }
    found = {**samples.columns, **known}
    columns = [found.get(column.name) for column in table.columns]
    if session.kind == "sqlite":
        rank = np.argsort(np.lexsort((series_nos, job_ids)))[samples.number]
        if (np.diff(rank) < 0).any():
            order = np.argsort(rank, kind="stable")
            columns = [None if column is None else column[order] for column in columns]
        sqlite_bulk.insert(session, table, columns)
        return
    if rewritten:
        again = np.isin(samples.number, rewritten)
        _delete(session, table, {name: keys[again] for name, keys in known.items()})
    binary_copy.copy(session, table, columns)


def _delete(session: Session, table: Table, keys: Mapping[str, Integers]) -> None:
    """Delete the rows with these keys, as far as they exist, by one statement for all series."""
    columns = [table.c[name] for name in keys]
    lists = (literal(keys[column.name].tolist(), ARRAY(column.type)) for column in columns)
    again = func.unnest(*lists).table_valued(*keys, name="again").render_derived()
    session.change(delete(table).where(*(column == again.c[column.name] for column in columns)))


# ---- Series: their stored statistics, and from which step on a newer log file supersedes their samples

SeriesNumber = tuple[int, int]
"""(job id, number of the series within the job): the key of a series, with which its samples are stored."""


def supersession(of_tag: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return for each series of one tag and device the first superseded step; None if there is none.

    That is the lowest step in any file whose name has a later timestamp.

    Args:
        of_tag: for each series, the timestamp in the name of its file, and its first step.
    """
    lowest: dict[int, int] = {}
    for file_time, first_step in of_tag:
        lowest[file_time] = min(first_step, lowest.get(file_time, first_step))
    superseded_from: dict[int, int | None] = {}
    lowest_newer: int | None = None
    for file_time in sorted(lowest, reverse=True):
        superseded_from[file_time] = lowest_newer
        lowest_newer = lowest[file_time] if lowest_newer is None else min(lowest_newer, lowest[file_time])
    return [superseded_from[file_time] for file_time, _ in of_tag]


def recompute_supersession(
    session: Session, job_ids: Collection[int], tag_keys: Collection[int] | None
) -> None:
    """Update `superseded_from` and `superseded_count` of the series of jobs, for the given tags or (None) for all."""
    several = _jobs_of_several_files(session, job_ids) if job_ids else ()
    if not several:
        return
    groups: dict[tuple[object, ...], list[Row[Any]]] = defaultdict(list)
    for row in session.rows(_WRITTEN.where(among(session, series.c.job_id, several))):
        if tag_keys is None or row.tag_key in tag_keys:
            groups[row.job_id, row.plugin, row.tag_key, row.device].append(row)
    changed: list[tuple[Row[Any], int | None]] = []
    for of_tag in groups.values():
        firsts = supersession([(row.file_time, row.first_step) for row in of_tag])
        changed += [
            (row, first) for row, first in zip(of_tag, firsts, strict=True) if first != row.superseded_from
        ]
    counted = [
        {**_of(number), "superseded_from": first, "superseded_count": count}
        for number, first, count in _superseded(session, changed)
    ]
    update_by_key(session, series, counted)


def _superseded(
    session: Session, of: Iterable[tuple[Row[Any], int | None]]
) -> Iterator[tuple[SeriesNumber, int | None, int]]:
    """Yield for each series its number, its first superseded step, and how many of its samples are superseded.

    After a restart most tags of a job go on at the same step: one query counts the samples of all of them.
    """
    parts: dict[tuple[int, Table, int], list[int]] = defaultdict(list)
    for row, first in of:
        number = row.job_id, row.series_no
        if first is None or first > row.last_step:
            yield number, first, 0
        elif first <= row.first_step:
            yield number, first, row.sample_count
        elif row.thinned_count:
            yield number, first, _written_from(session, number, first)
        else:
            parts[row.job_id, SAMPLES_OF[row.plugin], first].append(row.series_no)
    for (job_id, samples, first), numbers in parts.items():
        for series_no, count in samples_from(session, samples, job_id, numbers, first).items():
            yield (job_id, series_no), first, count


def samples_from(
    session: Session, samples: Table, job_id: int, series_nos: Collection[int], first: int
) -> dict[int, int]:
    """Return by number how many samples series of a job have at the step `first` or behind it; without zeros."""
    behind = among(session, samples.c.series_no, series_nos) & (samples.c.step >= first)
    counts = select(samples.c.series_no, func.count()).where(samples.c.job_id == job_id, behind)
    return {row[0]: row[1] for row in session.rows(counts.group_by(samples.c.series_no))}


def _written_from(session: Session, number: SeriesNumber, first: int) -> int:
    """Estimate how many samples a thinned series had from the step `first` on.

    Within a bucket the steps count as evenly spread.
    """
    bucket = scalar_bucket.c
    mine = in_series(scalar_bucket, number) & (bucket.last_step >= first)
    rows = session.rows(select(bucket.first_step, bucket.last_step, bucket["count"]).where(mine))
    return sum(
        count if first <= low else count - -((low - first) * (count - 1) // (high - low))
        for low, high, count in rows
    )


_WRITTEN: Select[Any] = (
    select(
        *(series.c[name] for name in ("job_id", "series_no", "plugin", "tag_key", "device")),
        *(series.c[name] for name in ("sample_count", "first_step", "last_step", "superseded_from")),
        series.c.thinned_count,
        log_file.c.file_time,
    )
    .join_from(series, log_file, of_file(series))
    .where(log_file.c.current)
)


def _jobs_of_several_files(session: Session, job_ids: Collection[int]) -> list[int]:
    """Return the jobs with more than one summary file or generation: in others no file supersedes another."""
    mine = among(session, log_file.c.job_id, job_ids)
    summaries = select(log_file.c.job_id).where(mine, log_file.c.kind == "summary")
    several = summaries.group_by(log_file.c.job_id).having(func.count() > 1)
    return sorted(session.column(several))


def store_statistics(session: Session, of: Iterable[tuple[SeriesNumber, int, Statistics]]) -> None:
    """Replace the statistics of existing series, given with their numbers and counts of superseded samples."""
    rows = [{**_of(number), "superseded_count": count, **found._asdict()} for number, count, found in of]
    update_by_key(session, series, rows)


def _of(number: SeriesNumber) -> dict[str, int]:
    return {"of_job_id": number[0], "of_series_no": number[1]}


def append_statistics(session: Session, of: Iterable[tuple[SeriesNumber, int, Statistics]]) -> None:
    """Merge the statistics of new samples into those of existing series, all of whose steps must be lower.

    Args:
        of: for each series its number, how many of the new samples are superseded, and their statistics.
    """
    rows = [dict(zip(_APPENDED, (*number, count, *found), strict=True)) for number, count, found in of]
    if rows:
        session.change(_APPEND, rows)


_APPENDED = [f"of_{name}" for name in ("job_id", "series_no", "superseded_count", *Statistics._fields)]


def _append() -> Update:
    """Return the UPDATE for `append_statistics`. An equal minimum or maximum does not move: the lower step stays."""
    names = (*Statistics._fields, "superseded_count")
    new = {name: bindparam(f"of_{name}", type_=series.c[name].type) for name in names}
    summed = ("sample_count", "nan_count", "inf_count", "superseded_count")
    counts = {name: series.c[name] + new[name] for name in summed}
    last = {name: new[name] for name in ("last_step", "last_wall_time", "last_value")}
    extremes: dict[str, Any] = {}
    for is_beyond, extreme, *with_it in (
        (operator.gt, "min_value", "min_step"),
        (operator.lt, "max_value", "max_step"),
        (operator.gt, "earliest_wall_time"),
        (operator.lt, "latest_wall_time"),
    ):
        moves = series.c[extreme].is_(None) | is_beyond(series.c[extreme], new[extreme])
        for name in (extreme, *with_it):
            extremes[name] = case((moves, new[name]), else_=series.c[name])
    this = (series.c[name] == bindparam(f"of_{name}") for name in ("job_id", "series_no"))
    return update(series).where(*this).values({**counts, **last, **extremes})


_APPEND = _append()


def statistics_from_rows(session: Session, samples: Table, number: SeriesNumber) -> Statistics:
    """Compute the statistics of one series from its stored samples, as is needed after a step was written again."""
    mine = in_series(samples, number)
    first, last = (
        session.one(select(samples).where(mine).order_by(order).limit(1))
        for order in (samples.c.step, samples.c.step.desc())
    )
    time = samples.c.wall_time
    count, earliest, latest = session.one(select(func.count(), func.min(time), func.max(time)).where(mine))
    found = Statistics(
        sample_count=count,
        first_step=first.step,
        first_wall_time=first.wall_time,
        first_value=None,
        last_step=last.step,
        last_wall_time=last.wall_time,
        last_value=None,
        earliest_wall_time=earliest,
        latest_wall_time=latest,
    )
    if samples is not scalar_sample:
        return found
    values = _value_statistics(session, number)
    return found._replace(first_value=first.value, last_value=last.value, **values)


def _value_statistics(session: Session, number: SeriesNumber) -> dict[str, Any]:
    mine, value, step = in_series(scalar_sample, number), scalar_sample.c.value, scalar_sample.c.step
    infinite = value.in_([float("inf"), float("-inf")])
    counts = select(func.count().filter(value.is_(None)), func.count().filter(infinite)).where(mine)
    nans, infinities = session.one(counts)
    found: dict[str, Any] = {"nan_count": nans, "inf_count": infinities}
    for name, order in (("min", value), ("max", value.desc())):
        finite = select(value, step).where(mine, value.is_not(None), ~infinite)
        row = session.first(finite.order_by(order, step).limit(1))
        if row is not None:
            found |= {f"{name}_value": row.value, f"{name}_step": row.step}
    return found
