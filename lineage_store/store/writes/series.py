"""Series: from which step on a newer log file supersedes their samples, and their stored statistics.

In: series of one tag; ids of jobs; statistics of series by number. Out: the first superseded step of each series;
updated rows of `series`. Does not know more of log files than their timestamps, and which of them are current.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, Update, bindparam, case, func, select, update

from lineage_store.store.database.dialects import among, execute_rows, update_by_key
from lineage_store.store.schema.tables import (
    in_series,
    log_file,
    of_file,
    samples_of,
    scalar_bucket,
    scalar_sample,
    series,
)
from lineage_store.store.statistics import Statistics

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
    connection: Connection, job_ids: Collection[int], tag_keys: Collection[int] | None
) -> None:
    """Update `superseded_from` and `superseded_count` of the series of jobs, for the given tags or (None) for all."""
    several = _jobs_of_several_files(connection, job_ids) if job_ids else ()
    if not several:
        return
    groups: dict[tuple[object, ...], list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(_WRITTEN.where(among(connection, series.c.job_id, several))):
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
        for number, first, count in _superseded(connection, changed)
    ]
    update_by_key(connection, series, counted)


def _superseded(
    connection: Connection, of: Iterable[tuple[Row[Any], int | None]]
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
            yield number, first, _written_from(connection, number, first)
        else:
            parts[row.job_id, samples_of(row.plugin), first].append(row.series_no)
    for (job_id, samples, first), numbers in parts.items():
        for series_no, count in samples_from(connection, samples, job_id, numbers, first).items():
            yield (job_id, series_no), first, count


def samples_from(
    connection: Connection, samples: Table, job_id: int, series_nos: Collection[int], first: int
) -> dict[int, int]:
    """Return by number how many samples series of a job have at the step `first` or behind it; without zeros."""
    behind = among(connection, samples.c.series_no, series_nos) & (samples.c.step >= first)
    counts = select(samples.c.series_no, func.count()).where(samples.c.job_id == job_id, behind)
    return {row[0]: row[1] for row in connection.execute(counts.group_by(samples.c.series_no))}


def _written_from(connection: Connection, number: SeriesNumber, first: int) -> int:
    """Estimate how many samples a thinned series had from the step `first` on.

    Within a bucket the steps count as evenly spread.
    """
    bucket = scalar_bucket.c
    mine = in_series(scalar_bucket, number) & (bucket.last_step >= first)
    rows = connection.execute(select(bucket.first_step, bucket.last_step, bucket["count"]).where(mine))
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


def _jobs_of_several_files(connection: Connection, job_ids: Collection[int]) -> list[int]:
    """Return the jobs with more than one summary file or generation: in others no file supersedes another."""
    mine = among(connection, log_file.c.job_id, job_ids)
    summaries = select(log_file.c.job_id).where(mine, log_file.c.kind == "summary")
    several = summaries.group_by(log_file.c.job_id).having(func.count() > 1)
    return sorted(connection.execute(several).scalars())


def store_statistics(connection: Connection, of: Iterable[tuple[SeriesNumber, int, Statistics]]) -> None:
    """Replace the statistics of existing series, given with their numbers and counts of superseded samples."""
    rows = [{**_of(number), "superseded_count": count, **found._asdict()} for number, count, found in of]
    update_by_key(connection, series, rows)


def _of(number: SeriesNumber) -> dict[str, int]:
    return {"of_job_id": number[0], "of_series_no": number[1]}


def append_statistics(connection: Connection, of: Iterable[tuple[SeriesNumber, int, Statistics]]) -> None:
    """Merge the statistics of new samples into those of existing series, all of whose steps must be lower.

    Args:
        of: for each series its number, how many of the new samples are superseded, and their statistics.
    """
    rows = [dict(zip(_APPENDED, (*number, count, *found), strict=True)) for number, count, found in of]
    if rows:
        execute_rows(connection, _APPEND, rows)


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


def statistics_from_rows(connection: Connection, samples: Table, number: SeriesNumber) -> Statistics:
    """Compute the statistics of one series from its stored samples, as is needed after a step was written again."""
    mine = in_series(samples, number)
    first, last = (
        connection.execute(select(samples).where(mine).order_by(order).limit(1)).one()
        for order in (samples.c.step, samples.c.step.desc())
    )
    time = samples.c.wall_time
    count, earliest, latest = connection.execute(
        select(func.count(), func.min(time), func.max(time)).where(mine)
    ).one()
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
    values = _value_statistics(connection, number)
    return found._replace(first_value=first.value, last_value=last.value, **values)


def _value_statistics(connection: Connection, number: SeriesNumber) -> dict[str, Any]:
    mine, value, step = in_series(scalar_sample, number), scalar_sample.c.value, scalar_sample.c.step
    infinite = value.in_([float("inf"), float("-inf")])
    counts = select(func.count().filter(value.is_(None)), func.count().filter(infinite)).where(mine)
    nans, infinities = connection.execute(counts).one()
    found: dict[str, Any] = {"nan_count": nans, "inf_count": infinities}
    for name, order in (("min", value), ("max", value.desc())):
        finite = select(value, step).where(mine, value.is_not(None), ~infinite)
        row = connection.execute(finite.order_by(order, step).limit(1)).first()
        if row is not None:
            found |= {f"{name}_value": row.value, f"{name}_step": row.step}
    return found
