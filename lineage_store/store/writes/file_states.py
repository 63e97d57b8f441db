"""What becomes of log files beside being read: gone, unreadable, tried again.

In: log files, and an event of states. Out: their new state. Promises: no file takes a state that the table
of states does not give it. What reading comes to is written with the bookmark (bookmarks.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import ColumnElement, Connection, Update, and_, bindparam, update

from lineage_store.states import FILE_TRANSITIONS, TROUBLED, FileEvent
from lineage_store.store.database.dialects import among_rows
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.tables import log_file
from lineage_store.store.writes import revisions


def mark_missing(connection: Connection, files: Iterable[KnownFile]) -> None:
    """Log files that are no longer on disk, whatever their generation, keep their rows."""
    paths = ((file.job_id, file.name) for file in files)
    gone = after_event(FileEvent.GONE, among_rows(connection, (log_file.c.job_id, log_file.c.name), paths))
    connection.execute(gone.values(stat_stamp=None, last_problem="no longer on disk"))


def mark_unreadable(connection: Connection, reasons: Mapping[KnownFile, str], event: FileEvent) -> None:
    """Log files that could not be read, with the reason."""
    rows = [
        {"of_job_id": file.job_id, "of_file_no": file.file_no, "reason": reason}
        for file, reason in reasons.items()
    ]
    this = and_(*(log_file.c[name] == bindparam(f"of_{name}") for name in ("job_id", "file_no")))
    failed = after_event(event, this)
    connection.execute(failed.values(stat_stamp=None, last_problem=bindparam("reason")), rows)


def mark_failed_read(
    connection: Connection, file: KnownFile, failed_reads: int, reason: str, event: FileEvent
) -> None:
    """A log file whose reading failed the reader so many times in a row."""
    failed = after_event(event, (log_file.c.job_id == file.job_id) & (log_file.c.file_no == file.file_no))
    connection.execute(failed.values(failed_reads=failed_reads, stat_stamp=None, last_problem=reason))


def after_event(event: FileEvent, which: ColumnElement[bool]) -> Update:
    """The statement that gives some log files their state after an event; others keep theirs."""
    transition = FILE_TRANSITIONS[event]
    befalls = log_file.c.state.in_(sorted(transition.before))
    return update(log_file).where(which, befalls).values(state=transition.after)


def in_trouble(file: KnownFile) -> bool:
    """Whether something of the file is not in the store, and more than its pending end."""
    return file.state in TROUBLED or file.quarantined_bytes > 0


def look_again(connection: Connection, base_dir_id: int, files: Collection[KnownFile]) -> None:
    """Let the next pass open these files, though they look as they did."""
    mine = among_rows(connection, (log_file.c.job_id, log_file.c.file_no), (file.key for file in files))
    connection.execute(update(log_file).where(mine).values(stat_stamp=None, failed_reads=0))
    connection.execute(after_event(FileEvent.RETRIED, mine))
    revisions.stamp(connection, base_dir_id, {file.job_id for file in files})
