"""Generations of rewritten files: readers see the old one until the new one is read, and never a mix.

In: ids of log files. Out: the switch, and the bounded removal of what it left behind.
"""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from lineage_store.states import FileEvent, FileState
from lineage_store.store.catalog.registry import UNSETTLED
from lineage_store.store.schema.tables import log_file, series, train_job
from lineage_store.store.writes.file_states import after_event
from lineage_store.store.writes.segments import remove_series


def make_current(connection: Connection, file_id: int) -> None:
    """Let readers see this generation of a file instead of the older ones, whose rows may go from now on."""
    new = connection.execute(select(log_file.c.job_id, log_file.c.name).where(log_file.c.id == file_id)).one()
    others = (log_file.c.job_id == new.job_id) & (log_file.c.name == new.name) & (log_file.c.id != file_id)
    connection.execute(after_event(FileEvent.SUPERSEDED, others).values(current=False))
    connection.execute(update(log_file).where(log_file.c.id == file_id).values(current=True))


def abandon(connection: Connection, file_id: int) -> None:
    """Give up a generation that was rewritten again before it was read."""
    waiting = (log_file.c.id == file_id) & ~log_file.c.current
    connection.execute(after_event(FileEvent.SUPERSEDED, waiting))


def any_replaced(connection: Connection, base_dir_id: int) -> bool:
    """Whether replaced generations still have rows."""
    return _one_replaced(connection, base_dir_id) is not None


def remove_replaced(connection: Connection, base_dir_id: int, most_rows: int) -> bool:
    """Remove at most about `most_rows` rows of replaced generations; whether there is more to remove."""
    file_id = _one_replaced(connection, base_dir_id)
    if file_id is None:
        return False
    most_rows = remove_series(connection, series.c.log_file_id == file_id, most_rows)
    if most_rows > 0:
        connection.execute(delete(log_file).where(log_file.c.id == file_id))
    return True


def _one_replaced(connection: Connection, base_dir_id: int) -> int | None:
    return connection.execute(
        select(log_file.c.id)
        .join_from(log_file, train_job, train_job.c.id == log_file.c.job_id)
        .where(train_job.c.base_dir_id == base_dir_id, UNSETTLED, log_file.c.state == FileState.REPLACED)
        .limit(1)
    ).scalar()
