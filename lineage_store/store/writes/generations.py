"""Generations of rewritten files: readers see the old one until the new one is read, and never a mix.

In: log files. Out: the switch, and the bounded removal of what it left behind.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from lineage_store.states import FileEvent, FileState
from lineage_store.store.catalog.registry import UNSETTLED
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.tables import ingest_problem, log_file, series, train_job
from lineage_store.store.shards import ALL, Shards
from lineage_store.store.writes.file_states import after_event
from lineage_store.store.writes.removal import remove_series


def make_current(connection: Connection, file: KnownFile) -> None:
    """Let readers see this generation of a file instead of the older ones, whose rows may go from now on."""
    generations = (log_file.c.job_id == file.job_id) & (log_file.c.name == file.name)
    this = log_file.c.file_no == file.file_no
    connection.execute(after_event(FileEvent.SUPERSEDED, generations & ~this).values(current=False))
    connection.execute(update(log_file).where(generations, this).values(current=True))


def abandon(connection: Connection, file: KnownFile) -> None:
    """Give up a generation that was rewritten again before it was read."""
    this = (log_file.c.job_id == file.job_id) & (log_file.c.file_no == file.file_no)
    connection.execute(after_event(FileEvent.SUPERSEDED, this & ~log_file.c.current))


def any_replaced(connection: Connection, base_dir_id: int, shards: Shards = ALL) -> bool:
    """Whether replaced generations still have rows."""
    return _one_replaced(connection, base_dir_id, shards) is not None


def remove_replaced(connection: Connection, base_dir_id: int, shards: Shards, most_rows: int) -> bool:
    """Remove at most about `most_rows` rows of replaced generations; whether there is more to remove."""
    file = _one_replaced(connection, base_dir_id, shards)
    if file is None:
        return False
    of_file = (series.c.job_id == file.job_id) & (series.c.file_no == file.file_no)
    most_rows = remove_series(connection, of_file, most_rows)
    if most_rows > 0:
        for table in (ingest_problem, log_file):  # between which a distributed store has no foreign key
            this = (table.c.job_id == file.job_id) & (table.c.file_no == file.file_no)
            connection.execute(delete(table).where(this))
    return True


def _one_replaced(connection: Connection, base_dir_id: int, shards: Shards) -> Row[Any, Any] | None:
    return connection.execute(
        select(log_file.c.job_id, log_file.c.file_no)
        .join_from(log_file, train_job, train_job.c.id == log_file.c.job_id)
        .where(train_job.c.base_dir_id == base_dir_id, UNSETTLED, log_file.c.state == FileState.REPLACED)
        .where(*shards.conditions())
        .limit(1)
    ).first()
