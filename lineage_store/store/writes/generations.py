"""Generations of rewritten log files: readers see the old one until the new one has been read, and never a mix.

In: log files. Out: the switch to a new generation, and the bounded removal of the old ones' rows.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, select, update

from lineage_store.states import FileEvent, FileState
from lineage_store.store.catalog.registry import UNSETTLED
from lineage_store.store.database.dialects import among
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.tables import in_file, log_file, series, train_job
from lineage_store.store.shards import ALL, Shards
from lineage_store.store.writes import copies, problems
from lineage_store.store.writes.file_states import after_event
from lineage_store.store.writes.removal import remove_series


def make_current(connection: Connection, file: KnownFile) -> None:
    """Let readers see this generation of a file instead of the older ones, whose rows are to be removed."""
    # Asked for first, because SQLite finds names by an index only in a SELECT.
    generations = select(log_file.c.file_no).where(
        log_file.c.job_id == file.job_id, log_file.c.name == file.name
    )
    older = connection.execute(generations.where(log_file.c.file_no != file.file_no)).scalars().all()
    if older:
        mine = (log_file.c.job_id == file.job_id) & among(connection, log_file.c.file_no, older)
        supersede(connection, file.job_id, mine, file.file_no)
    connection.execute(update(log_file).where(in_file(log_file, file.key)).values(current=True))


def abandon(connection: Connection, file: KnownFile) -> None:
    """Give up a generation that was rewritten again before it was read."""
    supersede(connection, file.job_id, in_file(log_file, file.key) & ~log_file.c.current, file.file_no)


def supersede(connection: Connection, job_id: int, which: ColumnElement[bool], newer_no: int) -> None:
    """Hide generations from readers, and delete their problems, so that no view has to filter these.

    Their copies are compared with the file `newer_no`.
    """
    superseded = after_event(FileEvent.SUPERSEDED, which).values(current=False).returning(log_file.c.file_no)
    numbers = connection.execute(superseded).scalars().all()
    problems.forget_files(connection, job_id, numbers)
    copies.compare_anew(connection, job_id, numbers, newer_no)


def any_replaced(connection: Connection, base_dir_id: int, shards: Shards = ALL) -> bool:
    """Whether replaced generations still have rows."""
    return _one_replaced(connection, base_dir_id, shards) is not None


def remove_replaced(connection: Connection, base_dir_id: int, shards: Shards, most_rows: int) -> bool:
    """Remove at most about `most_rows` rows of a replaced generation; return whether there may be more to remove."""
    file = _one_replaced(connection, base_dir_id, shards)
    if file is None:
        return False
    job_id, file_no = file
    most_rows = remove_series(connection, job_id, most_rows, series.c.file_no == file_no)
    if most_rows > 0:
        connection.execute(delete(log_file).where(in_file(log_file, (job_id, file_no))))
    return True


def _one_replaced(connection: Connection, base_dir_id: int, shards: Shards) -> Row[Any, Any] | None:
    return connection.execute(
        select(log_file.c.job_id, log_file.c.file_no)
        .join_from(log_file, train_job)
        .where(*shards.conditions(base_dir_id), UNSETTLED, log_file.c.state == FileState.REPLACED)
        .limit(1)
    ).first()
