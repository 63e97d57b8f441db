"""What the store has of one job or one log file, for the answers of `why`. Only reads.

In: ids and stored names. Out: rows of `log_file`, open problems, whether there is lineage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, select

from lineage_store.store.records import FileKey, relative_path
from lineage_store.store.schema.tables import in_file, ingest_problem, lineage, log_file, train_job

# Only problems without a log file are looked up by path: those of older generations, and of jobs inside a job's
# directory, belong to files of their own.
_OF_NO_LOG_FILE = ingest_problem.c.file_no.is_(None)


def generations(connection: Connection, base_dir_id: int, train_id: str) -> list[Row[Any]]:
    """Return every generation of every log file of a job, by name and generation."""
    mine = (train_job.c.base_dir_id == base_dir_id) & (train_job.c.train_id == train_id)
    query = select(log_file).join_from(log_file, train_job).where(mine)
    return list(connection.execute(query.order_by(log_file.c.name, log_file.c.generation)))


def has_lineage(connection: Connection, job_id: int) -> bool:
    """Return whether the job has a row of lineage."""
    return connection.execute(select(lineage.c.job_id).where(lineage.c.job_id == job_id)).first() is not None


def problems_of_job(
    connection: Connection, base_dir_id: int, train_id: str, job_id: int | None
) -> Sequence[Any]:
    """Return the open problems of a job's log files, its directory, and entries in it that are not in the store."""
    directory = relative_path(train_id)
    entry = func.substr(ingest_problem.c.path, 1, len(directory) + 1) == f"{directory}/"
    concerned = _OF_NO_LOG_FILE & ((ingest_problem.c.path == directory) | entry)
    if job_id is not None:
        concerned |= ingest_problem.c.job_id == job_id
    return _open_problems(connection, base_dir_id, concerned)


def problems_of_file(
    connection: Connection, base_dir_id: int, train_id: str, name: str, file: FileKey | None
) -> Sequence[Any]:
    """Return the open problems of a log file: by its path, and by `file` if the store has it."""
    concerned = _OF_NO_LOG_FILE & (ingest_problem.c.path == relative_path(train_id, name))
    if file is not None:
        concerned |= in_file(ingest_problem, file)
    return _open_problems(connection, base_dir_id, concerned)


def _open_problems(connection: Connection, base_dir_id: int, concerned: ColumnElement[bool]) -> Sequence[Any]:
    ours = (ingest_problem.c.base_dir_id == base_dir_id) & ingest_problem.c.resolved_at.is_(None)
    told = select(
        *(ingest_problem.c[name] for name in ("path", "kind", "reason", "remedy", "count", "bytes"))
    ).distinct()
    return connection.execute(told.where(ours, concerned).order_by(ingest_problem.c.path)).all()
