"""What the log files of jobs hold: how many there are, whether all could be read, and which tags.

In: an open read transaction, ids of jobs. Out: a frozen `JobContents` for each job that the store knows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, case, func, or_, select

from lineage_store.states import FileState
from lineage_store.store.database.dialects import among
from lineage_store.store.schema.tables import CURRENT_FILE, log_file, of_file, series, train_job
from lineage_store.texts import from_stored, to_stored

_DAMAGED = (FileState.TORN, FileState.SUSPECT, FileState.UNREADABLE, FileState.POISONED)


@dataclass(frozen=True, slots=True)
class JobContents:
    """What the log files of a job hold."""

    summary_files: int
    lineage_files: int
    is_intact: bool
    """Whether nothing of its summary files is damaged or cannot be read."""
    tags: Sequence[tuple[str, str]]
    """(plugin, tag), in the order in which the store first saw them."""


def job_contents(
    connection: Connection, base_dir_id: int, train_ids: Sequence[str]
) -> dict[str, JobContents]:
    """What the jobs with these ids hold; nothing of those that the store does not know."""
    wanted = among(connection, train_job.c.train_id, [to_stored(train_id) for train_id in train_ids])
    jobs = select(train_job.c.id, train_job.c.train_id).where(train_job.c.base_dir_id == base_dir_id, wanted)
    names = {job_id: from_stored(train_id) for job_id, train_id in connection.execute(jobs)}
    if not names:
        return {}
    counts: dict[tuple[int, str], tuple[int, int]] = {}
    damaged = or_(log_file.c.state.in_(_DAMAGED), log_file.c.quarantined_bytes > 0)
    files = (
        select(log_file.c.job_id, log_file.c.kind, func.count(), func.sum(case((damaged, 1), else_=0)))
        .where(among(connection, log_file.c.job_id, list(names)), CURRENT_FILE)
        .group_by(log_file.c.job_id, log_file.c.kind)
    )
    for job_id, kind, number, of_damaged in connection.execute(files):
        counts[job_id, kind] = (number, of_damaged)
    tags = _tags(connection, list(names))
    found = {}
    for job_id, train_id in names.items():
        summary_files, damaged_files = counts.get((job_id, "summary"), (0, 0))
        lineage_files, _ = counts.get((job_id, "lineage"), (0, 0))
        found[train_id] = JobContents(summary_files, lineage_files, damaged_files == 0, tags[job_id])
    return found


def _tags(connection: Connection, job_ids: list[int]) -> dict[int, list[tuple[str, str]]]:
    """The tags of jobs; a job's series are numbered in the order in which they came."""
    rows = connection.execute(
        select(series.c.job_id, series.c.plugin, series.c.tag)
        .join(log_file, of_file(series))
        .where(among(connection, series.c.job_id, job_ids), CURRENT_FILE)
        .group_by(series.c.job_id, series.c.plugin, series.c.tag)
        .order_by(func.min(series.c.series_no))
    )
    found = defaultdict(list)
    for job_id, plugin, tag in rows:
        found[job_id].append((plugin, from_stored(tag)))
    return found
