"""What the log files of jobs hold: how many files there are, whether all could be read, and their tags.

In: an open read transaction, ids of jobs. Out: a frozen `JobContents` for each job that the store knows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, case, func, literal_column, or_, select

from lineage_store.extreme_numbers import LARGEST_INTEGER
from lineage_store.plugins import GRAPH
from lineage_store.states import FileState
from lineage_store.store.database.dialects import listed, one_of
from lineage_store.store.database.statements import run
from lineage_store.store.schema.tables import CURRENT_FILE, log_file, of_file, series, train_job
from lineage_store.texts import from_stored, to_stored

_DAMAGED: list[ColumnElement[Any]] = [
    literal_column(f"'{state}'")
    for state in (FileState.TORN, FileState.SUSPECT, FileState.UNREADABLE, FileState.POISONED)
]


@dataclass(frozen=True, slots=True)
class JobContents:
    """What the log files of a job hold."""

    summary_files: int
    lineage_files: int
    is_intact: bool
    """Whether all of its summary files could be read, without damage."""
    tags: Sequence[tuple[str, str]]
    """(plugin, tag) pairs in the order in which the store first saw them."""


def job_contents(
    connection: Connection, base_dir_id: int, train_ids: Sequence[str], most_tags: int | None = None
) -> dict[str, JobContents]:
    """Return the contents of these jobs by train id, without jobs that the store does not know.

    `most_tags`: return no more tags of a plugin and job, but the last ones to appear; of graphs, one a file, all.
    """
    jobs, files, tags_of = _statements(dialect := connection.dialect.name)
    wanted = listed(dialect, map(to_stored, train_ids))
    names = {
        job_id: from_stored(train_id)
        for job_id, train_id in run(connection, jobs, of_base_dir=base_dir_id, wanted=wanted)
    }
    if not names:
        return {}
    wanted = listed(dialect, names)
    rows = run(connection, files, wanted=wanted)
    counts = {(job_id, kind): (number, of_damaged) for job_id, kind, number, of_damaged in rows}
    tags = defaultdict(list)
    most = LARGEST_INTEGER if most_tags is None else most_tags
    for job_id, plugin, tag in run(connection, tags_of, wanted=wanted, most=most):
        tags[job_id].append((plugin, from_stored(tag)))
    found = {}
    for job_id, train_id in names.items():
        summary_files, damaged_files = counts.get((job_id, "summary"), (0, 0))
        lineage_files, _ = counts.get((job_id, "lineage"), (0, 0))
        found[train_id] = JobContents(summary_files, lineage_files, damaged_files == 0, tags[job_id])
    return found


@cache
def _statements(dialect: str) -> tuple[Select[Any], Select[Any], Select[Any]]:
    """Return three SELECTs: jobs by train id, their log files, and their tags.

    A job's series are numbered in the order of arrival, so the least number of a tag's series orders the tags.
    """
    wanted: Any = bindparam("wanted")
    damaged = or_(log_file.c.state.in_(_DAMAGED), log_file.c.quarantined_bytes > 0)
    jobs = select(train_job.c.id, train_job.c.train_id).where(
        train_job.c.base_dir_id == bindparam("of_base_dir"), one_of(dialect, train_job.c.train_id, wanted)
    )
    files = (
        select(log_file.c.job_id, log_file.c.kind, func.count(), func.sum(case((damaged, 1), else_=0)))
        .where(one_of(dialect, log_file.c.job_id, wanted), CURRENT_FILE)
        .group_by(log_file.c.job_id, log_file.c.kind)
    )
    tag, first = (series.c.job_id, series.c.plugin, series.c.tag), func.min(series.c.series_no)
    place = func.row_number().over(partition_by=tag[:2], order_by=first.desc())
    seen = (
        select(*tag, first.label("first"), place.label("place"))
        .join(log_file, of_file(series))
        .where(one_of(dialect, series.c.job_id, wanted), CURRENT_FILE)
        .group_by(*tag)
        .subquery()
    )
    tags = (
        select(seen.c.job_id, seen.c.plugin, seen.c.tag)
        .where(or_(seen.c.place <= bindparam("most"), seen.c.plugin == literal_column(f"'{GRAPH}'")))
        .order_by(seen.c.first)
    )
    return jobs, files, tags
