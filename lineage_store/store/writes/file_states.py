"""The states of log files after all events but a successful read: missing, unreadable, to be tried again.

In: log files, and an event of `states.py`. Out: their new state. Promises: a file changes its state only as the
transitions in `states.py` allow. The state after a read is written with the bookmark (bookmarks.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import ColumnElement, Connection, Update, update

from lineage_store.states import FILE_TRANSITIONS, TROUBLED, FileEvent
from lineage_store.store.database.dialects import among_rows
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.tables import in_file, log_file
from lineage_store.store.writes import revisions


def mark_missing(connection: Connection, files: Iterable[KnownFile]) -> None:
    """Mark all generations of log files as missing from the disk."""
    paths = ((file.job_id, file.name) for file in files)
    gone = after_event(FileEvent.GONE, among_rows(connection, (log_file.c.job_id, log_file.c.name), paths))
    connection.execute(gone.values(stat_stamp=None, last_problem="no longer on disk"))


def mark_unreadable(connection: Connection, reasons: Mapping[KnownFile, str], event: FileEvent) -> None:
    """Mark log files that could not be read, each with the reason."""
    for file, reason in reasons.items():
        failed = after_event(event, in_file(log_file, file.key))
        connection.execute(failed.values(stat_stamp=None, last_problem=reason))


def mark_failed_read(
    connection: Connection, file: KnownFile, failed_reads: int, reason: str, event: FileEvent
) -> None:
    """Mark a log file whose reading failed the reader `failed_reads` times in a row."""
    failed = after_event(event, in_file(log_file, file.key))
    connection.execute(failed.values(failed_reads=failed_reads, stat_stamp=None, last_problem=reason))


def after_event(event: FileEvent, which: ColumnElement[bool]) -> Update:
    """Return the statement that gives log files their state after an event, if it can follow their present state."""
    transition = FILE_TRANSITIONS[event]
    befalls = log_file.c.state.in_(sorted(transition.before))
    return update(log_file).where(which, befalls).values(state=transition.after)


def in_trouble(file: KnownFile) -> bool:
    """Whether more of the file than its incomplete end is not in the store."""
    return file.state in TROUBLED or file.quarantined_bytes > 0


def look_again(connection: Connection, base_dir_id: int, files: Collection[KnownFile]) -> None:
    """Have the next pass open these files even if they have not changed."""
    mine = among_rows(connection, (log_file.c.job_id, log_file.c.file_no), (file.key for file in files))
    connection.execute(update(log_file).where(mine).values(stat_stamp=None, failed_reads=0))
    connection.execute(after_event(FileEvent.RETRIED, mine))
    revisions.stamp(connection, base_dir_id, {file.job_id for file in files})
