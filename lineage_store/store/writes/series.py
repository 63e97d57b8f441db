"""Which samples of a series a newer file supersedes, and the statistics that are stored of it.

In: segments of one tag; ids of jobs and series. Out: the first superseded step of each; refreshed rows of `series`.
Does not know files beyond their timestamps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, Update, and_, bindparam, case, func, select, update

from lineage_store.store.database.dialects import among, execute_rows, update_by_id
from lineage_store.store.schema.tables import log_file, scalar_sample, series
from lineage_store.store.statistics import Statistics


@dataclass(frozen=True, slots=True)
class Segment:
    """What supersession needs of a series."""

    id: int
    file_time: int
    first_step: int
    superseded_from: int | None


def supersession(segments: Sequence[Segment]) -> dict[int, int | None]:
    """Of one tag and device: each series' first superseded step, the lowest that any newer-named file holds."""
    outcome: dict[int, int | None] = {}
    lowest_newer: int | None = None
    by_time: dict[int, list[Segment]] = defaultdict(list)
    for segment in segments:
        by_time[segment.file_time].append(segment)
    for time in sorted(by_time, reverse=True):
        for segment in by_time[time]:
            outcome[segment.id] = lowest_newer
        lowest = min(segment.first_step for segment in by_time[time])
        lowest_newer = lowest if lowest_newer is None else min(lowest_newer, lowest)
    return outcome


def recompute_supersession(
    connection: Connection, job_ids: Collection[int], tag_keys: Collection[int] | None
) -> None:
    """Bring `superseded_from` up to date for some jobs, for the tags given or (None) for all."""
    several = _jobs_of_several_files(connection, job_ids) if job_ids else ()
    if not several:
        return
    groups: dict[tuple[object, ...], list[Segment]] = defaultdict(list)
    for row in connection.execute(_SEGMENTS.where(among(connection, series.c.job_id, several))):
        if tag_keys is None or row.tag_key in tag_keys:
            group = (row.job_id, row.plugin, row.tag_key, row.device)
            groups[group].append(Segment(row.id, row.file_time, row.first_step, row.superseded_from))
    changed = [
        {"of_id": segment.id, "superseded_from": first}
        for segments in groups.values()
        for outcome in [supersession(segments)]
        for segment in segments
        if (first := outcome[segment.id]) != segment.superseded_from
    ]
    update_by_id(connection, series, changed)


_SEGMENTS = (
    select(
        *(series.c[name] for name in ("id", "job_id", "plugin", "tag_key", "device")),
        *(series.c[name] for name in ("first_step", "superseded_from")),
        log_file.c.file_time,
    )
    .join_from(series, log_file, log_file.c.id == series.c.log_file_id)
    .where(log_file.c.current)
)


def _jobs_of_several_files(connection: Connection, job_ids: Collection[int]) -> list[int]:
    """The jobs in which a file can supersede another, or did."""
    mine = among(connection, log_file.c.job_id, job_ids)
    summaries = select(log_file.c.job_id).where(mine, log_file.c.kind == "summary")
    several = summaries.group_by(log_file.c.job_id).having(func.count() > 1)
    return sorted(connection.execute(several).scalars())


def store_statistics(connection: Connection, of: Iterable[tuple[int, Statistics]]) -> None:
    """Write the statistics of existing series."""
    update_by_id(connection, series, [{"of_id": series_id, **found._asdict()} for series_id, found in of])


def append_statistics(connection: Connection, of: Iterable[tuple[int, Statistics]]) -> None:
    """Merge statistics of samples into those of existing series, all of whose steps are lower."""
    rows = [dict(zip(_APPENDED, (series_id, *found), strict=True)) for series_id, found in of]
    if rows:
        execute_rows(connection, _APPEND, rows)


_APPENDED = ("of_id", *(f"of_{name}" for name in Statistics._fields))


def _append() -> Update:
    """What is lowest or highest stays where it is equal: it was there first."""
    new = {name: bindparam(f"of_{name}", type_=series.c[name].type) for name in Statistics._fields}
    counts = {name: series.c[name] + new[name] for name in ("sample_count", "nan_count", "inf_count")}
    last = {name: new[name] for name in ("last_step", "last_wall_time", "last_value")}
    extremes: dict[str, ColumnElement[Any]] = {}
    for extreme, is_beyond in (
        ("min", series.c.min_value > new["min_value"]),
        ("max", series.c.max_value < new["max_value"]),
    ):
        moves = series.c[f"{extreme}_value"].is_(None) | is_beyond
        for name in (f"{extreme}_value", f"{extreme}_step"):
            extremes[name] = case((moves, new[name]), else_=series.c[name])
    return update(series).where(series.c.id == bindparam("of_id")).values({**counts, **last, **extremes})


_APPEND = _append()


def statistics_from_rows(connection: Connection, samples: Table, job_id: int, series_id: int) -> Statistics:
    """Statistics of one series from its stored samples: after a step was written again."""
    mine = and_(samples.c.job_id == job_id, samples.c.series_id == series_id)
    has_values = samples is scalar_sample
    first, last = (
        connection.execute(select(samples).where(mine).order_by(order).limit(1)).one()
        for order in (samples.c.step, samples.c.step.desc())
    )
    count = connection.execute(select(func.count()).select_from(samples).where(mine)).scalar_one()
    found = Statistics(
        sample_count=count,
        first_step=first.step,
        first_wall_time=first.wall_time,
        first_value=first.value if has_values else None,
        last_step=last.step,
        last_wall_time=last.wall_time,
        last_value=last.value if has_values else None,
    )
    return found._replace(**_value_statistics(connection, samples, mine)) if has_values else found


def _value_statistics(connection: Connection, samples: Table, mine: ColumnElement[bool]) -> dict[str, Any]:
    value = samples.c.value
    infinite = value.in_([float("inf"), float("-inf")])
    nans, infinities = connection.execute(
        select(
            func.coalesce(func.sum(case((value.is_(None), 1), else_=0)), 0),
            func.coalesce(func.sum(case((infinite, 1), else_=0)), 0),
        ).where(mine)
    ).one()
    found = {"nan_count": int(nans), "inf_count": int(infinities)}
    for name, order in (("min", value), ("max", value.desc())):
        finite = select(value, samples.c.step).where(mine, value.is_not(None), ~infinite)
        row = connection.execute(finite.order_by(order, samples.c.step).limit(1)).first()
        if row is not None:
            found |= {f"{name}_value": row.value, f"{name}_step": row.step}
    return found
