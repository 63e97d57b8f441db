"""What becomes of log files beside being read: gone, unreadable, tried again.

In: ids of log files, and an event of states. Out: their new state. Promises: no file takes a state that the table
of states does not give it. What reading comes to is written with the bookmark (bookmarks.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import ColumnElement, Connection, Update, bindparam, select, tuple_, update

from lineage_store.states import FILE_TRANSITIONS, TROUBLED, FileEvent
from lineage_store.store.database.dialects import among
from lineage_store.store.records import KnownFile
from lineage_store.store.schema.tables import log_file


def mark_missing(connection: Connection, ids: Iterable[int]) -> None:
    """Log files that are no longer on disk, whatever their generation, keep their rows."""
    path = tuple_(log_file.c.job_id, log_file.c.name)
    paths = select(log_file.c.job_id, log_file.c.name).where(among(connection, log_file.c.id, ids))
    gone = after_event(FileEvent.GONE, path.in_(paths))
    connection.execute(gone.values(stat_stamp=None, last_problem="no longer on disk"))


def mark_unreadable(connection: Connection, reasons: Mapping[int, str]) -> None:
    """Log files that could not be read, with the reason; they are tried again."""
    rows = [{"of_id": file_id, "reason": reason} for file_id, reason in reasons.items()]
    failed = after_event(FileEvent.FAILED, log_file.c.id == bindparam("of_id"))
    connection.execute(failed.values(stat_stamp=None, last_problem=bindparam("reason")), rows)


def mark_struck(connection: Connection, file_id: int, strikes: int, reason: str, event: FileEvent) -> None:
    """A log file whose reading failed the reader so many times in a row."""
    struck = after_event(event, log_file.c.id == file_id)
    connection.execute(struck.values(strikes=strikes, stat_stamp=None, last_problem=reason))


def after_event(event: FileEvent, which: ColumnElement[bool]) -> Update:
    """The statement that gives some log files their state after an event; others keep theirs."""
    transition = FILE_TRANSITIONS[event]
    befalls = log_file.c.state.in_(sorted(transition.before))
    return update(log_file).where(which, befalls).values(state=transition.after)


def in_trouble(file: KnownFile) -> bool:
    """Whether something of the file is not in the store, and more than its pending end."""
    return file.state in TROUBLED or file.quarantined_bytes > 0


def look_again(connection: Connection, file_ids: Iterable[int]) -> None:
    """Let the next pass open these files, though they look as they did."""
    mine = among(connection, log_file.c.id, file_ids)
    connection.execute(update(log_file).where(mine).values(stat_stamp=None, strikes=0))
    connection.execute(after_event(FileEvent.RETRIED, mine))
