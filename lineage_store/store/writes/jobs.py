"""What a job's row says, derived anew from its log files whenever one of them changed.

In: ids of jobs. Out: refreshed rows of `train_job`. Promises: the outcome depends on the log files' rows and the clock
only, not on the order in which anything happened.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, select, update

from lineage_store.store.dialects import in_parts
from lineage_store.store.schema import log_file, train_job

LATEST_FILE_TIME = 253_402_300_799


def refresh_jobs(
    connection: Connection, job_ids: Collection[int], now: datetime, live_within_s: float
) -> None:
    """Derive the rows of some jobs from their log files."""
    rows: list[dict[str, Any]] = []
    for part in in_parts(sorted(job_ids)):
        files: dict[int, list[Row[Any]]] = defaultdict(list)
        query = select(log_file).where(log_file.c.job_id.in_(part), log_file.c.state != "replaced")
        for file in connection.execute(
            query.order_by(log_file.c.job_id, log_file.c.file_time, log_file.c.name)
        ):
            files[file.job_id].append(file)
        rows.extend(_job_row(job, of_job, now, live_within_s) for job, of_job in files.items())
    if rows:
        columns: dict[str, ColumnElement[Any]] = {
            name: bindparam(name) for name in rows[0] if name != "of_id"
        }
        connection.execute(
            update(train_job).where(train_job.c.id == bindparam("of_id")).values(columns), rows
        )


def quiet_jobs(connection: Connection, base_dir_id: int, now: datetime, live_within_s: float) -> list[int]:
    """Jobs that are called live but have not grown for too long."""
    quiet = train_job.c.last_grown_at < now - timedelta(seconds=live_within_s)
    wanted = (train_job.c.base_dir_id == base_dir_id) & (train_job.c.state == "live") & quiet
    return list(connection.execute(select(train_job.c.id).where(wanted)).scalars())


def job_state(files: Sequence[Row[Any]], now: datetime, live_within_s: float) -> str:
    """live, stalled, finished or missing (the last when nothing is left on disk)."""
    present = [file for file in files if file.state != "missing"]
    if not present:
        return "missing"
    newest: dict[tuple[str, int | None], int] = {}
    for file in present:
        stream = (file.kind, file.device)
        newest[stream] = max(file.file_time, newest.get(stream, file.file_time))
    writing = [
        file for file in present if not file.closed and file.file_time == newest[file.kind, file.device]
    ]
    if not writing:
        return "finished"
    grown = max((file.grown_at for file in present if file.grown_at is not None), default=None)
    return "live" if grown is not None and now - grown <= timedelta(seconds=live_within_s) else "stalled"


def _job_row(job_id: int, files: Sequence[Row[Any]], now: datetime, live_within_s: float) -> dict[str, Any]:
    state = job_state(files, now, live_within_s)
    times = [file.file_time for file in files if file.file_time <= LATEST_FILE_TIME]
    visible = [file for file in files if file.current]
    hosts = [file.host for file in files if file.host]
    return {
        "of_id": job_id,
        "state": state,
        "source_present": state != "missing",
        "host": hosts[-1] if hosts else None,
        "update_time": max(file.modified_s for file in files),
        "first_file_time": min(times, default=None),
        "last_file_time": max(times, default=None),
        "last_wall_time": max(
            (f.last_wall_time for f in visible if f.last_wall_time is not None), default=None
        ),
        "last_grown_at": max((f.grown_at for f in files if f.grown_at is not None), default=None),
        "log_bytes": sum(file.size_bytes for file in visible),
    }
